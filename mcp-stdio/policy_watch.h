#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>

namespace termalin {
class Store;
}

namespace termalin::mcp {

/// Notices within a quarter of a second, with no call arriving, that the store or settings.json were changed
/// by whatever process.
class PolicyWatch {
public:
    struct Callbacks {
        std::function<void()> onChange; ///< After a change; also when the store cannot be read any more.
        std::function<void()> onTick;   ///< At every look.
        std::function<bool()> isIdle;   ///< Nothing is held that a change could concern: no need to look.
    };
    /// The callbacks run on the watch's own thread. `store` must outlive this.
    PolicyWatch(Store& store, std::filesystem::path settings, Callbacks callbacks);
    ~PolicyWatch();
    PolicyWatch(PolicyWatch const&) = delete;
    PolicyWatch& operator=(PolicyWatch const&) = delete;

    /// Ends idleness. To be called after something was added that a change could concern.
    void wake();

private:
    /// What changes when a file is written or replaced; empty when it is not there.
    using FileMark = std::optional<std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t>>;
    FileMark markOf() const;
    void run();
    bool look();

    Store& m_store;
    std::filesystem::path m_settings;
    Callbacks m_callbacks;
    std::int64_t m_version = -1; ///< watch thread only; -1: unreadable
    FileMark m_mark;             ///< watch thread only

    std::mutex m_mutex;
    std::condition_variable m_woken;
    bool m_wake = false;   ///< guarded by m_mutex
    bool m_asleep = false; ///< guarded by m_mutex: waits for a wake(), however long that takes
    bool m_ending = false; ///< guarded by m_mutex
    std::thread m_thread;
};

} // namespace termalin::mcp
