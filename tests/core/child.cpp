#include "tests/core/child.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ; // NOLINT(readability-redundant-declaration): unistd.h has it only with GNU extensions

namespace termalin::test {

Child::Child(std::string const& program, std::vector<std::string> arguments,
             std::vector<std::string> environment)
{
    int in[2]{};
    int out[2]{};
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0)
        throw std::runtime_error("no pipe");
    m_in.reset(in[1]);
    m_out.reset(out[0]);
    UniqueFd const childIn(in[0]);
    UniqueFd const childOut(out[1]);

    arguments.insert(arguments.begin(), program);
    std::vector<char*> words;
    for (auto& argument : arguments)
        words.push_back(argument.data());
    words.push_back(nullptr);
    for (auto** entry = environ; *entry != nullptr; ++entry)
        environment.emplace_back(*entry); // ours are first, and the first one counts
    std::vector<char*> variables;
    for (auto& variable : environment)
        variables.push_back(variable.data());
    variables.push_back(nullptr);

    posix_spawn_file_actions_t actions{};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, childIn.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, childOut.get(), STDOUT_FILENO);
    auto const fault =
        ::posix_spawn(&m_pid, program.c_str(), &actions, nullptr, words.data(), variables.data());
    posix_spawn_file_actions_destroy(&actions);
    if (fault != 0)
        throw std::runtime_error("cannot start " + program);
}

Child::~Child()
{
    if (m_pid > 0) {
        kill();
        wait();
    }
}

std::optional<std::string> Child::line()
{
    for (;;) {
        if (auto const end = m_pending.find('\n'); end != std::string::npos) {
            auto found = m_pending.substr(0, end);
            m_pending.erase(0, end + 1);
            return found;
        }
        std::string chunk(4096, '\0');
        auto const got = ::read(m_out.get(), chunk.data(), chunk.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return std::nullopt;
        m_pending.append(chunk, 0, static_cast<std::size_t>(got));
    }
}

std::vector<std::string> Child::restOfLines()
{
    std::vector<std::string> lines;
    while (auto next = line())
        lines.push_back(*std::move(next));
    return lines;
}

void Child::say(std::string_view text) const
{
    if (::write(m_in.get(), text.data(), text.size()) < 0)
        throw std::runtime_error("the child does not read");
}

void Child::kill() const
{
    ::kill(m_pid, SIGKILL);
}

int Child::wait()
{
    int status = 0;
    while (::waitpid(m_pid, &status, 0) < 0 && errno == EINTR) {
    }
    m_pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace termalin::test
