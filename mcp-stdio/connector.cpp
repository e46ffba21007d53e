#include "mcp-stdio/connector.h"

#include "core/audit.h"
#include "core/log.h"
#include "core/store.h"

namespace termalin::mcp {

ssh::LoginContext Connector::contextFor(ssh::SavedRoute const& route)
{
    ssh::LoginContext context;
    context.ownKnownHosts = m_means.paths.knownHosts;
    context.credentials = std::make_shared<ssh::SavedCredentials>(
        m_means.vault, route, m_means.signers, [audit = m_means.audit](Secret const& secret) {
            if (audit != nullptr)
                audit->hide(secret);
        });
    context.onLoggedIn = [this](std::string const& target, std::string const& what) {
        m_lastLogins.access()->insert_or_assign(target, what);
    };
    context.lastLogin = [this](std::string const& target) {
        auto known = m_lastLogins.access();
        auto const found = known->find(target);
        return found == known->end() ? std::string() : found->second;
    };
    // Outlives this call with the connection, and so may only hold what outlives the connection.
    context.onHelper = [audit = m_means.audit](std::string const& target, std::string const& what) {
        if (audit == nullptr)
            return;
        auto const written = audit->note({.client = "termalin",
                                          .clientProgram = {},
                                          .tool = "helper",
                                          .host = target,
                                          .subject = what,
                                          .decision = "allowed",
                                          .because = "stopping a command"});
        if (!written)
            log(LogLevel::Error, "audit", "A helper could not be recorded: {}", written.error().message);
    };
    return context;
}

void Connector::remember(Host const& host, bool repeatable)
{
    auto logins = m_repeatable.access();
    if (repeatable)
        logins->insert_or_assign(host.id, host.revision);
    else
        logins->erase(host.id);
}

Result<std::shared_ptr<ssh::Connection>> Connector::open(Host const& host, Deadline deadline,
                                                         std::stop_token const& stop)
{
    TRY_LET(auto const route, ssh::resolveRoute(host, m_means.store, m_means.paths));
    TRY_LET(auto const slot, m_handshakes.enter(route.hostIds, deadline, stop));
    TRY_LET(auto const hold, m_ports.holdForLogin(route.route, deadline, stop));
    auto opened = ssh::Connection::open(route.route, contextFor(route), deadline, stop);
    if (opened || opened.error().code != Errc::Cancelled) // a stop says nothing of the login
        remember(host, opened && !(*opened)->neededPerson());
    return opened;
}

bool Connector::mayRepeatLogin(Host const& host)
{
    auto logins = m_repeatable.access();
    auto const found = logins->find(host.id);
    return found != logins->end() && found->second == host.revision;
}

} // namespace termalin::mcp
