#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "ssh/detail_crypto.h"
#include "ssh/key_file.h"

namespace termalin::ssh::detail {

/// What stands unencrypted in a private key in OpenSSH's form (PROTOCOL.key).
struct OpenSshKey {
    std::string cipher;
    std::string kdf;
    std::string kdfOptions;
    std::string publicKey;
    std::string_view sealed; ///< Within the bytes that were parsed.
    std::string_view tag;    ///< What follows: an authentication tag, or nothing.
};
/// Empty text in `publicKey`: damaged.
[[nodiscard]] OpenSshKey parseOpenSshKey(std::string_view bytes);

/// The private key. `path` is for messages.
[[nodiscard]] std::expected<EvpKey, KeyFileError>
openOpenSshKey(OpenSshKey const& key, Secret const* passphrase, std::string const& path);

} // namespace termalin::ssh::detail
