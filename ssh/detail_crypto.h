#pragma once

#include <cstdint>
#include <memory>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <string>
#include <string_view>

namespace termalin::ssh {

/// Calls an OpenSSL function that frees.
template <auto function>
struct Freed {
    template <class T>
    void operator()(T* object) const noexcept
    {
        function(object);
    }
};
using EvpKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using EvpDigest = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using BigNumber = std::unique_ptr<BIGNUM, Freed<BN_clear_free>>;

/// The public key of a plain SSH key blob; null if OpenSSL does not take it. sk- keys give the key inside.
[[nodiscard]] EvpKey publicEvpKey(std::string_view plainKey);

/// The SSH wire form of the public half of an OpenSSL key; empty for one that SSH has no type for.
[[nodiscard]] std::string sshBlob(EVP_PKEY* key);

/// The digest that a signature algorithm of SSH uses: "rsa-sha2-512" and so on. `known` is false for one that
/// is not supported; Ed25519 is known and has none.
struct SignatureDigest {
    bool known = false;
    EVP_MD const* digest = nullptr;
};
[[nodiscard]] SignatureDigest signatureDigest(std::string_view algorithm);

/// The signature in SSH wire form by a private key; empty if OpenSSL fails.
[[nodiscard]] std::string signWith(EVP_PKEY* key, std::string_view algorithm, std::string_view data);

/// Makes OpenSSL load what a login usually needs, once in a process; later calls return at once, or when the
/// first has ended. It takes about as long as a nearby server takes to say its first words, so it is called
/// while those are awaited. Any thread.
void warmUpCrypto();

[[nodiscard]] std::string sha256(std::string_view data);

inline unsigned char const* bytesOf(std::string_view text) noexcept
{
    return reinterpret_cast<unsigned char const*>(text.data());
}
inline unsigned char* bytesOf(std::string& text) noexcept
{
    return reinterpret_cast<unsigned char*>(text.data());
}

} // namespace termalin::ssh
