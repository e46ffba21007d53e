#include <chrono>

#include "mcp-stdio/authorize.h"
#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"
#include "mcp-stdio/tools/work.h"

namespace termalin::mcp {
namespace {

/// On a connection of its own. The host's spare is used if it is there; should its line turn out to be lost
/// before the command was handed over, a new connection is made. A command that was handed over is never run
/// again.
Result<Json> runOnce(std::string const& command, std::chrono::seconds timeout, Call const& call)
{
    auto const deadline = Deadline::in(timeout);
    auto const& host = *call.admission.host;
    auto& sessions = *call.services.sessions;
    auto const work = listCall(call, {}, [command](Host const& now) {
        return ruleOnCommand(now, command, LoginShell::Posix).has_value();
    });
    for (auto spareWelcome = true;; spareWelcome = false) {
        auto lease = sessions.lease(host, spareWelcome, deadline, call.stop);
        if (!lease)
            return std::unexpected(explained(std::move(lease).error(), work));
        auto const wasSpare = lease->wasSpare;
        auto const outcome = runCommand(*lease->connection, call, command, deadline);
        sessions.giveBack(*std::move(lease), host, outcome && outcome->completion == ssh::Completion::Exit,
                          call.afterReply);
        if (outcome)
            return execResult(*outcome, work.why());
        if (!wasSpare || outcome.error().code != Errc::Unreachable || call.stop.stop_requested())
            return std::unexpected(explained(outcome.error(), work));
    }
}

} // namespace

Tool sshExec()
{
    static Arg<std::string> const command{
        .name = "command", .meaning = "One line for the server's shell", .limits = kCommandLimits};
    static Arg<std::int64_t> const timeoutSeconds{
        .name = "timeoutSeconds", .meaning = "Connecting included", .fallback = 50, .limits = kTimeoutLimits};
    return {
        .name = "ssh_exec",
        .title = "Run a command",
        .description =
            "Runs one command on a server over a connection of its own and returns stdout and stderr merged. "
            "No "
            "terminal and no input, so nothing that asks questions: use sudo -n, apt-get -y. cd and "
            "variables do not "
            "carry over: chain with `cd DIR && CMD`. An exit code other than 0 is a normal result. On "
            "timeout the "
            "command is stopped and what it printed is returned. Output over the cap (64 KiB) loses its "
            "middle: "
            "filter it on the server. For many commands on one server use session_open and session_exec.",
        .effect = Effect::Destructive,
        .needs = Needs::Nothing,
        .gate = Gate::HostPolicy,
        .args = {kHostArg, command, timeoutSeconds},
        .outputSchema = execOutput(),
        .run =
            [](Args const& args, Call const& call) {
                return runOnce(args[command], std::chrono::seconds(args[timeoutSeconds]), call);
            },
        .maxResultChars = 200'000,
    };
}

} // namespace termalin::mcp
