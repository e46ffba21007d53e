#pragma once

struct _LIBSSH2_SESSION; // NOLINT(bugprone-reserved-identifier): libssh2's name for it

namespace termalin::ssh {

/// Says which ciphers and MACs are offered, best first: those that OpenSSH's client offers by itself, as far
/// as libssh2 has them. So no CBC (plaintext recovery, CVE-2008-5161), 3DES, RC4, MD5 or truncated MAC, which
/// libssh2 would offer by default. For before the handshake.
void preferAlgorithms(_LIBSSH2_SESSION* session);

} // namespace termalin::ssh
