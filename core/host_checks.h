#pragma once

#include <string_view>

#include "core/hosts.h"

namespace termalin {

/// Whether `text` has the form of an id that the store chooses.
[[nodiscard]] bool looksLikeHostId(std::string_view text) noexcept;

/// Checks every field of a host that is about to be stored, but for what only the store can know (names in
/// use, jumps that exist). Errors: InvalidArgument names the field and says what is allowed.
Result<void> checkHost(Host const& host);

/// Rules, readable paths, tags and notes alone.
Result<void> checkForAgents(Host const& host);

} // namespace termalin
