#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace termalin::ssh {

/// Whether a key type names a certificate, such as "ssh-rsa-cert-v01@openssh.com".
[[nodiscard]] bool isCertificateType(std::string_view type) noexcept;
/// The type of the key inside: "ssh-rsa" of "ssh-rsa-cert-v01@openssh.com"; a plain type as it is. Empty: not
/// one that is known here.
[[nodiscard]] std::string_view plainType(std::string_view type) noexcept;

/// The type that a key or certificate in wire form says it has; empty if there is none.
[[nodiscard]] std::string_view blobType(std::string_view blob) noexcept;

/// The plain key of a key or certificate, written anew, so that two blobs hold the same key if and only if
/// these are equal. Empty: damaged, of an unknown type, or an RSA key of fewer than 1024 bits, which ssh
/// takes for damaged as well.
[[nodiscard]] std::optional<std::string> plainKey(std::string_view blob);

/// An OpenSSH certificate (PROTOCOL.certkeys), taken apart.
struct Certificate {
    bool forHost = false;
    std::uint64_t serial = 0;
    std::string keyId;
    std::vector<std::string> principals; ///< None: any.
    std::uint64_t validAfter = 0;        ///< Seconds since 1970, included.
    std::uint64_t validBefore = 0;       ///< Excluded.
    std::vector<std::string> criticalOptions;
    std::string authority;       ///< The plain key of who signed it.
    std::string signatureType;   ///< Such as "rsa-sha2-512".
    bool signatureHolds = false; ///< The authority's signature over all of it is right.
};

/// Empty: not a certificate, or damaged.
[[nodiscard]] std::optional<Certificate> parseCertificate(std::string_view blob);

/// Why a certificate does not vouch for a server called `host` at `now` (seconds since 1970); empty if it
/// does. Says nothing about whether its authority is trusted. The rules are ssh's: a host certificate whose
/// signature holds, within its time, for this name or for any, without critical options, and not signed with
/// SHA-1.
[[nodiscard]] std::string whyNotFor(Certificate const& certificate, std::string_view host, std::int64_t now);

/// Whether `signature` (wire form, RFC 4253 6.6) was made over `data` by the holder of `plainKey`.
[[nodiscard]] bool verifySignature(std::string_view plainKey, std::string_view signature,
                                   std::string_view data);

} // namespace termalin::ssh
