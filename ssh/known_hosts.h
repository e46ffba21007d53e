#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "ssh/target.h"

namespace termalin::ssh {

/// A server's key or certificate as it came in the key exchange.
struct ServerKey {
    std::string type; ///< As in the blob: "ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa",
                      ///< "ssh-ed25519-cert-v01@openssh.com".
    std::string blob; ///< SSH wire form, RFC 4253 6.6.
};

/// "SHA256:" and the unpadded base64 of the SHA-256 of the blob, as ssh-keygen -l prints it: of a
/// certificate, the key inside.
[[nodiscard]] std::string fingerprint(std::string_view keyBlob);

/// What a server is looked up as in known_hosts.
struct KnownHostsName {
    std::string host;
    std::uint16_t port = 22;
};
/// The name to give to check(), knownTypes() and trustHostKey(): HostKeyAlias alone where there is one (ssh
/// adds no port to it), else the host name in lower case with its port.
[[nodiscard]] KnownHostsName knownHostsName(Target const& target);

enum class HostKeyVerdict : std::uint8_t {
    Trusted,
    NewHost,        ///< Nothing is known of this name.
    NewType,        ///< The name is known, but by keys of other types only.
    Changed,        ///< Another key of this type is recorded.
    Revoked,        ///< The key, or the authority that signed it, is marked @revoked.
    BadCertificate, ///< A host certificate that does not hold: principals, validity, options, signature or
                    ///< unknown authority.
};

struct HostKeyAnswer {
    HostKeyVerdict verdict = HostKeyVerdict::NewHost;
    std::string where;                          ///< "FILE:LINE" of the line that decided.
    std::vector<std::string> knownFingerprints; ///< Of the recorded keys of the same type, for Changed.
    std::string detail;                         ///< For BadCertificate: what does not hold.
};

/// The trusted keys: the person's known_hosts files, read only, and our own. The format is sshd(8),
/// "SSH_KNOWN_HOSTS FILE FORMAT": hashed names, [host]:port, wildcards, negation, @revoked, @cert-authority.
/// Lines that do not parse are passed over, as ssh does, and named by problems(). Immutable once loaded; load
/// again to see changes.
class KnownHosts {
public:
    /// Missing files are empty ones. Errors: PermissionDenied for one that is there and cannot be read: trust
    /// must not shrink (an @revoked line lost) unseen; TooLarge above 64 MiB.
    static Result<KnownHosts> load(std::span<std::filesystem::path const> files);
    /// The same from text, for tests and fuzzing; `name` stands in for the file.
    static KnownHosts parse(std::string_view text, std::string_view name);

    /// What is known of `key` for a server asked for as `host` (HostKeyAlias, else the name or address it was
    /// given as) and `port`. Where nothing is recorded for a port other than 22, what is recorded for the
    /// host without a port counts, as in ssh. `now`: seconds since 1970, for certificates.
    [[nodiscard]] HostKeyAnswer check(std::string_view host, std::uint16_t port, ServerKey const& key,
                                      std::int64_t now) const;

    /// Key types recorded for this server, certificate types for a matching @cert-authority included, best
    /// first: offered before all others, so that a server with several keys shows one that is known.
    [[nodiscard]] std::vector<std::string> knownTypes(std::string_view host, std::uint16_t port) const;

    [[nodiscard]] std::vector<std::string> const& problems() const noexcept { return m_problems; }

private:
    struct Line {
        enum class Marker : std::uint8_t { None, CertAuthority, Revoked } marker = Marker::None;
        std::string names; ///< the patterns, or the hashed form
        ServerKey key;     ///< the blob without a certificate, in its one canonical form
        std::string where;
    };
    void add(std::string_view text, std::string_view name);
    void addLine(std::string_view line, std::string where);
    [[nodiscard]] std::vector<Line const*> matching(Line::Marker marker, std::string_view name) const;
    [[nodiscard]] HostKeyAnswer checkCertificate(std::span<std::string const> names, std::string_view host,
                                                 std::string_view blob, std::int64_t now) const;
    [[nodiscard]] HostKeyAnswer checkPlain(std::string_view name, std::string_view plain) const;

    std::vector<Line> m_lines;
    std::vector<std::string> m_problems;
};

/// Adds a line for the key to `file`, our own one: mode 0600, under a lock, atomically; nothing is added
/// twice. The name is written as known_hosts has it ("[host]:port" for a port other than 22), a certificate
/// as the key inside. A missing parent folder is made, private. Errors: PermissionDenied, NoSpace,
/// InvalidArgument (a name or key that known_hosts cannot hold), HostKeyRevoked (`file` says so).
Result<void> trustHostKey(std::filesystem::path const& file, std::string_view host, std::uint16_t port,
                          ServerKey const& key);

/// Replaces every key of `host` and `port` in `file` (our own) by `key`: after a person has said that the
/// server's key did change. Names that share a line with it keep theirs. Errors: as trustHostKey.
Result<void> replaceHostKey(std::filesystem::path const& file, std::string_view host, std::uint16_t port,
                            ServerKey const& key);

} // namespace termalin::ssh
