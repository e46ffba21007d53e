#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "tests/support/temp_dir.h"

namespace termalin::test {

/// A real ssh-agent on a socket of its own, gone with the object.
class Agent {
public:
    Agent();
    ~Agent();
    Agent(Agent const&) = delete;
    Agent& operator=(Agent const&) = delete;

    [[nodiscard]] std::string socket() const { return (m_dir / "agent").string(); }
    [[nodiscard]] pid_t pid() const noexcept { return m_pid; }
    /// ssh-add with these arguments. Throws when it fails.
    void add(std::vector<std::string> const& arguments) const;
    void kill(); ///< At once; the socket's file stays behind.

private:
    TempDir m_dir;
    pid_t m_pid = 0;
};

} // namespace termalin::test
