#include <algorithm>
#include <array>
#include <openssl/ecdsa.h>

#include "ssh/detail_crypto.h"
#include "ssh/public_key.h"
#include "ssh/wire.h"

namespace termalin::ssh {
namespace {

using EcdsaSignature = std::unique_ptr<ECDSA_SIG, Freed<ECDSA_SIG_free>>;

std::string derFromEcdsa(std::string_view packed)
{
    WireReader in(packed);
    auto const r = in.mpint();
    auto const s = in.mpint();
    EcdsaSignature const signature(ECDSA_SIG_new());
    if (!in.done() || !signature ||
        ECDSA_SIG_set0(signature.get(), BN_bin2bn(bytesOf(*r), static_cast<int>(r->size()), nullptr),
                       BN_bin2bn(bytesOf(*s), static_cast<int>(s->size()), nullptr)) != 1)
        return {};
    unsigned char* encoded = nullptr;
    auto const size = i2d_ECDSA_SIG(signature.get(), &encoded);
    if (size <= 0)
        return {};
    std::string der(reinterpret_cast<char const*>(encoded), static_cast<std::size_t>(size));
    OPENSSL_free(encoded);
    return der;
}

bool holds(EVP_PKEY* key, EVP_MD const* digest, std::string_view signature, std::string_view data)
{
    EvpDigest const context(EVP_MD_CTX_new());
    return context && EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key) == 1 &&
           EVP_DigestVerify(context.get(), bytesOf(signature), signature.size(), bytesOf(data),
                            data.size()) == 1;
}

/// What a security key signs in place of the data (PROTOCOL.u2f): the hashes of application and data with the
/// flags and counter that came with the signature.
std::string securityKeyData(std::string_view plainKey, std::string_view flagsAndCounter,
                            std::string_view data)
{
    WireReader in(plainKey);
    auto const type = in.string().value_or(std::string_view{});
    in.string();
    if (type.starts_with("sk-ecdsa"))
        in.string();
    auto const application = in.string();
    if (!in.done())
        return {};
    return sha256(*application) + std::string(flagsAndCounter) + sha256(data);
}

/// The one algorithm of each signature that a key of `type` may make.
bool fits(std::string_view type, std::string_view algorithm)
{
    return type == "ssh-rsa" ? algorithm == "rsa-sha2-256" || algorithm == "rsa-sha2-512" : algorithm == type;
}

} // namespace

bool verifySignature(std::string_view plainKey, std::string_view signature, std::string_view data)
{
    auto const type = blobType(plainKey);
    WireReader in(signature);
    auto const algorithm = in.string();
    auto const raw = in.string();
    if (in.failed() || !fits(type, *algorithm))
        return false;
    auto const key = publicEvpKey(plainKey);
    if (!key)
        return false;

    std::string bytes(*raw);
    if (algorithm->contains("ecdsa"))
        bytes = derFromEcdsa(*raw);
    else if (type == "ssh-rsa") // leading zeros may have been left out (RFC 3447 lets no one, some do)
        bytes.insert(0,
                     static_cast<std::size_t>(
                         std::max(0, EVP_PKEY_get_size(key.get()) - static_cast<int>(raw->size()))),
                     '\0');
    if (type.starts_with("sk-")) {
        if (in.rest().size() != 5) // a byte of flags, four of counter
            return false;
        auto const whole = securityKeyData(plainKey, in.rest(), data);
        return !whole.empty() &&
               holds(key.get(), type.starts_with("sk-ecdsa") ? EVP_sha256() : nullptr, bytes, whole);
    }
    return in.done() && holds(key.get(), signatureDigest(*algorithm).digest, bytes, data);
}

std::string whyNotFor(Certificate const& certificate, std::string_view host, std::int64_t now)
{
    static constexpr std::array<std::string_view, 8> kGoodSignatures{"ssh-ed25519",
                                                                     "ecdsa-sha2-nistp256",
                                                                     "ecdsa-sha2-nistp384",
                                                                     "ecdsa-sha2-nistp521",
                                                                     "rsa-sha2-256",
                                                                     "rsa-sha2-512",
                                                                     "sk-ssh-ed25519@openssh.com",
                                                                     "sk-ecdsa-sha2-nistp256@openssh.com"};
    if (!certificate.forHost)
        return "it is a user certificate, not a host certificate";
    if (std::ranges::find(kGoodSignatures, certificate.signatureType) == kGoodSignatures.end())
        return "its authority signed it with \"" + certificate.signatureType +
               "\", which is no longer considered safe";
    if (!certificate.signatureHolds)
        return "its authority's signature is wrong";
    auto const time = static_cast<std::uint64_t>(std::max<std::int64_t>(now, 0));
    if (time < certificate.validAfter)
        return "it is not valid yet (check this computer's clock)";
    if (time >= certificate.validBefore)
        return "it has expired (or this computer's clock is wrong)";
    if (!certificate.principals.empty() &&
        std::ranges::find(certificate.principals, host) == certificate.principals.end()) {
        std::string names;
        for (auto const& principal : certificate.principals)
            names += (names.empty() ? "" : ", ") + principal;
        return "it is for " + names + " and not for " + std::string(host);
    }
    if (!certificate.criticalOptions.empty())
        return "it has the critical option \"" + certificate.criticalOptions.front() +
               "\", which host certificates do not have";
    return {};
}

} // namespace termalin::ssh
