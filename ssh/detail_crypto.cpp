#include "ssh/detail_crypto.h"

#include <array>
#include <mutex>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/param_build.h>

#include "ssh/public_key.h"
#include "ssh/wire.h"

namespace termalin::ssh {
namespace {

using ParamBuilder = std::unique_ptr<OSSL_PARAM_BLD, Freed<OSSL_PARAM_BLD_free>>;
using Params = std::unique_ptr<OSSL_PARAM, Freed<OSSL_PARAM_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>>;
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, Freed<EVP_CIPHER_CTX_free>>;
using EcdsaSignature = std::unique_ptr<ECDSA_SIG, Freed<ECDSA_SIG_free>>;

struct Curve {
    std::string_view ssh;
    char const* openssl;
};
constexpr std::array<Curve, 3> kCurves{{
    {"nistp256", "prime256v1"},
    {"nistp384", "secp384r1"},
    {"nistp521", "secp521r1"},
}};

EvpKey fromParams(char const* algorithm, OSSL_PARAM_BLD* builder)
{
    Params const params(OSSL_PARAM_BLD_to_param(builder));
    KeyContext const context(EVP_PKEY_CTX_new_from_name(nullptr, algorithm, nullptr));
    EVP_PKEY* key = nullptr;
    if (!params || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
        EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1)
        return nullptr;
    return EvpKey(key);
}

BigNumber bigNumber(std::string_view magnitude)
{
    return BigNumber(BN_bin2bn(bytesOf(magnitude), static_cast<int>(magnitude.size()), nullptr));
}

EvpKey rsaKey(WireReader& in)
{
    auto const e = in.mpint();
    auto const n = in.mpint();
    if (!in.done())
        return nullptr;
    auto const exponent = bigNumber(*e);
    auto const modulus = bigNumber(*n);
    ParamBuilder const builder(OSSL_PARAM_BLD_new());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get());
    return fromParams("RSA", builder.get());
}

EvpKey ecKey(WireReader& in)
{
    auto const name = in.string();
    auto const point = in.string();
    if (in.failed())
        return nullptr;
    for (auto const& curve : kCurves) {
        if (curve.ssh != *name)
            continue;
        ParamBuilder const builder(OSSL_PARAM_BLD_new());
        OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, curve.openssl, 0);
        OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point->data(),
                                         point->size());
        return fromParams("EC", builder.get());
    }
    return nullptr;
}

std::string magnitude(BIGNUM const* number)
{
    std::string bytes(static_cast<std::size_t>(BN_num_bytes(number)), '\0');
    BN_bn2bin(number, bytesOf(bytes));
    return bytes;
}

std::string parameter(EVP_PKEY* key, char const* name)
{
    BIGNUM* number = nullptr;
    if (EVP_PKEY_get_bn_param(key, name, &number) != 1)
        return {};
    return magnitude(BigNumber(number).get());
}

std::string ecBlob(EVP_PKEY* key)
{
    std::array<char, 64> group{};
    std::array<unsigned char, 133> x{}; // an uncompressed point of the largest curve
    std::size_t size = 0;
    if (EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group.data(), group.size(),
                                       nullptr) != 1)
        return {};
    // The encoding depends on how the key was stored; SSH wants the uncompressed point.
    EVP_PKEY_set_utf8_string_param(key, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "uncompressed");
    if (EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, x.data(), x.size(), &size) != 1)
        return {};
    for (auto const& curve : kCurves) {
        if (group.data() != std::string_view(curve.openssl) && group.data() != curve.ssh &&
            !(curve.ssh == "nistp256" && group.data() == std::string_view("P-256")))
            continue;
        return WireWriter()
            .string("ecdsa-sha2-" + std::string(curve.ssh))
            .string(curve.ssh)
            .string({reinterpret_cast<char const*>(x.data()), size})
            .bytes();
    }
    return {};
}

/// ECDSA: OpenSSL's DER to the two mpints of RFC 5656 3.1.2.
std::string ecdsaFromDer(std::string_view der)
{
    auto const* at = bytesOf(der);
    EcdsaSignature const signature(d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())));
    if (!signature)
        return {};
    return WireWriter()
        .mpint(magnitude(ECDSA_SIG_get0_r(signature.get())))
        .mpint(magnitude(ECDSA_SIG_get0_s(signature.get())))
        .bytes();
}

} // namespace

EvpKey publicEvpKey(std::string_view plainKey)
{
    WireReader in(plainKey);
    auto const type = in.string().value_or(std::string_view{});
    if (type == "ssh-rsa")
        return rsaKey(in);
    if (type.contains("ecdsa-sha2-"))
        return ecKey(in);
    if (type == "ssh-ed25519" || type == "sk-ssh-ed25519@openssh.com") {
        auto const raw = in.string();
        if (!raw || raw->size() != 32)
            return nullptr;
        return EvpKey(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytesOf(*raw), raw->size()));
    }
    return nullptr;
}

std::string sshBlob(EVP_PKEY* key)
{
    switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
        return WireWriter()
            .string("ssh-rsa")
            .mpint(parameter(key, OSSL_PKEY_PARAM_RSA_E))
            .mpint(parameter(key, OSSL_PKEY_PARAM_RSA_N))
            .bytes();
    case EVP_PKEY_EC: return ecBlob(key);
    case EVP_PKEY_ED25519: {
        std::string raw(32, '\0');
        auto size = raw.size();
        if (EVP_PKEY_get_raw_public_key(key, bytesOf(raw), &size) != 1)
            return {};
        return WireWriter().string("ssh-ed25519").string(raw).bytes();
    }
    default: return {};
    }
}

SignatureDigest signatureDigest(std::string_view algorithm)
{
    if (algorithm == "ssh-ed25519")
        return {true, nullptr};
    if (algorithm == "rsa-sha2-512" || algorithm == "ecdsa-sha2-nistp521")
        return {true, EVP_sha512()};
    if (algorithm == "ecdsa-sha2-nistp384")
        return {true, EVP_sha384()};
    if (algorithm == "rsa-sha2-256" || algorithm == "ecdsa-sha2-nistp256")
        return {true, EVP_sha256()};
    if (algorithm == "ssh-rsa")
        return {true, EVP_sha1()};
    return {};
}

std::string signWith(EVP_PKEY* key, std::string_view algorithm, std::string_view data)
{
    auto const [known, digest] = signatureDigest(algorithm);
    EvpDigest const context(EVP_MD_CTX_new());
    std::size_t size = 0;
    if (!known || !context || EVP_DigestSignInit(context.get(), nullptr, digest, nullptr, key) != 1 ||
        EVP_DigestSign(context.get(), nullptr, &size, bytesOf(data), data.size()) != 1)
        return {};
    std::string raw(size, '\0');
    if (EVP_DigestSign(context.get(), bytesOf(raw), &size, bytesOf(data), data.size()) != 1)
        return {};
    raw.resize(size);
    if (algorithm.starts_with("ecdsa"))
        raw = ecdsaFromDer(raw);
    return raw.empty() ? std::string{} : WireWriter().string(algorithm).string(raw).bytes();
}

void warmUpCrypto()
{
    static std::once_flag once;
    std::call_once(once, [] {
        // What is made here is thrown away: the first use of each algorithm is what takes long.
        EvpKey const exchange(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"));
        KeyContext const context(exchange ? EVP_PKEY_CTX_new(exchange.get(), nullptr) : nullptr);
        std::array<unsigned char, 32> secret{};
        auto size = secret.size();
        if (context && EVP_PKEY_derive_init(context.get()) == 1 &&
            EVP_PKEY_derive_set_peer(context.get(), exchange.get()) == 1)
            EVP_PKEY_derive(context.get(), secret.data(), &size);
        EvpKey const signer(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
        if (signer) {
            auto const signature = signWith(signer.get(), "ssh-ed25519", "warm");
            static_cast<void>(verifySignature(sshBlob(signer.get()), signature, "warm"));
        }
        std::array<unsigned char, 64> digest{};
        for (auto const* const kind : {EVP_sha256(), EVP_sha512()})
            EVP_Digest("", 0, digest.data(), nullptr, kind, nullptr);
        Cipher const cipher(EVP_CIPHER_CTX_new());
        for (auto const* const kind :
             {EVP_aes_256_gcm(), EVP_aes_128_gcm(), EVP_chacha20(), EVP_aes_256_ctr()})
            EVP_EncryptInit_ex(cipher.get(), kind, nullptr, secret.data(), secret.data());
    });
}

std::string sha256(std::string_view data)
{
    std::string hash(32, '\0');
    EVP_Digest(data.data(), data.size(), bytesOf(hash), nullptr, EVP_sha256(), nullptr);
    return hash;
}

} // namespace termalin::ssh
