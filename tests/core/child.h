#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "core/unique_fd.h"

namespace termalin::test {

/// Another process of ours whose lines on stdout we read; killed at the latest when this object goes.
class Child {
public:
    /// Starts `program` with the words as its arguments.
    Child(std::string const& program, std::vector<std::string> arguments,
          std::vector<std::string> environment = {});
    ~Child();
    Child(Child const&) = delete;
    Child& operator=(Child const&) = delete;
    Child(Child&&) = delete;
    Child& operator=(Child&&) = delete;

    /// The next line; nothing at the end of its output.
    std::optional<std::string> line();
    std::vector<std::string> restOfLines();
    void kill() const;
    /// Its exit code, or 128 and the signal that ended it.
    int wait();
    [[nodiscard]] pid_t pid() const { return m_pid; }
    /// Writes to its input.
    void say(std::string_view text) const;
    void closeInput() { m_in.reset(); }

private:
    pid_t m_pid = -1;
    UniqueFd m_in;
    UniqueFd m_out;
    std::string m_pending;
};

} // namespace termalin::test
