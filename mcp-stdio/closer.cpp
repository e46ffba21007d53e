#include "mcp-stdio/closer.h"

#include <utility>

#include "ssh/connection.h"

namespace termalin::mcp {

Closer::Closer() : m_thread([this] { run(); }) {}

Closer::~Closer()
{
    {
        std::scoped_lock const lock(m_mutex);
        m_ending = true;
    }
    m_more.notify_all();
    m_thread.join();
}

void Closer::close(std::shared_ptr<ssh::Connection> connection)
{
    if (!connection)
        return;
    {
        std::scoped_lock const lock(m_mutex);
        m_waiting.push_back(std::move(connection));
    }
    m_more.notify_all();
}

void Closer::run()
{
    for (;;) {
        std::vector<std::shared_ptr<ssh::Connection>> taken;
        {
            std::unique_lock lock(m_mutex);
            m_more.wait(lock, [this] { return m_ending || !m_waiting.empty(); });
            taken = std::exchange(m_waiting, {});
            if (taken.empty())
                return;
        }
        for (auto const& connection : taken) // all begin to end before the first is waited for
            connection->close();
    }
}

} // namespace termalin::mcp
