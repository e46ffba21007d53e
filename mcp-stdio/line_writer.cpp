#include "mcp-stdio/line_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace termalin::mcp {
namespace {

/// A pipe that poll(2) calls writable takes this much without blocking (pipe(7), PIPE_BUF).
constexpr std::size_t kPipeBytes = 4096;
/// As much as any user may ask for: a long reply then takes few turns between us and the reader.
constexpr int kPipeCapacity = 1 << 20;

/// Another way to write to the pipe `fd`, one that does not block. O_NONBLOCK belongs to the open file, which
/// others may have too, so the pipe is opened once more.
UniqueFd nonBlockingPipe(int fd)
{
    struct stat info{};
    if (::fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode))
        return {};
    ::fcntl(fd, F_SETPIPE_SZ, kPipeCapacity); // where it may not, it stays as it is
    return UniqueFd(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                           O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
}

} // namespace

LineWriter::LineWriter(int fd, std::size_t low, std::function<void()> onChange)
    : m_fd(fd)
    , m_pipe(nonBlockingPipe(fd))
    , m_low(low)
    , m_onChange(std::move(onChange))
    , m_wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    , m_thread([this] { run(); })
{
}

LineWriter::~LineWriter()
{
    {
        std::lock_guard const lock(m_mutex);
        m_stop = true;
        m_changed.notify_all();
    }
    (void)::eventfd_write(m_wake.get(), 1);
    m_thread.join();
}

void LineWriter::push(std::string line)
{
    line.push_back('\n');
    std::lock_guard const lock(m_mutex);
    if (m_broken || m_stop)
        return;
    // Mostly the reader waits, and then another thread would only cost its start.
    if (m_queue.empty() && !m_writing) {
        auto const written = writeAtOnce(line);
        if (written == line.size())
            return;
        line.erase(0, written);
    }
    m_waiting += line.size();
    m_queue.push_back(std::move(line));
    m_changed.notify_all();
}

std::size_t LineWriter::waiting() const
{
    std::lock_guard const lock(m_mutex);
    return m_waiting;
}

bool LineWriter::broken() const
{
    std::lock_guard const lock(m_mutex);
    return m_broken;
}

void LineWriter::flush(Deadline deadline)
{
    std::unique_lock lock(m_mutex);
    m_changed.wait_until(lock, deadline.at(), [this] { return m_waiting == 0 || m_broken; });
}

void LineWriter::run()
{
    std::unique_lock lock(m_mutex);
    while (true) {
        m_changed.wait(lock, [this] { return m_stop || !m_queue.empty(); });
        if (m_stop)
            return;
        auto const line = std::move(m_queue.front());
        m_queue.pop_front();
        m_writing = true;
        lock.unlock();
        auto const written = writeAll(line);
        lock.lock();
        m_writing = false;
        auto const before = m_waiting;
        m_waiting -= line.size();
        if (!written && !m_stop) {
            m_broken = true;
            m_queue.clear();
            m_waiting = 0;
        }
        m_changed.notify_all();
        if (m_broken || (before > m_low && m_waiting <= m_low)) {
            lock.unlock();
            m_onChange();
            lock.lock();
        }
    }
}

/// Writes what the descriptor, which poll(2) has called writable, takes without blocking, and answers as
/// write(2).
ssize_t LineWriter::writeSome(std::string_view bytes) const
{
    if (m_pipe)
        return ::write(m_pipe.get(), bytes.data(), bytes.size());
    auto const sent = ::send(m_fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 || errno != ENOTSOCK)
        return sent;
    return ::write(m_fd, bytes.data(), std::min(bytes.size(), kPipeBytes));
}

/// How much was taken. What is wrong with the descriptor is left for the thread to find.
std::size_t LineWriter::writeAtOnce(std::string_view bytes) const
{
    pollfd room{m_fd, POLLOUT, 0};
    if (::poll(&room, 1, 0) != 1 || room.revents != POLLOUT)
        return 0;
    return static_cast<std::size_t>(std::max<ssize_t>(writeSome(bytes), 0));
}

bool LineWriter::writeAll(std::string_view bytes)
{
    while (!bytes.empty()) {
        if (!waitWritable())
            return false;
        auto const count = writeSome(bytes);
        if (count < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
    return true;
}

bool LineWriter::waitWritable()
{
    std::array<pollfd, 2> fds{{{m_fd, POLLOUT, 0}, {m_wake.get(), POLLIN, 0}}};
    while (::poll(fds.data(), fds.size(), -1) < 0)
        if (errno != EINTR)
            return false;
    return fds[1].revents == 0; // what is wrong with the descriptor, if anything, the write will say
}

} // namespace termalin::mcp
