#include <array>
#include <charconv>
#include <fmt/format.h>

#include "core/settings.h"
#include "mcp-stdio/cli/commands.h"
#include "mcp-stdio/cli/console.h"

namespace termalin::cli {

namespace {

std::string_view textOf(AgentsMayRun value)
{
    switch (value) {
    case AgentsMayRun::No: return "no";
    case AgentsMayRun::Ask: return "ask";
    case AgentsMayRun::Yes: return "yes";
    }
    return "no";
}

/// One setting that is to be changed.
struct Change {
    std::string key;    ///< "agents.mayRun"
    std::string json;   ///< its new value
    std::string effect; ///< What agents can do then; empty where it gives them nothing.
    Json before;
};

Result<Change> inTerminal(Settings const& now, std::string_view value)
{
    if (value != "true" && value != "false")
        return fail(Errc::InvalidArgument,
                    fmt::format("inTerminal must be true or false, not '{}'.", visible(value)));
    return Change{.key = "agents.inTerminal",
                  .json = std::string(value),
                  .effect = value == "true" && !now.agentsInTerminal
                                ? "Agents may then see your terminal tabs and saved hosts in the app."
                                : "",
                  .before = now.agentsInTerminal};
}

Result<Change> mayRun(Settings const& now, std::string_view value)
{
    auto const wanted = value == "no"    ? AgentsMayRun::No
                        : value == "ask" ? AgentsMayRun::Ask
                                         : AgentsMayRun::Yes;
    if (value != "no" && value != "ask" && value != "yes")
        return fail(Errc::InvalidArgument,
                    fmt::format("mayRun must be no, ask or yes, not '{}'.", visible(value)));
    return Change{.key = "agents.mayRun",
                  .json = fmt::format("\"{}\"", value),
                  .effect = wanted <= now.agentsMayRun ? ""
                            : wanted == AgentsMayRun::Ask
                                ? "Agents may then run commands in terminal tabs, each after "
                                  "you have allowed it."
                                : "Agents may then run commands in terminal tabs without "
                                  "asking.",
                  .before = std::string(textOf(now.agentsMayRun))};
}

Result<Change> outputCap(Settings const& now, std::string_view value)
{
    std::size_t bytes = 0;
    auto const [end, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
    if (error != std::errc() || end != value.data() + value.size() || bytes < 4096 || bytes > 1024UL * 1024UL)
        return fail(Errc::InvalidArgument,
                    fmt::format("outputCap must be a number of bytes from 4096 to 1048576, not '{}'.",
                                visible(value)));
    return Change{
        .key = "agents.outputCap", .json = std::to_string(bytes), .effect = "", .before = now.outputCap};
}

Result<Change> parseChange(Settings const& now, std::string_view assignment)
{
    auto const equals = assignment.find('=');
    auto const key = assignment.substr(0, equals);
    auto const value = equals == std::string_view::npos ? std::string_view() : assignment.substr(equals + 1);
    if (equals != std::string_view::npos && key == "inTerminal")
        return inTerminal(now, value);
    if (equals != std::string_view::npos && key == "mayRun")
        return mayRun(now, value);
    if (equals != std::string_view::npos && key == "outputCap")
        return outputCap(now, value);
    return fail(Errc::InvalidArgument,
                fmt::format("'{}' cannot be set. Write inTerminal=true|false, mayRun=no|ask|yes "
                            "or outputCap=BYTES.",
                            visible(assignment)));
}

/// A file that cannot be used is a failure, not a wrong command line.
Result<void> change(Context& context, std::string_view key, std::string_view json)
{
    auto changed = changeSetting(context.paths().settings, key, json);
    if (!changed && changed.error().code == Errc::InvalidArgument)
        changed.error().code = Errc::Internal;
    return changed;
}

Result<void> auditNote(Context& context, std::string_view command, std::string subject)
{
    TRY_LET(auto* const audit, context.audit());
    return audit->note({.client = thisProcess(),
                        .clientProgram = parentProcess(),
                        .tool = std::string(command),
                        .host = {},
                        .subject = std::move(subject),
                        .decision = "allowed",
                        .because = "command line"});
}

} // namespace

Result<int> agentsShow(Context& context)
{
    auto const settings = Settings::load(context.paths().settings);
    TRY_LET(auto* const store, context.store());
    TRY_LET(auto const hosts, store->hosts());
    std::array<std::size_t, 3> counts{};
    for (auto const& host : hosts)
        if (host.id != kLocalHostId || host.policy != AgentPolicy::Blocked)
            ++counts.at(static_cast<std::size_t>(host.policy));
    say("Agents are {}.", settings.agentsStopped
                              ? "stopped: every call is refused (termalin-mcp agents resume)"
                              : "not stopped");
    say("Saved hosts:   {} with full access, {} with an allowlist, {} blocked", counts[2], counts[1],
        counts[0]);
    say("inTerminal:    {}", settings.agentsInTerminal);
    say("mayRun:        {}", textOf(settings.agentsMayRun));
    say("outputCap:     {} bytes", settings.outputCap);
    say("Settings file: {}", context.paths().settings.string());
    if (!settings.problem.empty())
        note("Warning: {}", settings.problem);
    return kDone;
}

Result<int> agentsStop(Context& context)
{
    // Stopping comes first: a full disk that keeps the audit from its line must not keep agents running.
    auto const& file = context.paths().settings;
    if (auto stopped = stopAgents(file); !stopped) {
        auto error = std::move(stopped).error();
        if (error.code == Errc::InvalidArgument)
            error.code = Errc::Internal; // the file's fault, not the command line's
        if (!Settings::load(file).agentsStopped)
            error.message += " Agents are not stopped by this. What ends their programs, and what these run: "
                             "pkill -x termalin-mcp";
        return std::unexpected(std::move(error));
    }
    if (auto const problem = Settings::load(file).problem; !problem.empty())
        note("Warning: {}", problem);
    say("Agents are stopped. Running commands are ended and tunnels closed within a second.");
    TRY(auditNote(context, "agents stop", "Everything that agents do was stopped."));
    return kDone;
}

Result<int> agentsResume(Context& context, bool yes)
{
    auto const settings = Settings::load(context.paths().settings);
    if (!settings.agentsStopped) {
        say("Agents are not stopped.");
        return kDone;
    }
    WideningPlan const plan{.command = "agents resume",
                            .host = {},
                            .effects = {"Agents may then work again, each host within its policy."},
                            .cautions = {},
                            .before = {{"setting", "agents.stopped"}, {"value", true}}};
    auto const lift = [&] { return change(context, "agents.stopped", "false"); };
    TRY(widen(context, plan, yes, lift));
    say("Agents may work again.");
    return kDone;
}

Result<int> agentsSet(Context& context, std::vector<std::string> const& assignments, bool yes)
{
    auto const settings = Settings::load(context.paths().settings);
    std::vector<Change> changes;
    WideningPlan plan{
        .command = "agents set", .host = {}, .effects = {}, .cautions = {}, .before = Json::object()};
    for (auto const& assignment : assignments) {
        TRY_LET(auto wanted, parseChange(settings, assignment));
        if (!wanted.effect.empty())
            plan.effects.push_back(wanted.effect);
        plan.before[wanted.key] = wanted.before;
        changes.push_back(std::move(wanted));
    }
    auto const changeAll = [&]() -> Result<void> {
        for (auto const& wanted : changes)
            TRY(change(context, wanted.key, wanted.json));
        return {};
    };
    TRY(widen(context, plan, yes, changeAll));
    for (auto const& wanted : changes)
        say("{} is now {}.", wanted.key, wanted.json);
    return kDone;
}

} // namespace termalin::cli
