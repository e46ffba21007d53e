#pragma once

#include <cstdint>
#include <expected>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/secret.h"
#include "ssh/credentials.h"

namespace termalin::ssh {

/// Why a key file cannot be used; the message names the file.
struct KeyFileError {
    enum class Kind : std::uint8_t {
        Missing,
        Unreadable,
        TooOpen,         ///< Others can read it. ssh does not use such a file, so neither do we.
        Damaged,         ///< Not a key, or cut short.
        Unsupported,     ///< A kind of key or of encryption that cannot be used here.
        NeedsPassphrase, ///< It is encrypted and no passphrase was given.
        WrongPassphrase,
    } kind;
    std::string message;
};

/// One private key file: OpenSSH's own form (PROTOCOL.key), or PEM (PKCS #1, SEC 1, PKCS #8), or only the
/// public half of a key whose private half an agent holds.
class KeyFile {
public:
    /// Reads and looks, decrypts nothing. Where there is no private file but FILE.pub, that counts, as in
    /// ssh.
    static std::expected<KeyFile, KeyFileError> read(std::filesystem::path const& file);

    [[nodiscard]] std::string const& path() const noexcept { return m_path; }
    /// The public key in wire form. Empty where only a passphrase could tell: an encrypted PEM file without
    /// FILE.pub.
    [[nodiscard]] std::string const& publicKey() const noexcept { return m_public; }
    [[nodiscard]] bool encrypted() const noexcept { return m_encrypted; }
    [[nodiscard]] bool hasPrivate() const noexcept { return m_form != Form::PublicOnly; }

    /// The key, ready to sign. `passphrase` may be null. Errors: NeedsPassphrase, WrongPassphrase, Damaged,
    /// Unsupported.
    [[nodiscard]] std::expected<std::shared_ptr<Signer>, KeyFileError> open(Secret const* passphrase) const;

private:
    enum class Form : std::uint8_t { OpenSsh, Pem, PublicOnly };

    std::string m_path;
    Form m_form = Form::PublicOnly;
    bool m_encrypted = false;
    std::string m_public;
    Secret m_content; ///< OpenSsh: the bytes inside the armour; Pem: the text
};

/// The key or certificate in the one line of a public key file ("ssh-ed25519 AAAA... comment"). Errors:
/// NotFound, PermissionDenied, InvalidArgument.
Result<std::string> readPublicKeyFile(std::filesystem::path const& file);

} // namespace termalin::ssh
