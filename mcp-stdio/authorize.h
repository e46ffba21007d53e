#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/audit.h"
#include "core/command_policy.h"
#include "core/hosts.h"
#include "core/paths.h"
#include "core/result.h"
#include "mcp-stdio/services.h"

namespace termalin::mcp {

/// Rulings on a host as it is saved at this moment: pure, nothing is read or remembered.

/// Errors: BlockedByPolicy; Unsupported for this computer's own shell once it is not blocked.
[[nodiscard]] Result<void> requireOpen(Host const& host);

/// Errors: as requireOpen; NeedsFullAccess. `what` begins the message: "Opening a tunnel".
[[nodiscard]] Result<void> requireFull(Host const& host, std::string_view what);

struct CommandRuling {
    std::string toRun;   ///< What is handed to the server: on an allowlist host the words quoted again.
    std::string because; ///< "policy: full", "rule: ls **"
};
/// Errors: as requireOpen; NotInAllowlist, whose message says what the person can do; TooLarge for more than
/// one request holds. A rule that does not parse refuses everything: it is never skipped.
[[nodiscard]] Result<CommandRuling> ruleOnCommand(Host const& host, std::string_view command,
                                                  LoginShell shell);

/// Which policy or readable path admits reading `path`. Errors: as ruleOnCommand.
[[nodiscard]] Result<std::string> ruleOnRead(Host const& host, std::string_view path);

/// Errors: ConsentRequired when the person has stopped all agents, or the settings cannot be read.
[[nodiscard]] Result<void> requireNotStopped(Paths const& paths);

/// `agents.stopped` first, then the host afresh from the store. Errors: ConsentRequired, UnknownHost,
/// BlockedByPolicy, Unsupported.
[[nodiscard]] Result<Host> findOpenHost(Store& store, Paths const& paths, std::string_view idOrName);

/// The id of the host of what an agent holds, by what it calls it.
struct HostOf {
    /// Errors: UnknownSession, NotConnected and others that say what became of it.
    std::function<Result<std::string>(std::string const& sessionId)> session;
    /// Errors: UnknownTunnel.
    std::function<Result<std::string>(std::string const& tunnelId)> tunnel;
};

/// Judges each call by its row's gate, from the store and settings.json as they are at that moment, and keeps
/// the audit of it.
class PolicyGate : public Gatekeeper {
public:
    /// `store`, `audit` and what `hostOf` reaches must outlive this. `app` may be null; it is told of
    /// the calls that work on servers.
    PolicyGate(Store& store, Audit& audit, Paths paths, HostOf hostOf, AppLink* app = nullptr)
        : m_store(store), m_audit(audit), m_paths(std::move(paths)), m_hostOf(std::move(hostOf)), m_app(app)
    {
    }

    Result<Admission> admit(Tool const& tool, Args const& args, Call const& call) override;
    void refused(Tool const& tool, Args const& args, Call const& call, Error const& why) override;
    void finished(Tool const& tool, Admission const& admission, Result<Json> const& outcome,
                  std::chrono::milliseconds took) override;
    void abandoned() override;

private:
    [[nodiscard]] static AuditCall lineOf(Tool const& tool, Args const& args, Call const& call);
    void noteRefusal(AuditCall line, Error const& why);
    Result<Admission> judge(Tool const& tool, Args const& args, std::string& hostName);
    Result<Admission> judgeHost(Tool const& tool, Args const& args, std::string& hostName);
    [[nodiscard]] std::string hostToRecord(Args const& args) const;

    Store& m_store;
    Audit& m_audit;
    Paths m_paths;
    HostOf m_hostOf;
    AppLink* m_app;

    std::mutex m_mutex;
    /// Begun and not ended, by the audit's number; guarded by m_mutex.
    std::map<std::int64_t, std::chrono::steady_clock::time_point> m_underWay;
};

} // namespace termalin::mcp
