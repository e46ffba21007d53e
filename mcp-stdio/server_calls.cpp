// The part of Server that runs a call, from its thread to its result.
#include <exception>
#include <fmt/format.h>
#include <system_error>

#include "core/log.h"
#include "mcp-stdio/app_link.h"
#include "mcp-stdio/authorize.h"
#include "mcp-stdio/running_call.h"
#include "mcp-stdio/server.h"

namespace termalin::mcp {

void AfterReply::run() noexcept
{
    for (auto const& work : std::exchange(m_work, {})) {
        try {
            work();
        } catch (std::exception const& e) {
            log(LogLevel::Warn, "call", "What was left after a reply could not be done: {}", e.what());
        }
    }
}

std::optional<std::string> Server::start(std::shared_ptr<RunningCall> const& call, Work work)
{
    auto const refuse = [&](Errc code, std::string message) {
        return rpc::resultTextLine(call->id.json, toolResult(fail(code, std::move(message))));
    };
    call->arrived = [this] {
        std::lock_guard const lock(m_mutex);
        m_progressArrived = true;
        m_wake.notify_one();
    };
    std::lock_guard const lock(m_mutex);
    if (m_stopped != StopReason::None)
        return refuse(Errc::Cancelled, "This server is closing; nothing was run.");
    if (m_calls.size() >= kMaxCalls)
        return refuse(Errc::TooMany,
                      fmt::format("{} calls are running; nothing was run. Wait for one to end.", kMaxCalls));
    try {
        if (call->wantsProgress() && !m_house.joinable())
            m_house = std::jthread([this](std::stop_token const& stop) { sendProgress(stop); });
        // finish() waits for m_mutex, so that the call is in the map by then.
        m_threads.run([this, call, run = std::move(work)] {
            finish(*call, run(*call));
            call->afterReply.run();
        });
    } catch (std::system_error const& e) {
        return refuse(Errc::TooMany,
                      fmt::format("The system has no thread left for this call ({}); nothing was "
                                  "run. Wait for other calls to end.",
                                  e.what()));
    }
    m_calls.emplace(call->id.key, call);
    if (call->wantsProgress()) {
        m_progressArrived = true; // when it is due must be found anew
        m_wake.notify_one();
    }
    return std::nullopt;
}

/// One call from permission to result, on the call's own thread.
std::string Server::perform(Tool const& tool, Args const& args, RunningCall& call)
{
    if (tool.needs == Needs::App && m_services.insideApp == nullptr) { // the app judges and records it
        // "Stop everything" is told also where no app could tell it.
        Call const made{m_services,  call.control->token(), call.control, call,
                        call.client, call.afterReply,       Admission{},  call.shownDestructive};
        if (auto const free = requireNotStopped(m_services.paths); !free) {
            if (m_services.gatekeeper != nullptr)
                m_services.gatekeeper->refused(tool, args, made, free.error());
            return toolResult(std::unexpected(free.error()));
        }
        if (m_services.app == nullptr)
            return toolResult(
                fail(Errc::AppNotRunning, fmt::format("{} works through the Termalin app, which "
                                                      "is not running; ask the person to start it.",
                                                      tool.name)));
        try {
            auto const forwarded = m_services.app->call(tool, args, made);
            return forwarded ? toLine(*forwarded) : toolResult(std::unexpected(forwarded.error()));
        } catch (std::exception const& e) { // its thread has other calls to run
            return toolResult(fail(Errc::Internal,
                                   fmt::format("{} failed unexpectedly; this is a defect.", tool.name),
                                   e.what()));
        }
    }
    return toolResult(runGuarded(tool, args, call));
}

/// Gives the result as JSON text. Here, and in perform(), exceptions of the standard and of third-party
/// libraries are turned into Errors.
Result<std::string> Server::runGuarded(Tool const& tool, Args const& args, RunningCall& running)
{
    auto const unexpectedly = [&](std::exception const& e) {
        return fail(Errc::Internal, fmt::format("{} failed unexpectedly; this is a defect.", tool.name),
                    e.what());
    };
    if (m_services.gatekeeper == nullptr || tool.gate == Gate::Never)
        return fail(Errc::Internal,
                    fmt::format("{} has no gate, so it never runs; this is a defect.", tool.name));
    auto const callWith = [&](Admission const& admission) {
        return Call{m_services,     running.control->token(), running.control, running,
                    running.client, running.afterReply,       admission,       running.shownDestructive};
    };
    Admission admission;
    try {
        TRY_LET(admission, m_services.gatekeeper->admit(tool, args, callWith(Admission{})));
    } catch (std::exception const& e) {
        return unexpectedly(e);
    }
    auto const began = Deadline::Clock::now();
    Result<Json> outcome = fail(Errc::Internal, "");
    std::string text;
    try {
        if (tool.runText) {
            auto given = tool.runText(args, callWith(admission));
            outcome = given ? Result<Json>(Json::object()) : std::unexpected(given.error());
            text = std::move(given).value_or("");
        } else {
            outcome = tool.run(args, callWith(admission));
            text = outcome ? toLine(*outcome) : "";
        }
    } catch (std::exception const& e) {
        outcome = unexpectedly(e);
    }
    m_services.gatekeeper->finished(
        tool, admission, outcome,
        std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - began));
    if (!outcome)
        return std::unexpected(outcome.error());
    return text;
}

} // namespace termalin::mcp
