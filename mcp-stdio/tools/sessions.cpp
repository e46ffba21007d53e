#include <chrono>

#include "mcp-stdio/authorize.h"
#include "mcp-stdio/iso_time.h"
#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"
#include "mcp-stdio/tools/work.h"

namespace termalin::mcp {
namespace {

constexpr std::chrono::seconds kOpenTime{45}; // clients give up on a call after 60 s

Result<Json> openSession(Call const& call)
{
    auto const& host = *call.admission.host;
    auto const work = listCall(call, {}, [](Host const&) { return true; });
    auto const opened = call.services.sessions->open(host, Deadline::in(kOpenTime), call.stop);
    if (!opened)
        return std::unexpected(explained(opened.error(), work));
    return Json{{"sessionId", opened->id}, {"hostId", opened->hostId}, {"host", opened->host}};
}

Result<Json> runInSession(std::string const& sessionId, std::string const& command,
                          std::chrono::seconds timeout, Call const& call)
{
    auto const deadline = Deadline::in(timeout);
    auto& sessions = *call.services.sessions;
    auto const work = listCall(call, sessionId, [command](Host const& now) {
        return ruleOnCommand(now, command, LoginShell::Posix).has_value();
    });
    TRY_LET(auto const route, sessions.routeOf(sessionId));
    if (route != call.admission.host->routeRevision) // the watch has not closed it yet
        return fail(Errc::Cancelled,
                    "The person has changed where this session's host is, or the way to it, so "
                    "nothing was run. Look at hosts_list, then open a new session.");
    TRY_LET(auto const connection, sessions.use(sessionId));
    auto const outcome = runCommand(*connection, call, command, deadline);
    if (outcome)
        return execResult(*outcome, work.why());
    if (!connection->alive() && !call.stop.stop_requested())
        TRY(sessions.use(sessionId)); // tells what became of the session, and removes it
    return std::unexpected(explained(outcome.error(), work));
}

Result<Json> listSessions(Call const& call)
{
    auto list = Json::array();
    for (auto const& session : call.services.sessions->list())
        list.push_back({{"sessionId", session.id},
                        {"hostId", session.hostId},
                        {"host", session.host},
                        {"openedAt", isoTime(session.openedAt)},
                        {"lastUsedAt", isoTime(session.lastUsedAt)}});
    return Json{{"sessions", std::move(list)}};
}

} // namespace

Tool sessionOpen()
{
    using schema::object, schema::text;
    return {
        .name = "session_open",
        .title = "Open a session",
        .description =
            "Logs in to a server and keeps the connection, so that session_exec and tunnel_open need no new "
            "login. It belongs to you alone and ends with session_close or with this connection. At most "
            "32.",
        .effect = Effect::Additive,
        .needs = Needs::Nothing,
        .gate = Gate::HostPolicy,
        .args = {kHostArg},
        .outputSchema = object({{"sessionId", text()}, {"hostId", text()}, {"host", text()}}),
        .run = [](Args const&, Call const& call) { return openSession(call); },
    };
}

Tool sessionExec()
{
    static Arg<std::string> const command{
        .name = "command", .meaning = "One line for the server's shell", .limits = kCommandLimits};
    static Arg<std::int64_t> const timeoutSeconds{
        .name = "timeoutSeconds", .meaning = "", .fallback = 50, .limits = kTimeoutLimits};
    return {
        .name = "session_exec",
        .title = "Run a command in a session",
        .description =
            "As ssh_exec, on the connection of an open session: faster, but still a new shell each time, so "
            "cd and variables do not carry over. Several may run at once.",
        .effect = Effect::Destructive,
        .needs = Needs::Nothing,
        .gate = Gate::HostPolicy,
        .args = {kSessionArg, command, timeoutSeconds},
        .outputSchema = execOutput(),
        .run =
            [](Args const& args, Call const& call) {
                return runInSession(args[kSessionArg], args[command],
                                    std::chrono::seconds(args[timeoutSeconds]), call);
            },
        .maxResultChars = 200'000,
    };
}

Tool sessionClose()
{
    using schema::flag, schema::object;
    return {
        .name = "session_close",
        .title = "Close a session",
        .description =
            "Disconnects a session of yours; its tunnels close with it and its commands are stopped.",
        .effect = Effect::Additive,
        .needs = Needs::Nothing,
        .gate = Gate::Open,
        .args = {kSessionArg},
        .outputSchema = object({{"closed", flag()}}),
        .run = [](Args const& args, Call const& call) -> Result<Json> {
            TRY(call.services.sessions->close(args[kSessionArg], call.stop));
            return Json{{"closed", true}};
        },
    };
}

Tool sessionList()
{
    using schema::list, schema::object, schema::text;
    return {
        .name = "session_list",
        .title = "List sessions",
        .description = "Lists the sessions you have open.",
        .effect = Effect::ReadOnly,
        .needs = Needs::Nothing,
        .gate = Gate::Open,
        .outputSchema = object({{"sessions", list(object({{"sessionId", text()},
                                                          {"hostId", text()},
                                                          {"host", text()},
                                                          {"openedAt", text()},
                                                          {"lastUsedAt", text()}}))}}),
        .run = [](Args const&, Call const& call) { return listSessions(call); },
    };
}

} // namespace termalin::mcp
