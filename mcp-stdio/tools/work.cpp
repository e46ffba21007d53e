#include "mcp-stdio/tools/work.h"

#include <optional>

#include "mcp-stdio/authorize.h"

namespace termalin::mcp {

Running::Listed listCall(Call const& call, std::string sessionId, std::function<bool(Host const&)> admitted)
{
    auto const& host = *call.admission.host;
    return call.services.sessions->listWork({.hostId = host.id,
                                             .routeRevision = host.routeRevision,
                                             .sessionId = std::move(sessionId),
                                             .admitted = std::move(admitted),
                                             .control = call.control});
}

Error explained(Error error, Running::Listed const& work)
{
    if (auto const why = work.why(); !why.empty() && error.code == Errc::Cancelled)
        error.message = why + " Nothing was run or changed by this call.";
    return error;
}

Result<ssh::ExecOutcome> runCommand(ssh::Connection& connection, Call const& call, std::string const& command,
                                    Deadline deadline)
{
    auto const& begun = *call.admission.host;
    auto& sessions = *call.services.sessions;
    std::optional<LoginShell> shell;
    if (begun.policy != AgentPolicy::Full) {
        TRY_LET(shell, connection.loginShell(deadline, call.stop));
    }
    TRY_LET(auto host, sessions.stillTheSame(begun.id, begun.routeRevision));
    if (host.policy != AgentPolicy::Full && !shell) {
        TRY_LET(shell, connection.loginShell(deadline, call.stop));
        // That was a wait on the server, in which the person may have changed something again.
        TRY_LET(host, sessions.stillTheSame(begun.id, begun.routeRevision));
    }
    TRY_LET(auto ruling, ruleOnCommand(host, command, shell.value_or(LoginShell::Posix)));
    return connection.exec({.command = std::move(ruling.toRun),
                            .outputCap = call.services.settings().outputCap,
                            .onOutput = [&call](std::string_view bytes) { call.progress.output(bytes); }},
                           deadline, call.stop);
}

Json execResult(ssh::ExecOutcome const& outcome, std::string const& why)
{
    Json result{{"output", outcome.output.text},
                {"completion", toString(outcome.completion)},
                {"truncated", outcome.output.truncated},
                {"outputBytes", outcome.output.outputBytes},
                {"omittedBytes", outcome.output.omittedBytes},
                {"durationMs", outcome.duration.count()},
                {"encoding", outcome.output.lossy ? "lossy" : "utf-8"}};
    if (outcome.exitCode)
        result["exitCode"] = *outcome.exitCode;
    if (!outcome.signal.empty())
        result["signal"] = toUtf8(outcome.signal);
    if (outcome.stopped != ssh::Stopped::NotTried)
        result["stopped"] = outcome.stopped == ssh::Stopped::Confirmed ? "confirmed" : "unconfirmed";
    auto note = outcome.completion == ssh::Completion::Exit ? std::string() : why;
    if (!outcome.note.empty())
        note += (note.empty() ? "" : " ") + outcome.note;
    if (!note.empty())
        result["note"] = toUtf8(note);
    return result;
}

} // namespace termalin::mcp
