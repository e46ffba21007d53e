#include <fmt/format.h>

#include "mcp-stdio/cli/commands.h"
#include "mcp-stdio/cli/console.h"

namespace termalin::cli {

namespace {

/// Argon2id makes each guess slow, not few.
constexpr std::size_t kFewBytes = 12;

void warnOfShort(Secret const& password)
{
    if (!password.empty() && password.reveal().size() < kFewBytes)
        note("Warning: that master password is short. Who gets a copy of the vault can try out such "
             "passwords; a "
             "few random words are better: termalin-mcp vault passwd");
}

} // namespace

Result<int> vaultInit(Context& context, int secretFd)
{
    TRY_LET(auto* const vault, context.vault());
    if (vault->state() != Vault::State::Missing)
        return fail(Errc::InvalidArgument,
                    "There is a vault already. To change its password: termalin-mcp vault passwd");
    if (secretFd < 0)
        note("The vault keeps passwords and passphrases encrypted. With an empty master password only your "
             "desktop's "
             "Secret Service can open it.");
    TRY_LET(auto const password,
            secretFd >= 0 ? readSecretFrom(secretFd) : askNewSecret("Master password for the new vault"));
    TRY(vault->create(password));
    warnOfShort(password);
    say("The vault is made and open for this command. To let agents' logins use it: termalin-mcp vault "
        "unlock");
    return kDone;
}

Result<int> vaultUnlock(Context& context, int secretFd)
{
    TRY_LET(auto* const vault, context.vault());
    if (vault->state() == Vault::State::Missing)
        return fail(Errc::NotFound, "There is no vault yet. Make one: termalin-mcp vault init");
    // Where a holder or the Secret Service has the key already, nobody needs to type anything.
    if (secretFd >= 0 || !vault->unlockSilently()) {
        TRY_LET(auto const password,
                secretFd >= 0 ? readSecretFrom(secretFd) : askSecret("Master password of the vault"));
        TRY(vault->unlock(password));
    }
    TRY(vault->startHolder());
    say("The vault is open until you lock it (termalin-mcp vault lock), log out, or 12 hours have passed.");
    return kDone;
}

Result<int> vaultLock(Context& context)
{
    TRY_LET(auto* const vault, context.vault());
    if (vault->state() == Vault::State::Missing) {
        say("There is no vault, so nothing is open.");
        return kDone;
    }
    TRY(vault->stopHolder());
    vault->lock();
    say("The vault is locked.");
    return kDone;
}

Result<int> vaultPasswd(Context& context, int secretFd)
{
    TRY_LET(auto* const vault, context.vault());
    if (vault->state() == Vault::State::Missing)
        return fail(Errc::NotFound, "There is no vault yet. Make one: termalin-mcp vault init");
    TRY_LET(auto const current,
            secretFd >= 0
                ? readSecretFrom(secretFd)
                : askSecret("Present master password (empty where the Secret Service opens the vault)"));
    if (current.empty()) // a wrong one is told before a new one is thought of
        TRY(vault->unlockSilently());
    else
        TRY(vault->unlock(current));
    TRY_LET(auto const next, secretFd >= 0 ? readSecretFrom(secretFd) : askNewSecret("New master password"));
    TRY(vault->changePassword(current, next));
    warnOfShort(next);
    say("The master password is changed.");
    return kDone;
}

} // namespace termalin::cli
