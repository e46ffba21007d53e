#include "ssh/detail_algorithms.h"

#include <libssh2.h>
#include <string>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace termalin::ssh {

namespace {

/// Without it AES is slow, and its running time may depend on the key.
bool cpuHasAes()
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("aes") != 0;
#elif defined(__aarch64__)
    return (::getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
    return false;
#endif
}

} // namespace

void preferAlgorithms(LIBSSH2_SESSION* session)
{
    std::string const gcm = "aes128-gcm@openssh.com,aes256-gcm@openssh.com";
    std::string const chacha = "chacha20-poly1305@openssh.com";
    auto const ciphers =
        (cpuHasAes() ? gcm + ',' + chacha : chacha + ',' + gcm) + ",aes128-ctr,aes192-ctr,aes256-ctr";
    auto const* const macs = "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,"
                             "hmac-sha1-etm@openssh.com,hmac-sha2-256,hmac-sha2-512,hmac-sha1";
    for (auto const method : {LIBSSH2_METHOD_CRYPT_CS, LIBSSH2_METHOD_CRYPT_SC})
        libssh2_session_method_pref(session, method, ciphers.c_str());
    for (auto const method : {LIBSSH2_METHOD_MAC_CS, LIBSSH2_METHOD_MAC_SC})
        libssh2_session_method_pref(session, method, macs);
}

} // namespace termalin::ssh
