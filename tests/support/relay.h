#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stop_token>
#include <sys/socket.h>
#include <thread>

#include "core/unique_fd.h"

namespace termalin::test {

/// A TCP relay on loopback that can stop passing bytes, as a dead line does: nothing is closed.
class Relay {
public:
    /// Listens on 127.0.0.1, or for AF_INET6 on ::1; goes on to 127.0.0.1.
    explicit Relay(std::uint16_t to, int family = AF_INET);
    ~Relay();
    Relay(Relay const&) = delete;
    Relay& operator=(Relay const&) = delete;

    [[nodiscard]] std::uint16_t port() const noexcept { return m_port; }
    void goSilent() noexcept { m_silent = true; }
    void speakAgain() noexcept { m_silent = false; }
    /// Holds all that passes back for so long, as a long way does; not more than 1 MiB in that time.
    void beFar(std::chrono::milliseconds each) noexcept { m_each = each; }
    /// Takes connections and never says a word.
    static constexpr std::uint16_t kNowhere = 0;

private:
    void serve(std::stop_token const& stop);

    std::uint16_t m_to;
    std::uint16_t m_port = 0; ///< before the listener, which sets it
    UniqueFd m_listener;
    std::atomic<bool> m_silent = false;
    std::atomic<std::chrono::milliseconds> m_each{};
    std::jthread m_thread;
};

/// A listening socket on 127.0.0.1, or for AF_INET6 on ::1; its port in `port`.
UniqueFd listenOnLoopback(std::uint16_t& port, int family = AF_INET);

} // namespace termalin::test
