#include "tests/support/agent.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

#include "core/unique_fd.h"
#include "tests/support/program.h"

namespace termalin::test {

Agent::Agent()
{
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        throw std::runtime_error("no pipe");
    UniqueFd const reading(ends[0]);
    UniqueFd writing(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), 1);
    auto place = socket();
    std::string program = "ssh-agent";
    std::string foreground = "-D";
    std::string bind = "-a";
    std::array<char*, 5> const arguments{program.data(), foreground.data(), bind.data(), place.data(),
                                         nullptr};
    auto const failed = ::posix_spawnp(&m_pid, "ssh-agent", &actions, nullptr, arguments.data(), ::environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0)
        throw std::runtime_error("cannot start ssh-agent");
    writing.reset();
    // It names its socket once that listens.
    std::array<char, 256> said{};
    if (::read(reading.get(), said.data(), said.size()) <= 0)
        throw std::runtime_error("ssh-agent did not start");
}

Agent::~Agent()
{
    kill();
}

void Agent::kill()
{
    if (m_pid <= 0)
        return;
    ::kill(m_pid, SIGKILL);
    while (::waitpid(m_pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    m_pid = 0;
}

void Agent::add(std::vector<std::string> const& arguments) const
{
    std::vector<std::string> command{"ssh-add", "-q"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    mustRun(command, {"SSH_AUTH_SOCK=" + socket(), "SSH_ASKPASS_REQUIRE=never"});
}

} // namespace termalin::test
