#pragma once

#include <string_view>

namespace termalin {

/// Stands for a `*` in a pattern that has been parsed, where a quoted star is just a star. No text that is
/// matched ever has a NUL.
inline constexpr char kAnyRun = '\0';

/// Whether `text` is `pattern` with every kAnyRun replaced by some bytes, perhaps none, without a slash.
[[nodiscard]] bool matchesWildcard(std::string_view pattern, std::string_view text) noexcept;

} // namespace termalin
