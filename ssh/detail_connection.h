#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "core/unique_fd.h"
#include "ssh/connection.h"
#include "ssh/detail_task.h"
#include "ssh/session.h"
#include "ssh/userauth.h"

namespace termalin::ssh {

/// What lies below a session besides its stream: the connection to the jump host that carries it, or the
/// ProxyCommand. Goes after the session.
class Carrier {
public:
    Carrier() = default;
    virtual ~Carrier() = default;
    Carrier(Carrier const&) = delete;
    Carrier& operator=(Carrier const&) = delete;
    /// Why the stream ended, as far as this end knows more than "the line was cut"; empty: it does not.
    [[nodiscard]] virtual std::string problem() = 0;
};

/// The one implementation of Connection: the loop of one thread over the tasks.
class ConnectionImpl final : public Connection {
public:
    struct Parts {
        Route route; ///< The way to this server, itself included.
        LoginContext context;
        std::unique_ptr<Carrier> carrier; ///< May be null.
        std::unique_ptr<Session> session;
        LoggedIn login;
        ServerKey serverKey;
        std::string serverVersion;
        bool neededPersonOnTheWay = false;
    };
    explicit ConnectionImpl(Parts parts);
    ~ConnectionImpl() override;
    ConnectionImpl(ConnectionImpl const&) = delete;
    ConnectionImpl& operator=(ConnectionImpl const&) = delete;

    Result<ExecOutcome> exec(ExecRequest request, Deadline deadline, std::stop_token const& stop) override;
    Result<LoginShell> loginShell(Deadline deadline, std::stop_token const& stop) override;
    void keepChannelReady() override;
    [[nodiscard]] bool alive() const override;
    [[nodiscard]] std::string whyClosed() const override;
    void onClosed(std::function<void()> callback) override;
    void close() override;
    [[nodiscard]] bool neededPerson() const override
    {
        return m_parts.login.neededPerson || m_parts.neededPersonOnTheWay;
    }
    [[nodiscard]] AuthType authType() const override { return m_parts.login.type; }
    [[nodiscard]] ServerKey const& serverKey() const override { return m_parts.serverKey; }
    [[nodiscard]] std::string serverVersion() const override { return m_parts.serverVersion; }
    [[nodiscard]] Traffic traffic() const override;

    /// Puts a task on the connection's thread. Any thread. On a connection that has ended, ended() is called
    /// at once, on the calling thread.
    void post(std::shared_ptr<Task> task);
    /// Makes the loop step every task once more. Any thread.
    void wake() const noexcept;
    /// Whether the caller runs on the connection's thread.
    [[nodiscard]] bool onItsThread() const { return m_thread.get_id() == std::this_thread::get_id(); }
    [[nodiscard]] Route const& route() const noexcept { return m_parts.route; }
    [[nodiscard]] LoginContext const& context() const noexcept { return m_parts.context; }
    [[nodiscard]] std::string const& name() const { return m_parts.route.destination().name; }

    /// The server runs a fixed command for the key that logged in.
    [[nodiscard]] bool forcedCommand() const noexcept { return m_forced; }

    /// What helpers have found out about this server's markers; see detail_stop.h.
    enum class Markers : std::uint8_t { Unknown, Taken, Refused };
    std::atomic<Markers> markers = Markers::Unknown;
    /// Counts a command that is handed over; how often the same text has been by now.
    std::size_t countCommand(std::string const& text);
    /// How often this text has been handed over on this connection.
    [[nodiscard]] std::size_t timesUsed(std::string const& text) const;

private:
    Result<LoginShell> askLoginShell(Deadline deadline, std::stop_token const& stop);
    void loop();
    void pass(std::list<std::shared_ptr<Task>>& tasks);
    void wait(std::list<std::shared_ptr<Task>> const& tasks);
    bool keepAlive();
    void finish(std::list<std::shared_ptr<Task>>& tasks, Error const& why);

    Parts m_parts;
    UniqueFd m_wake; ///< eventfd; makes poll(2) return when something was posted
    std::atomic<bool> m_closing = false;
    std::atomic<bool> m_forced = false;
    std::atomic<bool> m_keepsReady = false;
    std::atomic<std::uint64_t> m_bytesIn = 0, m_bytesOut = 0;

    mutable std::mutex m_mutex; ///< guards what follows
    std::list<std::shared_ptr<Task>> m_posted;
    bool m_ended = false;
    Error m_why;
    std::vector<std::function<void()>> m_onClosed;
    std::unordered_map<std::size_t, std::size_t> m_commands; ///< hash of the text, times
    std::condition_variable_any m_shellAsked;                ///< when m_askingShell becomes false
    bool m_askingShell = false; ///< one caller at a time asks; the others wait for the answer
    std::optional<LoginShell> m_shell;

    // The connection's thread only.
    Deadline::Clock::time_point m_lastProbe{};
    int m_unanswered = 0;

    std::thread m_thread; ///< last: it uses all the rest
};

/// The implementation behind a Connection; every Connection is one.
[[nodiscard]] inline ConnectionImpl& impl(Connection& connection)
{
    return dynamic_cast<ConnectionImpl&>(connection);
}

} // namespace termalin::ssh
