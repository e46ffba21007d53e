#pragma once

#include <unistd.h>
#include <utility>

namespace termalin {

/// Owns a file descriptor.
class UniqueFd {
public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) noexcept : m_fd(fd) {}
    ~UniqueFd() { reset(); }
    UniqueFd(UniqueFd&& other) noexcept : m_fd(std::exchange(other.m_fd, -1)) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept
    {
        if (this != &other)
            reset(std::exchange(other.m_fd, -1));
        return *this;
    }
    UniqueFd(UniqueFd const&) = delete;
    UniqueFd& operator=(UniqueFd const&) = delete;

    [[nodiscard]] int get() const noexcept { return m_fd; }
    [[nodiscard]] int release() noexcept { return std::exchange(m_fd, -1); }
    explicit operator bool() const noexcept { return m_fd >= 0; }

    void reset(int fd = -1) noexcept
    {
        if (m_fd >= 0)
            ::close(m_fd); // not tried again on EINTR: Linux has given the number back by then
        m_fd = fd;
    }

private:
    int m_fd = -1;
};

} // namespace termalin
