#include "mcp-stdio/policy_watch.h"

#include <chrono>
#include <sys/stat.h>
#include <utility>

#include "core/log.h"
#include "core/store.h"

namespace termalin::mcp {
namespace {

constexpr std::chrono::milliseconds kLookEvery{200};

} // namespace

PolicyWatch::PolicyWatch(Store& store, std::filesystem::path settings, Callbacks callbacks)
    : m_store(store)
    , m_settings(std::move(settings))
    , m_callbacks(std::move(callbacks))
    , m_thread([this] { run(); })
{
}

PolicyWatch::~PolicyWatch()
{
    {
        std::scoped_lock const lock(m_mutex);
        m_ending = true;
    }
    m_woken.notify_all();
    m_thread.join();
}

void PolicyWatch::wake()
{
    {
        std::scoped_lock const lock(m_mutex);
        m_wake = true;
        if (!std::exchange(m_asleep, false))
            return; // it looks by itself soon
    }
    m_woken.notify_all();
}

PolicyWatch::FileMark PolicyWatch::markOf() const
{
    struct stat status = {};
    if (::stat(m_settings.c_str(), &status) != 0)
        return std::nullopt;
    return std::tuple{
        static_cast<std::uint64_t>(status.st_ino), static_cast<std::int64_t>(status.st_mtim.tv_sec),
        static_cast<std::int64_t>(status.st_mtim.tv_nsec), static_cast<std::int64_t>(status.st_size)};
}

bool PolicyWatch::look()
{
    auto const version = m_store.version();
    if (!version)
        log(LogLevel::Warn, "policy", "Cannot look for changes: {}", version.error().message);
    auto const readable = version ? *version : -1;
    auto const mark = markOf();
    // What cannot be read may have changed: it is looked at each time.
    auto const changed = readable < 0 || readable != m_version || mark != m_mark;
    m_version = readable;
    m_mark = mark;
    return changed;
}

void PolicyWatch::run()
{
    for (;;) {
        auto const idle = m_callbacks.isIdle();
        {
            std::unique_lock lock(m_mutex);
            if (idle) {
                m_asleep = !m_wake;
                m_woken.wait(lock, [this] { return m_ending || m_wake; });
                m_asleep = false;
                m_wake = false;
            }
            // Not at once, and not sooner for each thing that is added: the look would compete with the call
            // that adds it.
            m_woken.wait_for(lock, kLookEvery, [this] { return m_ending; });
            if (m_ending)
                return;
        }
        if (look())
            m_callbacks.onChange();
        m_callbacks.onTick();
    }
}

} // namespace termalin::mcp
