#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/paths.h"
#include "core/result.h"
#include "core/secret.h"

namespace termalin {

class Store;

/// The person's secrets, encrypted in the store: XChaCha20-Poly1305 under a data key, with owner and name
/// bound in as additional data, so that a ciphertext moved to another place does not open. The data key is
/// wrapped by a key in the Secret Service where there is one, and by one from a master password (Argon2id)
/// where the person has set one. Either opens it.
///
/// Thread safe. An open vault holds the data key in locked memory that core dumps leave out.
class Vault {
public:
    enum class State : std::uint8_t { Missing, Locked, Open };

    /// Looks, opens nothing. `store` must outlive the vault.
    static Result<std::unique_ptr<Vault>> attach(Store& store, Paths const& paths);
    virtual ~Vault() = default; ///< Wipes the key.

    [[nodiscard]] virtual State state() = 0;

    /// Makes a new vault. An empty password: the Secret Service alone. Errors: InvalidArgument if there is
    /// one already, or with an empty password and no Secret Service.
    virtual Result<void> create(Secret const& masterPassword) = 0;
    /// Errors: AuthFailed for a wrong password; NotFound without a vault.
    virtual Result<void> unlock(Secret const& masterPassword) = 0;
    /// Opens it without a person, where that is possible: the running holder of this user, else the Secret
    /// Service (never raising a dialog of it). Errors: VaultLocked, whose message says what to do.
    virtual Result<void> unlockSilently() = 0;
    virtual void lock() = 0;
    /// Wraps the data key anew. `current` may be empty where the vault is open. Errors: AuthFailed,
    /// VaultLocked.
    virtual Result<void> changePassword(Secret const& current, Secret const& next) = 0;

    /// Names: "password", "passphrase:PATH". Errors: VaultLocked; empty when there is none.
    virtual Result<std::optional<Secret>> secret(std::string_view owner, std::string_view name) = 0;
    /// As secret(), but a locked vault is opened for this one look, as unlockSilently() does, and its key is
    /// forgotten again: in a program that goes on, a later lock, the holder's end and logout must count.
    virtual Result<std::optional<Secret>> secretSilently(std::string_view owner, std::string_view name) = 0;
    virtual Result<void> setSecret(std::string_view owner, std::string_view name, Secret const& value) = 0;
    virtual Result<void> removeSecret(std::string_view owner, std::string_view name) = 0;
    /// Whether there is one; works on a locked vault.
    virtual Result<bool> hasSecret(std::string_view owner, std::string_view name) = 0;

    /// Leaves a small process behind that keeps the open vault's data key behind a 0600 socket, until
    /// stopHolder(), `lifetime` or logout. Errors: VaultLocked, Internal.
    virtual Result<void> startHolder(std::chrono::seconds lifetime = std::chrono::hours(12)) = 0;
    /// Ends the holder, if there is one, and forgets.
    virtual Result<void> stopHolder() = 0;
};

/// The hidden first argument with which a program that starts holders is started as one. Its main() must call
/// runVaultHolder() then, before it does anything else.
inline constexpr std::string_view kVaultHolderWord = "vault-holder";

/// The holder process: takes the key from its standard input, keeps it behind the socket until it is told to
/// lock, its time is up, or the socket is gone (logout), and forgets it. Returns the exit code.
int runVaultHolder(int argc, char** argv);

} // namespace termalin
