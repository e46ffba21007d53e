#include "mcp-stdio/authorize.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "core/audit.h"
#include "core/command_policy.h"
#include "core/log.h"
#include "core/path_policy.h"
#include "core/settings.h"
#include "core/store.h"
#include "mcp-stdio/app_link.h"
#include "mcp-stdio/iso_time.h"
#include "mcp-stdio/tool.h"

namespace termalin::mcp {
namespace {

std::string textOf(Args const& args, std::string_view name)
{
    auto const& value = args.raw(name);
    return value.is_string() ? value.get<std::string>() : std::string();
}

/// What the audit says that a call is about: its command, path or target.
std::string subjectOf(Args const& args)
{
    for (auto const* const name : {"command", "path", "tunnel"})
        if (auto text = textOf(args, name); !text.empty())
            return text;
    if (auto const target = textOf(args, "remoteHost"); !target.empty())
        return fmt::format("tunnel to {}:{}", target, args.raw("remotePort").dump());
    return textOf(args, "session");
}

/// What the audit says of a call that went well, beside its numbers: what it left open, by the name that
/// later calls use for it, or how it ended before its time.
std::string noteOf(Json const& result)
{
    auto const text = [&](char const* name) {
        auto const found = result.find(name);
        return found != result.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    if (auto const tunnel = text("tunnelId"); !tunnel.empty())
        return fmt::format("tunnel {} on {}, session {}", tunnel, text("listenAddr"), text("sessionId"));
    if (auto const session = text("sessionId"); !session.empty())
        return fmt::format("session {}", session);
    auto completion = text("completion");
    return completion == "exit" ? std::string() : completion;
}

std::int64_t bytesOf(Json const& result)
{
    for (auto const* const name : {"outputBytes", "size"})
        if (auto const found = result.find(name); found != result.end() && found->is_number_integer())
            return found->get<std::int64_t>();
    return 0;
}

/// What surely fits into the one packet of 35,000 bytes in which libssh2 sends an exec request.
constexpr std::size_t kMostToRun = 32U * 1024U;

Result<void> requireSendable(std::string_view command)
{
    if (command.size() <= kMostToRun)
        return {};
    return fail(
        Errc::TooLarge,
        fmt::format("The command has {} bytes as it would be sent, and a request to a server holds {}. "
                    "Where writing is allowed, put it in a file with sftp_put and run that.",
                    command.size(), kMostToRun));
}

} // namespace

Result<void> requireNotStopped(Paths const& paths)
{
    auto const settings = Settings::load(paths.settings);
    if (!settings.agentsStopped)
        return {};
    if (!settings.problem.empty())
        return fail(
            Errc::ConsentRequired,
            fmt::format("All agents are stopped. {} Only the person can change that; do not try again "
                        "until they say so.",
                        settings.problem));
    return fail(Errc::ConsentRequired,
                "The person has stopped all agents. Only they can lift this, in the app or "
                "with 'termalin-mcp agents resume'; do not try again until they say so.");
}

Result<void> requireOpen(Host const& host)
{
    if (host.policy == AgentPolicy::Blocked)
        return fail(Errc::BlockedByPolicy,
                    fmt::format("Host '{0}' is closed to agents. The person can open it in the app or with "
                                "\"termalin-mcp host set {1} --policy allowlist\" (or full).",
                                host.name, asArgument(host.name)));
    if (host.id == kLocalHostId)
        return fail(Errc::Unsupported, "This computer's own shell can only be used through the running app's "
                                       "terminal tabs.");
    return {};
}

Result<void> requireFull(Host const& host, std::string_view what)
{
    TRY(requireOpen(host));
    if (host.policy == AgentPolicy::Full)
        return {};
    return fail(
        Errc::NeedsFullAccess,
        fmt::format("{} needs full access, and host '{}' has an allowlist. The person can grant full access "
                    "in the app or with \"termalin-mcp host set {} --policy full\".",
                    what, host.name, asArgument(host.name)));
}

Result<CommandRuling> ruleOnCommand(Host const& host, std::string_view command, LoginShell shell)
{
    TRY(requireOpen(host));
    if (host.policy == AgentPolicy::Full) {
        TRY(requireSendable(command));
        return CommandRuling{.toRun = std::string(command), .because = "policy: full"};
    }
    std::vector<CommandRule> rules;
    for (auto const& text : host.rules) {
        auto rule = CommandRule::parse(text);
        if (!rule)
            return fail(
                Errc::NotInAllowlist,
                fmt::format("A rule of host '{}' cannot be read, so none is applied. The person has to "
                            "correct its rules with \"termalin-mcp host set {} --allow RULE\".",
                            host.name, asArgument(host.name)));
        rules.push_back(*std::move(rule));
    }
    TRY_LET(auto admitted, admitCommand(command, rules, shell));
    TRY(requireSendable(admitted.quoted)); // several times as long where there are many quotes in it
    return CommandRuling{.toRun = std::move(admitted.quoted), .because = "rule: " + admitted.rule};
}

Result<std::string> ruleOnRead(Host const& host, std::string_view path)
{
    TRY(requireOpen(host));
    if (host.policy == AgentPolicy::Full)
        return std::string("policy: full");
    std::vector<PathPattern> patterns;
    for (auto const& text : host.reads) {
        auto pattern = PathPattern::parse(text);
        if (!pattern)
            return fail(
                Errc::NotInAllowlist,
                fmt::format("A readable path of host '{}' cannot be read, so none is applied. The person "
                            "has to correct them with \"termalin-mcp host set {} --allow-read PATTERN\".",
                            host.name, asArgument(host.name)));
        patterns.push_back(*std::move(pattern));
    }
    TRY_LET(auto const asked, admitPath(path, patterns));
    auto const by =
        std::ranges::find_if(patterns, [&](PathPattern const& one) { return one.matches(asked); });
    return "readable: " + (by == patterns.end() ? asked : by->text());
}

Result<Host> findOpenHost(Store& store, Paths const& paths, std::string_view idOrName)
{
    TRY(requireNotStopped(paths));
    TRY_LET(auto host, store.findHost(idOrName));
    TRY(requireOpen(host));
    return host;
}

Result<Admission> PolicyGate::judgeHost(Tool const& tool, Args const& args, std::string& hostName)
{
    auto wanted = textOf(args, "host");
    if (auto const session = textOf(args, "session"); wanted.empty() && !session.empty()) {
        TRY_LET(wanted, m_hostOf.session(session));
    }
    TRY_LET(auto host, m_store.findHost(wanted));
    hostName = host.name;
    Admission admission{.host = host, .because = fmt::format("policy: {}", toString(host.policy))};
    if (tool.gate == Gate::FullAccessHost) {
        TRY(requireFull(host, tool.name.starts_with("tunnel") ? "Opening a tunnel" : "Writing a file"));
        return admission;
    }
    TRY(requireOpen(host));
    // Before any connection is made the laxer reading is used; the handler asks again once it knows the
    // server's login shell, and in what form a path exists there.
    if (args.raw("command").is_string()) {
        TRY_LET(auto const ruling, ruleOnCommand(host, textOf(args, "command"), LoginShell::Posix));
        admission.because = ruling.because;
    } else if (args.raw("path").is_string()) {
        TRY_LET(admission.because, ruleOnRead(host, textOf(args, "path")));
    }
    return admission;
}

/// The name of the host that a call is about whose row asks no host's policy, as it is saved now; its id once
/// it is not saved any more.
std::string PolicyGate::hostToRecord(Args const& args) const
{
    Result<std::string> id = textOf(args, "host");
    if (auto const session = textOf(args, "session"); !session.empty())
        id = m_hostOf.session(session);
    else if (auto const tunnel = textOf(args, "tunnel"); !tunnel.empty())
        id = m_hostOf.tunnel(tunnel);
    if (!id || id->empty())
        return {};
    auto const host = m_store.findHost(*id);
    return host ? host->name : *id;
}

Result<Admission> PolicyGate::judge(Tool const& tool, Args const& args, std::string& hostName)
{
    TRY(requireNotStopped(m_paths));
    auto const settings = Settings::load(m_paths.settings);
    switch (tool.gate) {
    case Gate::Open: return Admission{.host = {}, .because = "open"};
    case Gate::HostPolicy:
    case Gate::FullAccessHost: return judgeHost(tool, args, hostName);
    case Gate::AgentInTerminal:
    case Gate::AgentMayRun:
        if (!settings.agentsInTerminal)
            return fail(Errc::ConsentRequired,
                        "\"Agent in Terminal\" is off. The person can switch it on in the "
                        "app's settings.");
        if (tool.gate == Gate::AgentMayRun && settings.agentsMayRun == AgentsMayRun::No)
            return fail(Errc::ConsentRequired,
                        "\"Let agents run commands\" is off. The person can switch it on in "
                        "the app's settings.");
        return Admission{.host = {}, .because = "settings"};
    case Gate::DataGrant: // each connection's own grant is the app's to judge
        return Admission{.host = {}, .because = "settings"};
    case Gate::Never: break;
    }
    return fail(Errc::Internal, fmt::format("The tool {} has no gate, so it cannot run.", tool.name));
}

AuditCall PolicyGate::lineOf(Tool const& tool, Args const& args, Call const& call)
{
    return {.client =
                call.client.version.empty() ? call.client.name : call.client.name + ' ' + call.client.version,
            .clientProgram = call.client.program,
            .tool = tool.name,
            .host = {},
            .subject = subjectOf(args),
            .decision = {},
            .because = {}};
}

void PolicyGate::noteRefusal(AuditCall line, Error const& why)
{
    line.decision = "refused";
    line.because = fmt::format("{}: {}", toString(why.code), why.message);
    // Not the message: it may hold the command, in which only the audit hides what is secret.
    log(LogLevel::Info, "call", "{} was refused: {}", line.tool, toString(why.code));
    if (auto const written = m_audit.note(line); !written)
        log(LogLevel::Error, "audit", "A refusal could not be recorded: {}", written.error().message);
}

void PolicyGate::refused(Tool const& tool, Args const& args, Call const& call, Error const& why)
{
    noteRefusal(lineOf(tool, args, call), why);
}

Result<Admission> PolicyGate::admit(Tool const& tool, Args const& args, Call const& call)
{
    auto line = lineOf(tool, args, call);
    auto admission = judge(tool, args, line.host);
    if (line.host.empty())
        line.host = hostToRecord(args);
    if (!admission) {
        noteRefusal(std::move(line), admission.error());
        return admission;
    }
    line.decision = "allowed";
    line.because = admission->because;
    TRY_LET(admission->auditNumber, m_audit.begin(line));
    log(LogLevel::Debug, "call", "{} begins ({})", tool.name, admission->because);
    {
        std::scoped_lock const lock(m_mutex);
        m_underWay.emplace(admission->auditNumber, std::chrono::steady_clock::now());
    }
    if (m_app != nullptr && admission->host)
        m_app->began({.kind = Activity::Kind::Call,
                      .id = std::to_string(admission->auditNumber),
                      .tool = tool.name,
                      .host = admission->host->name,
                      .hostId = admission->host->id,
                      .detail = line.subject,
                      .since = isoTime(std::chrono::system_clock::now())});
    return admission;
}

void PolicyGate::finished(Tool const& tool, Admission const& admission, Result<Json> const& outcome,
                          std::chrono::milliseconds took)
{
    if (m_app != nullptr && admission.host)
        m_app->ended(Activity::Kind::Call, std::to_string(admission.auditNumber));
    if (std::scoped_lock const lock(m_mutex); m_underWay.erase(admission.auditNumber) == 0)
        return; // its end is told already
    log(LogLevel::Debug, "call", "{} ended after {} ms: {}", tool.name, took.count(),
        outcome ? std::string_view("done") : toString(outcome.error().code));
    AuditOutcome line;
    line.milliseconds = took.count();
    if (!outcome) {
        line.result = toString(outcome.error().code);
    } else {
        line.bytes = bytesOf(*outcome);
        if (auto const code = outcome->find("exitCode"); code != outcome->end() && code->is_number_integer())
            line.exitCode = code->get<int>();
        line.note = noteOf(*outcome);
    }
    if (auto const written = m_audit.end(admission.auditNumber, line); !written)
        log(LogLevel::Error, "audit", "The end of a call could not be recorded: {}", written.error().message);
}

void PolicyGate::abandoned()
{
    decltype(m_underWay) left;
    {
        std::scoped_lock const lock(m_mutex);
        left.swap(m_underWay);
    }
    for (auto const& [number, began] : left) {
        auto const took = std::chrono::steady_clock::now() - began;
        AuditOutcome const line{
            .result = std::string(toString(Errc::Cancelled)),
            .exitCode = {},
            .milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(took).count(),
            .note = "The agent's program ended while this was being stopped; how it ended is not known."};
        if (auto const written = m_audit.end(number, line); !written)
            log(LogLevel::Error, "audit", "The end of a call could not be recorded: {}",
                written.error().message);
    }
    m_audit.sync();
}

} // namespace termalin::mcp
