#include "core/vault_crypto.h"

#include <array>
#include <fmt/format.h>
#include <sodium.h>

namespace termalin {
namespace {

static_assert(LockedKey::kBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);
constexpr std::size_t kNonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kTagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::uint64_t kMostOperations = 16;
constexpr std::uint64_t kMostMemoryKiB = 1024U * 1024U;

unsigned char const* bytesOf(std::string_view text)
{
    return reinterpret_cast<unsigned char const*>(text.data());
}

unsigned char* bytesOf(std::string& text)
{
    return reinterpret_cast<unsigned char*>(text.data());
}

/// The owner's length keeps ("ab", "c") apart from ("a", "bc").
std::string additionalData(VaultPlace const& place)
{
    return fmt::format("termalin vault 1:{}:{}:{}", place.owner.size(), place.owner, place.name);
}

bool ready()
{
    static bool const done = sodium_init() >= 0;
    return done;
}

} // namespace

Result<LockedKey> LockedKey::make()
{
    auto* const bytes = ready() ? static_cast<unsigned char*>(sodium_malloc(kBytes)) : nullptr;
    if (bytes == nullptr)
        return fail(Errc::Internal,
                    "The system gave no memory to keep a key in. Close something, then try again.");
    sodium_memzero(bytes, kBytes);
    return LockedKey(bytes);
}

Result<LockedKey> LockedKey::random()
{
    TRY_LET(auto key, make());
    randombytes_buf(key.m_bytes, kBytes);
    return key;
}

Result<LockedKey> LockedKey::from(std::string_view bytes)
{
    if (bytes.size() != kBytes)
        return fail(Errc::InvalidArgument, fmt::format("A key has {} bytes, not {}.", kBytes, bytes.size()));
    TRY_LET(auto key, make());
    bytes.copy(reinterpret_cast<char*>(key.m_bytes), kBytes);
    return key;
}

LockedKey::~LockedKey()
{
    sodium_free(m_bytes); // wipes first
}

std::string seal(LockedKey const& key, VaultPlace const& place, std::string_view plain)
{
    auto const additional = additionalData(place);
    std::string sealed(kNonceBytes + plain.size() + kTagBytes, '\0');
    randombytes_buf(sealed.data(), kNonceBytes);
    crypto_aead_xchacha20poly1305_ietf_encrypt(bytesOf(sealed) + kNonceBytes, nullptr, bytesOf(plain),
                                               plain.size(), bytesOf(additional), additional.size(), nullptr,
                                               bytesOf(sealed), key.data());
    return sealed;
}

std::optional<Secret> unseal(LockedKey const& key, VaultPlace const& place, std::string_view sealed)
{
    if (sealed.size() < kNonceBytes + kTagBytes)
        return std::nullopt;
    auto const additional = additionalData(place);
    std::string plain(sealed.size() - kNonceBytes - kTagBytes, '\0');
    auto const cipher = sealed.substr(kNonceBytes);
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(bytesOf(plain), nullptr, nullptr, bytesOf(cipher),
                                                   cipher.size(), bytesOf(additional), additional.size(),
                                                   bytesOf(sealed), key.data()) != 0)
        return std::nullopt;
    return Secret(std::move(plain));
}

PasswordCost PasswordCost::fresh()
{
    PasswordCost cost;
    cost.salt.resize(crypto_pwhash_SALTBYTES);
    if (ready())
        randombytes_buf(cost.salt.data(), cost.salt.size());
    return cost;
}

Result<LockedKey> keyFromPassword(Secret const& password, PasswordCost const& cost)
{
    if (cost.operations < crypto_pwhash_OPSLIMIT_MIN || cost.operations > kMostOperations ||
        cost.memoryKiB > kMostMemoryKiB || cost.salt.size() != crypto_pwhash_SALTBYTES)
        return fail(Errc::Internal,
                    "The vault's record of its master password is damaged. Put back a backup of the "
                    "store, or open the vault through the Secret Service.");
    TRY_LET(auto key, LockedKey::make());
    auto const bytes = password.reveal();
    if (crypto_pwhash(key.data(), LockedKey::kBytes, bytes.data(), bytes.size(), bytesOf(cost.salt),
                      cost.operations, cost.memoryKiB * 1024U, crypto_pwhash_ALG_ARGON2ID13) != 0)
        return fail(
            Errc::NoSpace,
            fmt::format("Checking a master password needs {} MiB of memory, which the system did not give. "
                        "Close something, then try again.",
                        cost.memoryKiB / 1024U));
    return key;
}

std::string randomHex(std::size_t bytes)
{
    std::string random(bytes, '\0');
    if (ready())
        randombytes_buf(random.data(), random.size());
    std::string text;
    for (auto const c : random)
        text += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return text;
}

} // namespace termalin
