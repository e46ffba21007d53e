#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "core/deadline.h"
#include "core/unique_fd.h"

namespace termalin::mcp {

/// Writes lines to a descriptor, in order and each whole. Whoever sends one never waits for the reader: what
/// the descriptor does not take at once is left to a thread of this. All members but the constructor and
/// destructor may be called from any thread.
class LineWriter {
public:
    /// `onChange` is called, on the writer's thread, when the reader has gone and whenever waiting() falls to
    /// `low` or less after having been more.
    LineWriter(int fd, std::size_t low, std::function<void()> onChange);
    ~LineWriter(); ///< What still waits is dropped.
    LineWriter(LineWriter const&) = delete;
    LineWriter& operator=(LineWriter const&) = delete;

    /// Appends a newline. Returns at once.
    void push(std::string line);
    /// Bytes that the reader has not taken.
    [[nodiscard]] std::size_t waiting() const;
    /// Whether the reader has gone: nothing will be written any more.
    [[nodiscard]] bool broken() const;
    /// Waits until everything is written or cannot be, at most until `deadline`.
    void flush(Deadline deadline);

private:
    void run();
    bool writeAll(std::string_view bytes);
    [[nodiscard]] std::size_t writeAtOnce(std::string_view bytes) const;
    [[nodiscard]] ssize_t writeSome(std::string_view bytes) const;
    bool waitWritable();

    int m_fd;
    /// A pipe opened anew, so that writing to it never blocks; empty: it is none, or may not be opened.
    UniqueFd m_pipe;
    std::size_t m_low;
    std::function<void()> m_onChange;
    UniqueFd m_wake; ///< eventfd: the writer is to stop.

    mutable std::mutex m_mutex;
    std::condition_variable m_changed;
    std::deque<std::string> m_queue;
    std::size_t m_waiting = 0;
    bool m_writing = false; ///< The thread has taken a line off the queue.
    bool m_broken = false;
    bool m_stop = false;
    std::thread m_thread;
};

} // namespace termalin::mcp
