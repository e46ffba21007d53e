#pragma once

#include <memory>

#include "core/paths.h"
#include "core/result.h"
#include "mcp-stdio/agent_sessions.h"
#include "mcp-stdio/app_link.h"
#include "mcp-stdio/authorize.h"
#include "mcp-stdio/services.h"

namespace termalin {
class Audit;
class Store;
class Vault;
} // namespace termalin

namespace termalin::mcp {

/// Everything that termalin-mcp works with, built once: the person's store, vault and audit, the link to the
/// app, the agent's sessions and the gates.
class Headless {
public:
    /// Errors: what Store::open and Audit::open say.
    static Result<std::unique_ptr<Headless>> open(Paths const& paths);
    ~Headless();
    Headless(Headless const&) = delete;
    Headless& operator=(Headless const&) = delete;

    [[nodiscard]] Services& services() noexcept { return m_services; }

private:
    Headless() = default;

    std::unique_ptr<Store> m_store;
    std::unique_ptr<Vault> m_vault;
    std::unique_ptr<Audit> m_audit;
    std::unique_ptr<AppLink> m_app;
    std::unique_ptr<AgentSessions> m_sessions;
    std::unique_ptr<PolicyGate> m_gate;
    Services m_services;
};

/// Keeps secrets out of core dumps, and other processes of the same user from reading this one's memory
/// (PR_SET_DUMPABLE of prctl(2)). To be called first in main().
void forbidDumps();

/// The main job of termalin-mcp: serves the agent that started it over stdin and stdout. When the person's
/// files cannot be opened it still serves, and each call says why it cannot be done. Returns the exit status.
int serveAgent();

} // namespace termalin::mcp
