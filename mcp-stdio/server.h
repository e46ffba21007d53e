#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/deadline.h"
#include "core/log.h"
#include "mcp-stdio/call_threads.h"
#include "mcp-stdio/lines.h"
#include "mcp-stdio/rpc.h"
#include "mcp-stdio/services.h"
#include "mcp-stdio/tool.h"

namespace termalin::mcp {

class RunningCall;

/// What differs between the clients that a Server may have. Functions may be empty; they are called from any
/// thread.
struct ServerOptions {
    /// The client is a termalin-mcp that hands on calls of an agent of its own: its calls may say in `_meta`
    /// who that agent is and what it was shown. docs/control-socket.md
    bool relays = false;
    std::string clientProgram = {};
    /// Requests beyond MCP, each on a thread of its own and cancelled like a tool's call. Which there are:
    std::vector<std::string> methods = {};
    std::function<Result<Json>(std::string const& method, Json const& params, Call const& call)> request = {};
    /// Notifications beyond MCP, in the order in which they come.
    std::function<void(std::string const& method, Json const& params)> notified = {};
    /// Whether replies wait for the client to take them: progress is left out meanwhile.
    std::function<bool()> congested = {};
    /// The client chose what it wants to be told of (logging/setLevel).
    std::function<void(LogLevel)> logLevel = {};
    /// Done once, beside everything else and on the thread that will run the first call: what that one needs
    /// and what takes long the first time. Must not throw.
    std::function<void()> warmUp = {};
};

/// One client's MCP session: lines in, lines out. It knows neither pipes nor sockets, so termalin-mcp, the
/// app's control socket and the tests all drive this same class. The Model Context Protocol
/// is kept to in its versions 2024-11-05 to 2025-11-25.
class Server {
public:
    static constexpr std::size_t kMaxCalls = 256;

    using Send = std::function<void(std::string)>;

    /// `send` gets one JSON message without its newline, from any thread but never two at once; it must
    /// return at once. `tools` and `services` must outlive the server.
    Server(std::span<Tool const> tools, Services& services, Send send, ServerOptions options = {});

    /// Stops the running calls and waits for them.
    ~Server();
    Server(Server const&) = delete;
    Server& operator=(Server const&) = delete;

    /// Handles one line. Returns at once: a call runs on a thread of its own.
    void receive(Line const& line);

    /// To be called when a row's effect may have changed: tells the client to fetch the list again, if so.
    void toolsChanged();

    /// Hands a line of the program's own log to the client, if it wants that level. Any thread.
    void log(LogLevel level, std::string_view category, std::string_view text);

    /// Ends the running calls; those that come later are refused with Cancelled.
    void stopAll(StopReason reason);
    /// Whether no call runs any more. Returns at the latest at `deadline` or when `stop` is requested.
    bool waitUntilIdle(Deadline deadline, std::stop_token const& stop = {});

private:
    /// The replies to one batch, which are sent together. Guarded by m_mutex.
    struct Batch {
        std::string replies; ///< Joined by commas.
        std::size_t pending = 0;
    };
    using BatchPtr = std::shared_ptr<Batch>;

    void receiveBatch(rpc::Message const& message);
    void receiveMessage(Json const& message, std::string_view idText, BatchPtr const& batch);
    std::optional<std::string> request(std::string const& method, rpc::RequestId const& id,
                                       Json const& params, BatchPtr const& batch);
    void notification(std::string const& method, Json const& params);

    std::string initialize(rpc::RequestId const& id, Json const& params);
    std::string listTools(rpc::RequestId const& id, Json const& params);
    std::string setLogLevel(rpc::RequestId const& id, Json const& params);
    std::optional<std::string> callTool(rpc::RequestId const& id, Json const& params, BatchPtr const& batch);
    std::optional<std::string> callMethod(std::string const& method, rpc::RequestId const& id,
                                          Json const& params, BatchPtr const& batch);
    void readRelay(Json const& meta, RunningCall& call) const;

    using Work = std::function<std::string(RunningCall&)>;
    std::optional<std::string> start(std::shared_ptr<RunningCall> const& call, Work work);
    std::string perform(Tool const& tool, Args const& args, RunningCall& call);
    Result<std::string> runGuarded(Tool const& tool, Args const& args, RunningCall& running);
    void finish(RunningCall& call, std::string reply);
    void answer(BatchPtr const& batch, std::optional<std::string> reply);
    void answerLocked(BatchPtr const& batch, std::optional<std::string> reply);

    void sendProgress(std::stop_token const& stop);
    Deadline::Clock::time_point sendDueProgress();

    std::span<Tool const> m_tools;
    Services& m_services;
    Send m_send;
    ServerOptions m_options;

    // Of the thread that calls receive().
    std::string m_version; ///< Negotiated; empty before `initialize`.
    ClientInfo m_client;

    std::mutex m_mutex; ///< Guards what follows; m_send is called under it.
    std::condition_variable_any m_wake;
    std::condition_variable_any m_idle;
    std::map<std::string, std::shared_ptr<RunningCall>> m_calls; ///< By RequestId::key.
    std::map<std::string, Effect> m_shown;                       ///< As in the last tools/list.
    bool m_progressArrived = false;
    bool m_clientReady = false; ///< notifications/initialized has come.
    StopReason m_stopped = StopReason::None;
    int m_logThreshold = 0; ///< Of the levels of RFC 5424 as MCP names them.
    std::jthread m_house;   ///< Sends progress; started by the first call that wants it.
    CallThreads m_threads;  ///< last: what runs on them uses the rest
};

} // namespace termalin::mcp
