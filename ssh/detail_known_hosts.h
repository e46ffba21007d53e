#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace termalin::ssh::detail {

[[nodiscard]] std::string lowerCase(std::string_view text); ///< ASCII letters only, as ssh does.

/// "host", or "[host]:port" for a port other than 22.
[[nodiscard]] std::string recordedName(std::string_view host, std::uint16_t port);

/// One line of known_hosts. Without names: nothing to see (empty, a comment), or `problem` says what is
/// wrong.
struct SplitLine {
    std::string marker; ///< "@cert-authority", "@revoked" or empty.
    std::string names;
    char const* before = nullptr; ///< Where the names begin in the line.
    std::string keyType;          ///< As in the key; an old signature name is "ssh-rsa".
    std::string plainKey;
    std::string problem;
};
[[nodiscard]] SplitLine splitLine(std::string_view line);

/// The two parts of "|1|salt|hash", decoded.
struct HashedName {
    std::string salt;
    std::string hash;
};
[[nodiscard]] std::optional<HashedName> parseHashed(std::string_view names);

/// Whether a list of patterns, or a hashed name, covers `name` ("host" or "[host]:port").
[[nodiscard]] bool matchesNames(std::string_view name, std::string_view names);

/// * and ?, in time that does not explode.
[[nodiscard]] bool matchesPattern(std::string_view text, std::string_view pattern);

} // namespace termalin::ssh::detail
