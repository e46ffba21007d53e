#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/hosts.h"
#include "core/json.h"
#include "core/paths.h"
#include "core/result.h"
#include "core/settings.h"
#include "mcp-stdio/call.h"

namespace termalin {
class Audit;
class Store;
class Vault;
} // namespace termalin

namespace termalin::mcp {

class AgentSessions; // mcp-stdio/sessions.h
class AppLink;       // mcp-stdio/app_link.h
class Args;
struct Tool;

/// What a gate found out about one call, for its handler and for its end.
struct Admission {
    std::optional<Host> host;        ///< The host as it was judged, where the call names one.
    std::string because;             ///< "full", "rule: ls **", "open".
    std::int64_t auditNumber = 0;    ///< Of Audit::begin(); 0: nothing was written.
    std::shared_ptr<void> keep = {}; ///< Whatever the gatekeeper wants to live as long as the call.
};

/// Judges calls and keeps the record of them. Both functions are called on the call's own thread, several at
/// once.
class Gatekeeper {
public:
    virtual ~Gatekeeper() = default;

    /// Judges one call by its row's gate; everything is read afresh, `agents.stopped` first. The line that
    /// the audit wants before the call is with the kernel when this returns. A refusal is an Error and is
    /// in the audit already: BlockedByPolicy, NotInAllowlist, NeedsFullAccess, ConsentRequired, UnknownHost
    /// and the other codes that name what is not there; Internal for Gate::Never.
    virtual Result<Admission> admit(Tool const& tool, Args const& args, Call const& call) = 0;

    /// Records a refusal that was decided before admit(): of a call that the app would have judged.
    virtual void refused(Tool const& tool, Args const& args, Call const& call, Error const& why)
    {
        static_cast<void>(tool), static_cast<void>(args), static_cast<void>(call), static_cast<void>(why);
    }

    /// After the handler, with what it returned; not called for a refused call.
    virtual void finished(Tool const& tool, Admission const& admission, Result<Json> const& outcome,
                          std::chrono::milliseconds took) = 0;

    /// For a program that must end before its calls have: records the end of each, as far as it is known.
    virtual void abandoned() {}
};

/// What the running app does for the nine rows that need it. Called inside the app only, on the call's own
/// thread, after the gate; blocks until the work is done or `call.stop` is requested. Each returns what the
/// row's outputSchema describes.
class AppApi {
public:
    virtual ~AppApi() = default;

    virtual Result<Json> terminalHosts(Call const& call) = 0;
    virtual Result<Json> terminalSessions(Call const& call) = 0;
    virtual Result<Json> terminalOpen(std::string const& hostId, Call const& call) = 0;
    virtual Result<Json> terminalRun(std::string const& tabId, std::string const& command,
                                     std::chrono::seconds timeout, Call const& call) = 0;
    virtual Result<Json> terminalRunMany(std::vector<std::string> const& tabIds, std::string const& command,
                                         std::chrono::seconds timeout, Call const& call) = 0;

    virtual Result<Json> dataList(Call const& call) = 0;
    virtual Result<Json> dataTables(std::string const& connection, std::optional<std::string> const& database,
                                    Call const& call) = 0;
    struct TableName {
        std::string connection, table;
        std::optional<std::string> schema, database;
    };
    virtual Result<Json> dataSchema(TableName const& table, Call const& call) = 0;
    struct Query {
        std::string connection, text;
        std::optional<std::string> database;
        std::int64_t maxRows = 200;
        std::chrono::seconds timeout{50};
    };
    /// A statement that writes is refused with ReadOnly unless `call.shownDestructive`; the message then says
    /// that the client must fetch the tool list again.
    virtual Result<Json> dataQuery(Query const& query, Call const& call) = 0;

    /// Whether any connection grants writes at this moment. Any thread; returns at once.
    [[nodiscard]] virtual bool grantsDataWrites() const = 0;
};

/// Everything a handler may reach. Built once by each program and passed by reference; every object may be
/// used from several threads at once. A null member is one that this program, or this test, does not have.
struct Services {
    Paths paths = {};
    Store* store = nullptr;
    Audit* audit = nullptr;
    Vault* vault = nullptr;
    AgentSessions* sessions = nullptr; ///< The agent's own sessions, tunnels and spares.
    Gatekeeper* gatekeeper = nullptr;  ///< Without one no call runs.
    AppLink* app = nullptr;            ///< In termalin-mcp: the way to the running app.
    AppApi* insideApp = nullptr;       ///< In the app itself: rows that need it run here.

    [[nodiscard]] Settings settings() const { return Settings::load(paths.settings); } ///< Read afresh.
};

} // namespace termalin::mcp
