#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace termalin::ssh {
class Connection;
}

namespace termalin::mcp {

/// Closes connections aside, so that no reply waits for a server to take leave. Thread safe.
class Closer {
public:
    Closer();
    ~Closer(); ///< Closes what is left, all at once.
    Closer(Closer const&) = delete;
    Closer& operator=(Closer const&) = delete;

    void close(std::shared_ptr<ssh::Connection> connection);

private:
    void run();

    std::mutex m_mutex;
    std::condition_variable m_more;
    std::vector<std::shared_ptr<ssh::Connection>> m_waiting; ///< guarded by m_mutex
    bool m_ending = false;                                   ///< guarded by m_mutex
    std::thread m_thread;
};

} // namespace termalin::mcp
