#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace termalin::ssh {

/// The first six name lists of a KEXINIT (RFC 4253 7.1): key exchange, host keys, ciphers to and from the
/// server, MACs to and from the server.
using KexLists = std::array<std::string, 6>;

/// Where a server's version line ("SSH-...") ends in what it sent first; empty: there is none.
[[nodiscard]] std::optional<std::size_t> findVersionLine(std::string_view bytes);

/// The lists of the unencrypted KEXINIT that follows the version line; empty if it is not whole.
[[nodiscard]] std::optional<KexLists> parseKexInit(std::string_view bytes);

/// Sentences that name each kind of algorithm where the two sides have nothing in common, with both sides'
/// offers; empty if there is none.
[[nodiscard]] std::string explainKexInit(KexLists const& theirs, KexLists const& ours);

} // namespace termalin::ssh
