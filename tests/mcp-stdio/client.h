#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mutex>
#include <string>
#include <vector>

#include "mcp-stdio/lines.h"
#include "mcp-stdio/server.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp::test {

/// Longer than any wait that succeeds, on the slowest machine.
inline constexpr std::chrono::seconds kPatience{30};

/// Admits every call, and remembers.
class OpenGate : public Gatekeeper {
public:
    Result<Admission> admit(Tool const& tool, Args const&, Call const&) override
    {
        std::lock_guard const lock(m_mutex);
        m_log.push_back(tool.name);
        if (refuse)
            return fail(*refuse, "The gate said no.");
        return Admission{.host = {}, .because = "open", .auditNumber = 1};
    }
    void finished(Tool const& tool, Admission const&, Result<Json> const& outcome,
                  std::chrono::milliseconds) override
    {
        std::lock_guard const lock(m_mutex);
        m_log.push_back(tool.name + (outcome ? " ok" : " " + std::string(toString(outcome.error().code))));
    }
    std::vector<std::string> log()
    {
        std::lock_guard const lock(m_mutex);
        return m_log;
    }
    std::optional<Errc> refuse;

private:
    std::mutex m_mutex;
    std::vector<std::string> m_log;
};

/// A Server and its one client.
class Client {
public:
    explicit Client(std::span<Tool const> tools, ServerOptions options = {})
        : server(tools, services, [this](std::string line) { take(std::move(line)); }, std::move(options))
    {
        services.gatekeeper = &gate;
    }

    void send(std::string_view line)
    {
        LineScanner scanner;
        auto const onLine = [this](Line const& l) { server.receive(l); };
        scanner.feed(line, onLine);
        scanner.finish(onLine);
    }
    /// `initialize`, as a client of this version.
    void initialize(std::string_view version = "2025-11-25")
    {
        send(fmt::format(
            R"({{"jsonrpc":"2.0","id":"init","method":"initialize","params":{{"protocolVersion":"{}",)"
            R"("capabilities":{{}},"clientInfo":{{"name":"test","version":"1"}}}}}})",
            version));
        ASSERT_EQ(next()["result"]["protocolVersion"], version);
        send(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
    }
    void call(std::string_view id, std::string_view tool, std::string_view arguments = "{}",
              std::string_view meta = "{}")
    {
        send(fmt::format(
            R"({{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"name":"{}","arguments":{},"_meta":{}}}}})",
            id, tool, arguments, meta));
    }
    /// The next line the server has sent, as it is.
    std::string nextLine()
    {
        std::unique_lock lock(m_mutex);
        if (!m_arrived.wait_for(lock, kPatience, [&] { return !m_lines.empty(); })) {
            ADD_FAILURE() << "nothing came";
            return "null";
        }
        auto line = m_lines.front();
        m_lines.pop_front();
        return line;
    }
    Json next() { return Json::parse(nextLine()); }
    /// All that has come in order up to the answer to a ping sent now: what is not in it had not been sent.
    std::vector<Json> upToPing()
    {
        send(R"({"jsonrpc":"2.0","id":"ping","method":"ping"})");
        std::vector<Json> lines;
        for (auto line = next(); line.value("id", Json()) != "ping"; line = next())
            lines.push_back(line);
        return lines;
    }

private:
    void take(std::string line)
    {
        std::lock_guard const lock(m_mutex);
        m_lines.push_back(std::move(line));
        m_arrived.notify_all();
    }
    std::mutex m_mutex;
    std::condition_variable m_arrived;
    std::deque<std::string> m_lines;

public:
    OpenGate gate;
    Services services;
    Server server;
};

/// A tool that waits until it is stopped or let go.
struct Waiter {
    Tool tool(std::string name = "wait")
    {
        return {.name = std::move(name),
                .title = "Wait",
                .description = "Waits.",
                .effect = Effect::ReadOnly,
                .needs = Needs::Nothing,
                .gate = Gate::Open,
                .outputSchema = {{"type", "object"}},
                .run = [this](Args const&, Call const& call) -> Result<Json> {
                    std::unique_lock lock(mutex);
                    ++running;
                    changed.notify_all();
                    changed.wait(lock, call.stop, [this] { return released; });
                    --running;
                    reasons.push_back(call.control->reason());
                    changed.notify_all();
                    if (call.stop.stop_requested())
                        return fail(Errc::Cancelled, "It was stopped.");
                    return Json{{"waited", true}};
                }};
    }
    void release()
    {
        std::lock_guard const lock(mutex);
        released = true;
        changed.notify_all();
    }
    bool waitForRunning(int count)
    {
        std::unique_lock lock(mutex);
        return changed.wait_for(lock, kPatience, [&] { return running == count; });
    }

    std::mutex mutex;
    std::condition_variable_any changed;
    int running = 0;
    bool released = false;
    std::vector<StopReason> reasons;
};

/// A tool that answers at once with its arguments.
inline Tool echo()
{
    static Arg<std::optional<std::string>> const text{.name = "text", .meaning = "Anything"};
    return {.name = "echo",
            .title = "Echo",
            .description = "Answers.",
            .effect = Effect::ReadOnly,
            .needs = Needs::Nothing,
            .gate = Gate::Open,
            .args = {text},
            .outputSchema = {{"type", "object"}},
            .run = [](Args const& args, Call const&) -> Result<Json> { return args.all(); }};
}

} // namespace termalin::mcp::test
