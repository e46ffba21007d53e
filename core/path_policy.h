#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace termalin {

/// A readable path of an allowlist host, such as "/var/log/**": `*` matches no slash, `**` may only
/// come last and means the folder itself with everything in it, and all other characters stand for
/// themselves.
class PathPattern {
public:
    /// Errors: InvalidArgument for a relative pattern, a "." or ".." component, an empty component, a `**`
    /// that is not last, a NUL.
    static Result<PathPattern> parse(std::string_view text);

    /// Whether the pattern admits `path`. A path that is relative, has a "." or ".." or empty component or a
    /// NUL never matches; one slash at the end is overlooked.
    [[nodiscard]] bool matches(std::string_view path) const;
    [[nodiscard]] std::string const& text() const noexcept { return m_text; }

private:
    std::string m_text;
    std::vector<std::string> m_components;
    bool m_below = false; ///< ends in "**"
};

/// Errors: NotInAllowlist with the asked path and that the person can list it with --allow-read.
[[nodiscard]] Result<std::string> admitPath(std::string_view path, std::span<PathPattern const> patterns);

} // namespace termalin
