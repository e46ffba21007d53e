#include "core/path_policy.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "core/output_buffer.h"
#include "core/wildcard.h"

namespace termalin {

namespace {

/// The components of an absolute path ("/" has none), or why it cannot be split.
std::expected<std::vector<std::string>, std::string_view> componentsOf(std::string_view path)
{
    if (!path.starts_with('/'))
        return std::unexpected("is not absolute (it must begin with /)");
    if (path.contains('\0'))
        return std::unexpected("has a NUL byte in it");
    std::vector<std::string> components;
    path.remove_prefix(1);
    while (!path.empty()) {
        auto const end = std::min(path.find('/'), path.size());
        auto const component = path.substr(0, end);
        if (component.empty())
            return std::unexpected("has an empty component (// or a / at the end)");
        if (component == "." || component == "..")
            return std::unexpected("has a component . or ..");
        components.emplace_back(component);
        if (end + 1 == path.size())
            return std::unexpected("has an empty component (// or a / at the end)");
        path.remove_prefix(std::min(end + 1, path.size()));
    }
    return components;
}

/// As asked by an agent, who may well end a folder with a slash.
std::string_view withoutLastSlash(std::string_view path)
{
    return path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
}

} // namespace

Result<PathPattern> PathPattern::parse(std::string_view text)
{
    auto const refuse = [&](std::string_view why) {
        return fail(
            Errc::InvalidArgument,
            fmt::format(
                "The readable path '{}' cannot be used: it {}. Write it like /var/log/* or /var/log/**.",
                visible(text), why));
    };
    auto components = componentsOf(text);
    if (!components)
        return refuse(components.error());
    PathPattern pattern;
    pattern.m_text = text;
    if (!components->empty() && components->back() == "**") {
        pattern.m_below = true;
        components->pop_back();
    }
    for (auto const& component : *components)
        if (component.contains("**"))
            return refuse("has a ** that is not the whole last component");
    pattern.m_components = *std::move(components);
    for (auto& component : pattern.m_components)
        std::ranges::replace(component, '*', kAnyRun);
    return pattern;
}

bool PathPattern::matches(std::string_view path) const
{
    auto const components = componentsOf(withoutLastSlash(path));
    if (!components || components->size() < m_components.size() ||
        (!m_below && components->size() > m_components.size()))
        return false;
    return std::equal(m_components.begin(), m_components.end(), components->begin(), matchesWildcard);
}

Result<std::string> admitPath(std::string_view path, std::span<PathPattern const> patterns)
{
    auto const asked = withoutLastSlash(path);
    if (auto const components = componentsOf(asked); !components)
        return fail(
            Errc::NotInAllowlist,
            fmt::format("The path '{}' {}. On a host with an allowlist only absolute paths without . and .. "
                        "are admitted.",
                        visible(path), components.error()));
    for (auto const& pattern : patterns)
        if (pattern.matches(asked))
            return std::string(asked);
    return fail(
        Errc::NotInAllowlist,
        fmt::format(
            "The path '{}' is not among the readable paths of this host. The person can list it with: "
            "termalin-mcp host set NAME --allow-read PATTERN (all patterns of the host, each with its own "
            "--allow-read).",
            visible(path)));
}

} // namespace termalin
