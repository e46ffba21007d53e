#include "ssh/detail_openssh_key.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <libssh2.h>
#include <openssl/core_names.h>
#include <openssl/param_build.h>

#include "core/output_buffer.h"
#include "ssh/public_key.h"
#include "ssh/wire.h"

namespace termalin::ssh::detail {
namespace {

using Kind = KeyFileError::Kind;
using ParamBuilder = std::unique_ptr<OSSL_PARAM_BLD, Freed<OSSL_PARAM_BLD_free>>;
using Params = std::unique_ptr<OSSL_PARAM, Freed<OSSL_PARAM_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>>;
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, Freed<EVP_CIPHER_CTX_free>>;

constexpr std::string_view kMagic{"openssh-key-v1\0", 15};
constexpr std::uint32_t kMostRounds = 100'000; // hours; a hostile file shall not ask for more

struct Cipher {
    std::string_view name;
    EVP_CIPHER const* (*openssl)();
    std::size_t tag;
};
constexpr std::string_view kChaChaPoly = "chacha20-poly1305@openssh.com";
constexpr std::array<Cipher, 10> kCiphers{{
    {"aes256-ctr", EVP_aes_256_ctr, 0},
    {"aes256-cbc", EVP_aes_256_cbc, 0},
    {"aes192-ctr", EVP_aes_192_ctr, 0},
    {"aes192-cbc", EVP_aes_192_cbc, 0},
    {"aes128-ctr", EVP_aes_128_ctr, 0},
    {"aes128-cbc", EVP_aes_128_cbc, 0},
    {"aes256-gcm@openssh.com", EVP_aes_256_gcm, 16},
    {"aes128-gcm@openssh.com", EVP_aes_128_gcm, 16},
    {"3des-cbc", EVP_des_ede3_cbc, 0},
    {kChaChaPoly, EVP_chacha20, 16},
}};

/// Bytes of the key and what goes with it that the passphrase gives.
std::size_t derivedSize(Cipher const& cipher)
{
    if (cipher.name == kChaChaPoly) // a second key would be for a packet's length, which a file has not
        return 64;
    auto const* const type = cipher.openssl();
    return static_cast<std::size_t>(EVP_CIPHER_get_key_length(type)) +
           static_cast<std::size_t>(EVP_CIPHER_get_iv_length(type));
}

std::unexpected<KeyFileError> wrong(Kind kind, std::string message)
{
    return std::unexpected(KeyFileError{kind, std::move(message)});
}

std::unexpected<KeyFileError> damaged(std::string const& path)
{
    return wrong(Kind::Damaged,
                 fmt::format("\"{}\" is damaged: its private part does not read as a key", path));
}

/// ChaCha20 with this key and a nonce of zeros, from block `counter` on.
bool chaCha(std::string const& key, unsigned char counter, std::string_view in, std::string& out)
{
    std::string iv(16, '\0'); // the counter, little-endian, then the nonce
    iv[0] = static_cast<char>(counter);
    CipherContext const context(EVP_CIPHER_CTX_new());
    int size = 0;
    out.assign(in.size(), '\0');
    return context &&
           EVP_DecryptInit_ex(context.get(), EVP_chacha20(), nullptr, bytesOf(key), bytesOf(iv)) == 1 &&
           EVP_DecryptUpdate(context.get(), bytesOf(out), &size, bytesOf(in), static_cast<int>(in.size())) ==
               1;
}

/// As OpenSSH's PROTOCOL.chacha20poly1305 has it for a packet with the number 0 and no length: block 0 gives
/// the key of the tag, the text begins with block 1. Empty: as decrypt().
std::string decryptChaChaPoly(OpenSshKey const& key, std::string const& keyAndIv)
{
    std::string text;
    std::string tagKey;
    std::string tag(16, '\0');
    std::size_t size = 0;
    bool const fine =
        chaCha(keyAndIv, 0, std::string(32, '\0'), tagKey) &&
        EVP_Q_mac(nullptr, "POLY1305", nullptr, nullptr, nullptr, tagKey.data(), tagKey.size(),
                  bytesOf(key.sealed), key.sealed.size(), bytesOf(tag), tag.size(), &size) != nullptr &&
        size == key.tag.size() && CRYPTO_memcmp(tag.data(), key.tag.data(), size) == 0 &&
        chaCha(keyAndIv, 1, key.sealed, text);
    wipe(tagKey);
    if (!fine)
        wipe(text);
    return text;
}

/// The decrypted bytes; empty: OpenSSL does not do it, or an authentication tag is wrong.
std::string decrypt(Cipher const& cipher, OpenSshKey const& key, std::string& keyAndIv)
{
    if (cipher.name == kChaChaPoly)
        return decryptChaChaPoly(key, keyAndIv);
    auto const* const type = cipher.openssl();
    auto const keySize = static_cast<std::size_t>(EVP_CIPHER_get_key_length(type));
    std::string text(key.sealed.size(), '\0');
    CipherContext const context(EVP_CIPHER_CTX_new());
    int size = 0;
    int last = 0;
    bool fine = context && EVP_DecryptInit_ex(context.get(), type, nullptr, bytesOf(keyAndIv),
                                              bytesOf(keyAndIv) + keySize) == 1;
    fine = fine && EVP_CIPHER_CTX_set_padding(context.get(), 0) == 1;
    if (fine && cipher.tag > 0) {
        std::string tag(key.tag);
        fine = EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(cipher.tag),
                                   tag.data()) == 1;
    }
    fine = fine && EVP_DecryptUpdate(context.get(), bytesOf(text), &size, bytesOf(key.sealed),
                                     static_cast<int>(key.sealed.size())) == 1;
    fine = fine && EVP_DecryptFinal_ex(context.get(), bytesOf(text) + size, &last) == 1;
    if (!fine)
        wipe(text);
    return text;
}

std::expected<std::string, KeyFileError> unseal(OpenSshKey const& key, Secret const* passphrase,
                                                std::string const& path)
{
    if (key.cipher == "none")
        return std::string(key.sealed);
    auto const* const cipher =
        std::ranges::find_if(kCiphers, [&](Cipher const& row) { return row.name == key.cipher; });
    if (cipher == kCiphers.end() || key.kdf != "bcrypt")
        return wrong(
            Kind::Unsupported,
            fmt::format("\"{}\" is encrypted with {}, which cannot be read here. Encrypt it anew (ssh-keygen "
                        "-p -Z aes256-ctr), or load it into ssh-agent",
                        path, visible(key.cipher)));
    WireReader options(key.kdfOptions);
    auto const salt = options.string();
    auto const rounds = options.u32();
    if (!options.done() || salt->empty() || *rounds == 0 || *rounds > kMostRounds ||
        key.tag.size() != cipher->tag)
        return damaged(path);
    if (passphrase == nullptr || passphrase->empty())
        return wrong(Kind::NeedsPassphrase, fmt::format("\"{}\" needs its passphrase", path));
    std::string keyAndIv(derivedSize(*cipher), '\0');
    auto const secret = passphrase->reveal();
    if (termalin_libssh2_bcrypt_pbkdf(secret.data(), secret.size(), bytesOf(*salt), salt->size(),
                                      bytesOf(keyAndIv), keyAndIv.size(), *rounds) != 0)
        return damaged(path);
    auto text = decrypt(*cipher, key, keyAndIv);
    wipe(keyAndIv);
    WireReader in(text);
    auto const first = in.u32();
    auto const second = in.u32();
    if (in.failed() || *first != *second) {
        wipe(text);
        return wrong(Kind::WrongPassphrase, fmt::format("the passphrase of \"{}\" is wrong", path));
    }
    return text;
}

BigNumber secretNumber(std::string_view magnitude)
{
    BigNumber number(BN_secure_new());
    BN_bin2bn(bytesOf(magnitude), static_cast<int>(magnitude.size()), number.get());
    BN_set_flags(number.get(), BN_FLG_CONSTTIME);
    return number;
}

EvpKey keyPair(char const* algorithm, OSSL_PARAM_BLD* builder)
{
    Params const params(OSSL_PARAM_BLD_to_param(builder));
    KeyContext const context(EVP_PKEY_CTX_new_from_name(nullptr, algorithm, nullptr));
    EVP_PKEY* key = nullptr;
    if (!params || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
        EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_KEYPAIR, params.get()) != 1)
        return nullptr;
    return EvpKey(key);
}

EvpKey readRsa(WireReader& in)
{
    auto const n = in.mpint();
    auto const e = in.mpint();
    auto const d = in.mpint();
    auto const inverse = in.mpint();
    auto const p = in.mpint();
    auto const q = in.mpint();
    if (in.failed())
        return nullptr;
    auto const numN = secretNumber(*n);
    auto const numE = secretNumber(*e);
    auto const numD = secretNumber(*d);
    auto const numP = secretNumber(*p);
    auto const numQ = secretNumber(*q);
    auto const numInverse = secretNumber(*inverse);
    // The two exponents that RSA's short cut needs are not in the file.
    std::unique_ptr<BN_CTX, Freed<BN_CTX_free>> const context(BN_CTX_secure_new());
    BigNumber const dp(BN_secure_new());
    BigNumber const dq(BN_secure_new());
    BigNumber const less(BN_secure_new());
    bool const fine = BN_sub(less.get(), numP.get(), BN_value_one()) == 1 &&
                      BN_mod(dp.get(), numD.get(), less.get(), context.get()) == 1 &&
                      BN_sub(less.get(), numQ.get(), BN_value_one()) == 1 &&
                      BN_mod(dq.get(), numD.get(), less.get(), context.get()) == 1;
    if (!fine)
        return nullptr;
    ParamBuilder const builder(OSSL_PARAM_BLD_new());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, numN.get());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, numE.get());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_D, numD.get());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_FACTOR1, numP.get());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_FACTOR2, numQ.get());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_EXPONENT1, dp.get());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_EXPONENT2, dq.get());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_COEFFICIENT1, numInverse.get());
    return keyPair("RSA", builder.get());
}

EvpKey readEc(WireReader& in)
{
    auto const curve = in.string();
    auto const point = in.string();
    auto const secret = in.mpint();
    if (in.failed())
        return nullptr;
    auto const* const name = *curve == "nistp256"   ? "prime256v1"
                             : *curve == "nistp384" ? "secp384r1"
                             : *curve == "nistp521" ? "secp521r1"
                                                    : nullptr;
    if (name == nullptr)
        return nullptr;
    auto const number = secretNumber(*secret);
    ParamBuilder const builder(OSSL_PARAM_BLD_new());
    OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, name, 0);
    OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point->data(), point->size());
    OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_PRIV_KEY, number.get());
    return keyPair("EC", builder.get());
}

EvpKey readEd25519(WireReader& in)
{
    in.string(); // the public half, which the seed gives too
    auto const both = in.string();
    if (!both || both->size() != 64)
        return nullptr;
    return EvpKey(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytesOf(*both), 32));
}

} // namespace

OpenSshKey parseOpenSshKey(std::string_view bytes)
{
    OpenSshKey key;
    if (!bytes.starts_with(kMagic))
        return key;
    WireReader in(bytes.substr(kMagic.size()));
    auto const cipher = in.string();
    auto const kdf = in.string();
    auto const options = in.string();
    auto const count = in.u32();
    auto const publicKey = in.string();
    auto const sealed = in.string();
    if (in.failed() || *count != 1)
        return key;
    key.cipher = *cipher;
    key.kdf = *kdf;
    key.kdfOptions = *options;
    key.publicKey = plainKey(*publicKey).value_or(std::string{});
    key.sealed = *sealed;
    key.tag = in.rest();
    return key;
}

std::expected<EvpKey, KeyFileError> openOpenSshKey(OpenSshKey const& key, Secret const* passphrase,
                                                   std::string const& path)
{
    auto text = unseal(key, passphrase, path);
    if (!text)
        return std::unexpected(std::move(text).error());
    Secret const guarded(std::move(*text));
    WireReader in(guarded.reveal());
    in.u32();
    in.u32();
    auto const type = in.string();
    if (in.failed())
        return damaged(path);
    if (type->starts_with("sk-"))
        return wrong(
            Kind::Unsupported,
            fmt::format("\"{}\" is the handle of a security key, which only ssh-agent can use: run \"ssh-add "
                        "{}\"",
                        path, path));
    EvpKey read;
    if (*type == "ssh-ed25519")
        read = readEd25519(in);
    else if (*type == "ssh-rsa")
        read = readRsa(in);
    else if (type->starts_with("ecdsa-sha2-"))
        read = readEc(in);
    else
        return wrong(
            Kind::Unsupported,
            fmt::format("\"{}\" holds a key of the type {}, which is not supported", path, visible(*type)));
    if (!read || sshBlob(read.get()) != key.publicKey)
        return damaged(path);
    return read;
}

} // namespace termalin::ssh::detail
