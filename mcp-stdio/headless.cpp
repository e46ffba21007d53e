#include "mcp-stdio/headless.h"

#include <cstdio>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/audit.h"
#include "core/log.h"
#include "core/store.h"
#include "core/vault.h"
#include "mcp-stdio/client_program.h"
#include "mcp-stdio/serve.h"

namespace termalin::mcp {
namespace {

/// Refuses every call with one and the same reason.
class ClosedGate : public Gatekeeper {
public:
    explicit ClosedGate(Error why) : m_why(std::move(why)) {}
    Result<Admission> admit(Tool const& /*tool*/, Args const& /*args*/, Call const& /*call*/) override
    {
        return std::unexpected(m_why);
    }
    void finished(Tool const& /*tool*/, Admission const& /*admission*/, Result<Json> const& /*outcome*/,
                  std::chrono::milliseconds /*took*/) override
    {
    }

private:
    Error m_why;
};

std::vector<std::shared_ptr<ssh::Signer>> signersOf(AppLink& app, ssh::SignerWish const& wish)
{
    auto signers = app.signers(wish);
    if (signers)
        return *std::move(signers);
    log(LogLevel::Info, "login", "The app signs nothing now: {}", signers.error().message);
    return {};
}

} // namespace

Headless::~Headless() = default;

Result<std::unique_ptr<Headless>> Headless::open(Paths const& paths)
{
    std::unique_ptr<Headless> self(new Headless());
    TRY_LET(self->m_store, Store::open(paths.store));
    TRY_LET(self->m_audit, Audit::open(paths.audit, *self->m_store));
    if (auto vault = Vault::attach(*self->m_store, paths))
        self->m_vault = *std::move(vault);
    else
        log(LogLevel::Warn, "vault", "Saved passwords cannot be used: {}", vault.error().message);
    self->m_app = AppLink::make(
        paths.controlSocket,
        {.name = "termalin-mcp", .version = TERMALIN_VERSION, .program = programOfParent(::getpid())},
        [audit = self->m_audit.get()](std::string_view detail) { return audit->masked(detail); });
    self->m_sessions = std::make_unique<AgentSessions>(
        Connector::Means{.store = *self->m_store,
                         .vault = self->m_vault.get(),
                         .audit = self->m_audit.get(),
                         .paths = paths,
                         .signers = [app = self->m_app.get()](
                                        ssh::SignerWish const& wish) { return signersOf(*app, wish); }},
        self->m_app.get());
    self->m_gate = std::make_unique<PolicyGate>(
        *self->m_store, *self->m_audit, paths,
        HostOf{.session = [sessions = self->m_sessions.get()](
                              std::string const& id) { return sessions->hostOf(id); },
               .tunnel = [sessions = self->m_sessions.get()](
                             std::string const& id) { return sessions->hostOfTunnel(id); }},
        self->m_app.get());
    self->m_services = {.paths = paths,
                        .store = self->m_store.get(),
                        .audit = self->m_audit.get(),
                        .vault = self->m_vault.get(),
                        .sessions = self->m_sessions.get(),
                        .gatekeeper = self->m_gate.get(),
                        .app = self->m_app.get()};
    return self;
}

void forbidDumps()
{
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    rlimit const none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &none);
}

int serveAgent()
{
    auto stdio = claimStdio();
    if (!stdio) {
        (void)std::fprintf(stderr, "termalin-mcp: %s\n", stdio.error().message.c_str());
        return 1;
    }
    auto const paths = Paths::find();
    auto const headless = paths ? Headless::open(*paths) : std::unexpected(paths.error());
    if (headless)
        return serveStdio((*headless)->services(), *std::move(stdio));
    (void)std::fprintf(stderr, "termalin-mcp: %s\n", headless.error().message.c_str());
    ClosedGate gate(headless.error());
    Services services{.gatekeeper = &gate};
    return serveStdio(services, *std::move(stdio));
}

} // namespace termalin::mcp
