#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {
namespace {

Arg<std::string> const kTabIdArg{
    .name = "tabId", .meaning = "From terminal_sessions or terminal_open", .limits = kNameLimits};
Arg<std::string> const kCommandArg{.name = "command", .meaning = "", .limits = kCommandLimits};
Arg<std::int64_t> const kTimeoutArg{
    .name = "timeoutSeconds", .meaning = "Generous for builds", .fallback = 120, .limits = kTimeoutLimits};

/// The fields of one tab's outcome. With `orError` all but the tab may be missing and an error stand instead.
Json runOutput(bool orError)
{
    using schema::flag, schema::integer, schema::object, schema::oneOf, schema::text;
    auto result =
        object({{"tabId", text()},
                {"output", text()},
                {"exitCode?", integer()},
                {"completion", oneOf({"exit", "timeout", "cancelled", "disconnected", "awaiting-input",
                                      "alt-screen", "taken-over", "unconfirmed"})},
                {"truncated", flag()},
                {"outputBytes", integer()},
                {"omittedBytes", integer()},
                {"durationMs", integer()},
                {"note?", text()}});
    if (orError) {
        result["required"] = {"tabId"};
        result["properties"]["completion"] = text(); // the words are in terminal_run's schema
        result["properties"]["error"] = object({{"code", text()}, {"message", text()}});
    }
    return result;
}

} // namespace

Tool terminalHosts()
{
    using schema::flag, schema::list, schema::object, schema::oneOf, schema::text;
    return {
        .name = "terminal_hosts",
        .title = "List what tabs can open",
        .description =
            "Lists the saved hosts that terminal_open could open in the person's running Termalin app. "
            "canOpenHeadless false: opening waits for the person.",
        .effect = Effect::ReadOnly,
        .needs = Needs::App,
        .gate = Gate::AgentInTerminal,
        .outputSchema = object({{"hosts", list(object({{"hostId", text()},
                                                       {"name", text()},
                                                       {"connectionType", oneOf({"ssh", "local"})},
                                                       {"authMethod", text()},
                                                       {"canOpenHeadless", flag()}}))}}),
        .run = [](Args const&, Call const& call) { return call.services.insideApp->terminalHosts(call); },
    };
}

Tool terminalSessions()
{
    using schema::flag, schema::list, schema::object, schema::text;
    return {
        .name = "terminal_sessions",
        .title = "List terminal tabs",
        .description =
            "Lists the person's open terminal tabs that you can act in. attached: an agent has acted in "
            "its present shell.",
        .effect = Effect::ReadOnly,
        .needs = Needs::App,
        .gate = Gate::AgentInTerminal,
        .outputSchema = object({{"tabs", list(object({{"tabId", text()},
                                                      {"hostId", text()},
                                                      {"title", text()},
                                                      {"connected", flag()},
                                                      {"attached", flag()}}))}}),
        .run = [](Args const&, Call const& call) { return call.services.insideApp->terminalSessions(call); },
    };
}

Tool terminalOpen()
{
    using schema::flag, schema::object, schema::oneOf, schema::text;
    static Arg<std::string> const hostId{
        .name = "hostId", .meaning = "From terminal_hosts", .limits = kNameLimits};
    return {
        .name = "terminal_open",
        .title = "Open a terminal tab",
        .description =
            "Opens a tab in the person's app, in the background. With needsUser it stays unconnected until "
            "the person has answered there. Without an app use session_open.",
        .effect = Effect::Additive,
        .needs = Needs::App,
        .gate = Gate::AgentMayRun,
        .args = {hostId},
        .outputSchema = object({{"tabId", text()},
                                {"hostId", text()},
                                {"title", text()},
                                {"connected", flag()},
                                {"needsUser?", oneOf({"password", "passphrase", "code", "host-key"})}}),
        .run = [](Args const& args,
                  Call const& call) { return call.services.insideApp->terminalOpen(args[hostId], call); },
    };
}

Tool terminalRun()
{
    return {
        .name = "terminal_run",
        .title = "Run a command in a tab",
        .description =
            "Types a command at the prompt of an open tab, in the person's sight, and returns what it "
            "printed. cd and variables last. On timeout it goes on running. awaiting-input: it asks "
            "something that only the person may answer; taken-over: the person began to type. For work "
            "that need not be watched use ssh_exec.",
        .effect = Effect::Destructive,
        .needs = Needs::App,
        .gate = Gate::AgentMayRun,
        .args = {kTabIdArg, kCommandArg, kTimeoutArg},
        .outputSchema = runOutput(false),
        .run =
            [](Args const& args, Call const& call) {
                return call.services.insideApp->terminalRun(args[kTabIdArg], args[kCommandArg],
                                                            std::chrono::seconds(args[kTimeoutArg]), call);
            },
        .maxResultChars = 200'000,
    };
}

Tool terminalRunMany()
{
    using schema::list, schema::object;
    static Arg<StringList> const tabIds{.name = "tabIds", .meaning = "", .limits = Limits{1, 64}};
    return {
        .name = "terminal_run_many",
        .title = "Run a command in several tabs",
        .description =
            "As terminal_run, in several tabs at once; one result an entry, in order. A failing tab has "
            "error and does not fail the others.",
        .effect = Effect::Destructive,
        .needs = Needs::App,
        .gate = Gate::AgentMayRun,
        .args = {tabIds, kCommandArg, kTimeoutArg},
        .outputSchema = object({{"results", list(runOutput(true))}}),
        .run =
            [](Args const& args, Call const& call) {
                return call.services.insideApp->terminalRunMany(
                    args[tabIds], args[kCommandArg], std::chrono::seconds(args[kTimeoutArg]), call);
            },
        .maxResultChars = 500'000,
    };
}

} // namespace termalin::mcp
