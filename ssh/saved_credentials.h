#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ssh/credentials.h"
#include "ssh/route.h"

namespace termalin {
class Vault;
}

namespace termalin::ssh {

/// Which login something is to sign for.
struct SignerWish {
    std::string hostId;  ///< The saved host that is logged in to.
    std::string leadsTo; ///< The one at the end of the route: another where `hostId` is a jump host.
    Deadline deadline;   ///< Of the login, as `stop`.
    std::stop_token stop;
};

/// Gives what signs for a saved host beside ssh-agents and key files, such as the running app.
using SignerFactory = std::function<std::vector<std::shared_ptr<Signer>>(SignerWish const& wish)>;

/// Credentials out of the person's vault, opened silently when a secret is first wanted. One object serves
/// one login along one route.
///
/// A single hidden question of keyboard-interactive is answered with the saved password, once for each
/// server: a second one asks for something else, or the password was wrong. A question that names a code
/// or token is never answered with it.
class SavedCredentials : public Credentials {
public:
    /// `vault` may be null (no secrets) and must outlive this. `signers` and `onReveal` may be empty; the
    /// latter gets every secret before it is used, so that it can be kept out of records.
    SavedCredentials(Vault* vault, SavedRoute const& route, SignerFactory signers = {},
                     std::function<void(Secret const&)> onReveal = {});

    Result<std::optional<Secret>> password(Target const& target) override;
    Result<std::optional<Secret>> passphrase(Target const& target, std::string const& keyFile) override;
    Result<std::optional<std::vector<Secret>>> answers(Target const& target, std::string const& instruction,
                                                       std::vector<Prompt> const& prompts) override;
    std::vector<std::shared_ptr<Signer>> signers(Target const& target, Deadline deadline,
                                                 std::stop_token const& stop) override;

private:
    Result<std::optional<Secret>> find(Target const& target, std::string const& name);

    Vault* m_vault;
    std::map<std::string, std::string> m_hostIds; ///< by Target::name
    std::string m_leadsTo;                        ///< The id of the route's last host.
    SignerFactory m_signers;
    std::function<void(Secret const&)> m_onReveal;
    std::set<std::string> m_answered; ///< Target::name of servers that had the password as an answer
};

} // namespace termalin::ssh
