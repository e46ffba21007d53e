#include "core/vault.h"

#include <fmt/format.h>

#include "core/guarded.h"
#include "core/json.h"
#include "core/keychain.h"
#include "core/store.h"
#include "core/vault_crypto.h"
#include "core/vault_holder.h"

namespace termalin {
namespace {

// The vault's own entries in the store, under the owner "vault".
constexpr std::string_view kOwner = "vault";
constexpr std::string_view kId = "vault.id";       ///< 32 hexadecimal digits, random
constexpr std::string_view kCheck = "vault.check"; ///< the id, sealed by the data key
constexpr std::string_view kByPassword =
    "vault.key.password"; ///< JSON of the cost, a newline, the sealed data key
constexpr std::string_view kByKeychain = "vault.key.keychain"; ///< the sealed data key
constexpr std::size_t kIdRandomBytes = 16;
constexpr std::size_t kMostPassword = 1024;

VaultPlace placeOf(std::string_view name)
{
    return {.owner = kOwner, .name = name};
}

Result<Store::Blob> wrapByPassword(LockedKey const& data, Secret const& password)
{
    auto const cost = PasswordCost::fresh();
    TRY_LET(auto const key, keyFromPassword(password, cost));
    std::string salt;
    for (auto const c : cost.salt)
        salt += fmt::format("{:02x}", static_cast<unsigned char>(c));
    Json const header{
        {"kdf", "argon2id"}, {"operations", cost.operations}, {"memoryKiB", cost.memoryKiB}, {"salt", salt}};
    return Store::Blob{.owner = std::string(kOwner),
                       .name = std::string(kByPassword),
                       .bytes = toLine(header) + "\n" + seal(key, placeOf(kByPassword), data.view())};
}

std::optional<PasswordCost> costOf(std::string_view header)
{
    auto const json = parseJson(header);
    if (!json || !json->is_object() || json->value("kdf", Json()) != "argon2id")
        return std::nullopt;
    auto const operations = json->value("operations", Json());
    auto const memory = json->value("memoryKiB", Json());
    auto const salt = json->value("salt", Json());
    if (!operations.is_number_unsigned() || !memory.is_number_unsigned() || !salt.is_string())
        return std::nullopt;
    PasswordCost cost{
        .operations = operations.get<std::uint64_t>(), .memoryKiB = memory.get<std::uint64_t>(), .salt = {}};
    auto const digits = salt.get<std::string>();
    auto const nibble = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        cost.salt += static_cast<char>((nibble(digits[i]) << 4) | nibble(digits[i + 1]));
    return cost;
}

class StoredVault final : public Vault {
public:
    StoredVault(Store& store, std::filesystem::path socket) : m_store(store), m_socket(std::move(socket)) {}

    State state() override;
    Result<void> create(Secret const& masterPassword) override;
    Result<void> unlock(Secret const& masterPassword) override;
    Result<void> unlockSilently() override;
    void lock() override { m_key.access()->reset(); }
    Result<void> changePassword(Secret const& current, Secret const& next) override;
    Result<std::optional<Secret>> secret(std::string_view owner, std::string_view name) override;
    Result<std::optional<Secret>> secretSilently(std::string_view owner, std::string_view name) override;
    Result<void> setSecret(std::string_view owner, std::string_view name, Secret const& value) override;
    Result<void> removeSecret(std::string_view owner, std::string_view name) override;
    Result<bool> hasSecret(std::string_view owner, std::string_view name) override;
    Result<void> startHolder(std::chrono::seconds lifetime) override;
    Result<void> stopHolder() override;

private:
    using Key = std::optional<LockedKey>;

    Result<std::optional<std::string>> entry(std::string_view name) { return m_store.blob(kOwner, name); }
    Result<std::optional<Secret>> open(LockedKey const& key, std::string_view owner, std::string_view name);
    Result<LockedKey> keyByPassword(Secret const& password);
    Result<LockedKey> keySilently();
    Result<Key> keyByKeychain(std::string const& id, std::string& why);
    Result<bool> opens(LockedKey const& key, std::string const& id);

    Store& m_store;
    std::filesystem::path const m_socket;
    Guarded<Key> m_key;
};

std::unexpected<Error> locked(std::string_view why)
{
    return fail(Errc::VaultLocked, fmt::format("The vault is locked{}{}. Run: termalin-mcp vault unlock",
                                               why.empty() ? "" : ": ", why));
}

std::unexpected<Error> noVault(Errc code)
{
    return fail(code, "There is no vault yet. Run: termalin-mcp vault init");
}

Result<void> checkPassword(Secret const& password)
{
    if (password.reveal().size() > kMostPassword)
        return fail(Errc::InvalidArgument,
                    fmt::format("A master password has at most {} bytes.", kMostPassword));
    return {};
}

Vault::State StoredVault::state()
{
    if (*m_key.access())
        return State::Open;
    auto const id = entry(kId);
    return id && !*id ? State::Missing : State::Locked;
}

Result<void> StoredVault::create(Secret const& masterPassword)
{
    TRY(checkPassword(masterPassword));
    TRY_LET(auto const existing, entry(kId));
    if (existing)
        return fail(Errc::InvalidArgument,
                    "There is a vault already. To change its password run: termalin-mcp vault "
                    "passwd");
    auto const id = randomHex(kIdRandomBytes);
    TRY_LET(auto data, LockedKey::random());
    std::vector<Store::Blob> blobs{{.owner = std::string(kOwner), .name = std::string(kId), .bytes = id},
                                   {.owner = std::string(kOwner),
                                    .name = std::string(kCheck),
                                    .bytes = seal(data, placeOf(kCheck), id)}};
    TRY_LET(auto const wrapping, LockedKey::random());
    auto const kept = writeKeychain(id, Secret(wrapping.view()));
    if (kept)
        blobs.push_back({.owner = std::string(kOwner),
                         .name = std::string(kByKeychain),
                         .bytes = seal(wrapping, placeOf(kByKeychain), data.view())});
    else if (masterPassword.empty())
        return fail(
            Errc::InvalidArgument,
            fmt::format("Without a master password the vault needs a Secret Service, and {}. Choose a master "
                        "password: termalin-mcp vault init",
                        kept.error().message));
    if (!masterPassword.empty()) {
        TRY_LET(auto blob, wrapByPassword(data, masterPassword));
        blobs.push_back(std::move(blob));
    }
    TRY(m_store.replaceBlobs(blobs));
    *m_key.access() = std::move(data);
    return {};
}

/// Whether this key is the data key of the vault in the store, and not of an earlier one.
Result<bool> StoredVault::opens(LockedKey const& key, std::string const& id)
{
    TRY_LET(auto const check, entry(kCheck));
    auto const plain = check ? unseal(key, placeOf(kCheck), *check) : std::nullopt;
    return plain && plain->reveal() == id;
}

Result<LockedKey> StoredVault::keyByPassword(Secret const& password)
{
    TRY_LET(auto const id, entry(kId));
    if (!id)
        return noVault(Errc::NotFound);
    TRY_LET(auto const wrapped, entry(kByPassword));
    if (!wrapped)
        return fail(Errc::AuthFailed,
                    "This vault has no master password; the Secret Service opens it. To set one run: "
                    "termalin-mcp vault passwd");
    TRY(checkPassword(password));
    auto const newline = wrapped->find('\n');
    auto const cost = costOf(std::string_view(*wrapped).substr(0, newline));
    if (newline == std::string::npos || !cost)
        return fail(Errc::Internal,
                    "The vault's record of its master password is damaged. Put back a backup of the "
                    "store, or open the vault through the Secret Service.");
    TRY_LET(auto const key, keyFromPassword(password, *cost));
    auto const data = unseal(key, placeOf(kByPassword), std::string_view(*wrapped).substr(newline + 1));
    if (!data)
        return fail(Errc::AuthFailed,
                    "The master password is wrong, or the vault's record of it was changed. Try again.");
    return LockedKey::from(data->reveal());
}

Result<StoredVault::Key> StoredVault::keyByKeychain(std::string const& id, std::string& why)
{
    TRY_LET(auto const wrapped, entry(kByKeychain));
    if (!wrapped) {
        why = "the Secret Service was not there when it was made";
        return Key();
    }
    auto const answer = readKeychain(id);
    why = answer.why;
    if (!answer.key)
        return Key();
    auto const wrapping = LockedKey::from(answer.key->reveal());
    auto const data = wrapping ? unseal(*wrapping, placeOf(kByKeychain), *wrapped) : std::nullopt;
    if (!data) {
        why = "the key in the Secret Service does not fit";
        return Key();
    }
    TRY_LET(auto key, LockedKey::from(data->reveal()));
    return Key(std::move(key));
}

Result<void> StoredVault::unlock(Secret const& masterPassword)
{
    TRY_LET(auto key, keyByPassword(masterPassword));
    *m_key.access() = std::move(key);
    return {};
}

Result<LockedKey> StoredVault::keySilently()
{
    TRY_LET(auto const id, entry(kId));
    if (!id)
        return noVault(Errc::VaultLocked);
    auto key = askHolder(m_socket, *id);
    if (key) {
        TRY_LET(bool const fits, opens(*key, *id));
        if (!fits)
            key.reset();
    }
    std::string why;
    if (!key) {
        TRY_LET(key, keyByKeychain(*id, why));
    }
    if (!key)
        return locked(why);
    return *std::move(key);
}

Result<void> StoredVault::unlockSilently()
{
    if (*m_key.access())
        return {};
    TRY_LET(auto key, keySilently());
    *m_key.access() = std::move(key);
    return {};
}

Result<void> StoredVault::changePassword(Secret const& current, Secret const& next)
{
    TRY(checkPassword(next));
    Key proven;
    if (!current.empty()) {
        TRY_LET(proven, keyByPassword(current));
    }
    auto access = m_key.access();
    auto const& key = proven ? proven : *access;
    if (!key)
        return locked("its present password is needed to change it");
    if (next.empty()) {
        TRY_LET(auto const other, entry(kByKeychain));
        if (!other)
            return fail(Errc::InvalidArgument,
                        "Without a Secret Service the vault needs a master password; give one.");
        return m_store.removeBlob(kOwner, kByPassword);
    }
    TRY_LET(auto blob, wrapByPassword(*key, next));
    return m_store.replaceBlobs(
        {std::move(blob)}); // one write: before it the old password opens, after it the new
}

Result<void> checkPlace(std::string_view owner, std::string_view name)
{
    if (owner.empty() || name.empty() || (owner == kOwner && name.starts_with("vault.")))
        return fail(Errc::InvalidArgument,
                    fmt::format("'{}' of '{}' is no place for a secret.", name, owner));
    return {};
}

Result<std::optional<Secret>> StoredVault::secret(std::string_view owner, std::string_view name)
{
    TRY(checkPlace(owner, name));
    auto access = m_key.access();
    if (!*access)
        return locked("");
    return open(**access, owner, name);
}

Result<std::optional<Secret>> StoredVault::secretSilently(std::string_view owner, std::string_view name)
{
    TRY(checkPlace(owner, name));
    if (auto access = m_key.access(); *access)
        return open(**access, owner, name);
    TRY_LET(auto const key, keySilently());
    return open(key, owner, name);
}

Result<std::optional<Secret>> StoredVault::open(LockedKey const& key, std::string_view owner,
                                                std::string_view name)
{
    TRY_LET(auto const sealed, m_store.blob(owner, name));
    if (!sealed)
        return std::nullopt;
    auto plain = unseal(key, {.owner = owner, .name = name}, *sealed);
    if (!plain)
        return fail(Errc::Internal,
                    fmt::format("The secret '{}' does not open: it was damaged, or moved there from "
                                "elsewhere. Set it again.",
                                name));
    return plain;
}

Result<void> StoredVault::setSecret(std::string_view owner, std::string_view name, Secret const& value)
{
    TRY(checkPlace(owner, name));
    auto access = m_key.access();
    if (!*access)
        return locked("");
    return m_store.setBlob(owner, name, seal(**access, {.owner = owner, .name = name}, value.reveal()));
}

Result<void> StoredVault::removeSecret(std::string_view owner, std::string_view name)
{
    TRY(checkPlace(owner, name));
    return m_store.removeBlob(owner, name);
}

Result<bool> StoredVault::hasSecret(std::string_view owner, std::string_view name)
{
    TRY(checkPlace(owner, name));
    TRY_LET(auto const sealed, m_store.blob(owner, name));
    return sealed.has_value();
}

Result<void> StoredVault::startHolder(std::chrono::seconds lifetime)
{
    auto access = m_key.access();
    if (!*access)
        return locked("");
    TRY_LET(auto const id, entry(kId));
    if (!id)
        return noVault(Errc::VaultLocked);
    return spawnHolder(m_socket, *id, **access, lifetime);
}

Result<void> StoredVault::stopHolder()
{
    TRY(endHolder(m_socket));
    return {};
}

} // namespace

Result<std::unique_ptr<Vault>> Vault::attach(Store& store, Paths const& paths)
{
    return std::make_unique<StoredVault>(store, paths.vaultSocket);
}

} // namespace termalin
