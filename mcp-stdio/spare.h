#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "core/deadline.h"
#include "core/hosts.h"
#include "mcp-stdio/background.h"
#include "mcp-stdio/closer.h"
#include "mcp-stdio/connector.h"

namespace termalin::mcp {

/// One connection a host that is logged in and unused, kept so that the next call need not wait for a
/// handshake. Whoever takes it uses it once and never gives it back. Thread safe.
class Spares {
public:
    static constexpr std::chrono::seconds kKept{60};
    static constexpr std::size_t kMost = 16; ///< Over all hosts.

    Spares(Connector& connector, Closer& closer) : m_connector(connector), m_closer(closer) {}
    ~Spares();
    Spares(Spares const&) = delete;
    Spares& operator=(Spares const&) = delete;

    /// The host's spare if it is alive and of this very revision; else null. One that is being made is waited
    /// for as long as the deadline leaves time for a login of the caller's own afterwards.
    std::shared_ptr<ssh::Connection> take(Host const& host, Deadline deadline, std::stop_token const& stop);

    /// Makes one in the background, unless there is one, or a login must not be made without being asked for.
    void prepare(Host const& host);

    [[nodiscard]] std::set<std::string> hostIds();
    /// Lets the host's spare go unless it is of the host as it is now, and the host is open to agents.
    void judge(std::string const& hostId, std::optional<Host> const& host);
    void dropAll();
    /// To be called a few times a second: lets go what is too old, and makes anew, once, what has died.
    void tick();

private:
    using Clock = std::chrono::steady_clock;
    struct Spare {
        Host host;
        std::int64_t number = 0;                     ///< Tells it from a later one of the same host.
        std::shared_ptr<ssh::Connection> connection; ///< Null while it is being made.
        bool wanted = false;                         ///< Somebody waits for it.
        bool second = false;                         ///< Stands for one that died.
        Clock::time_point made;
        std::stop_source stop;
    };

    void start(Host const& host, bool second);
    void make(Host const& host, std::int64_t number, std::stop_token const& stop);
    void letGo(std::map<std::string, Spare>::iterator spare); ///< with m_mutex held

    Connector& m_connector;
    Closer& m_closer;
    std::mutex m_mutex;
    std::condition_variable_any m_changed;
    std::map<std::string, Spare> m_spares; ///< by host id; guarded by m_mutex
    std::int64_t m_last = 0;               ///< guarded by m_mutex
    Background m_background;
};

} // namespace termalin::mcp
