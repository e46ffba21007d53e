#include "tests/support/program.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/unique_fd.h"

namespace termalin::test {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words)
{
    std::vector<char*> list;
    for (auto& word : words)
        list.push_back(word.data());
    list.push_back(nullptr);
    return list;
}

} // namespace

Ran run(std::vector<std::string> const& command, std::vector<std::string> const& environment,
        std::string_view input)
{
    UniqueFd const in(
        ::memfd_create("input", MFD_CLOEXEC)); // a file, so that no one has to write while reading
    if (::write(in.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size()))
        throw std::runtime_error("cannot prepare the input of " + command.front());
    ::lseek(in.get(), 0, SEEK_SET);
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        throw std::runtime_error("no pipe");
    UniqueFd const out(ends[0]);
    UniqueFd writing(ends[1]);

    auto words = command;
    std::vector<std::string> variables;
    for (char** variable = ::environ; *variable != nullptr; ++variable) {
        std::string_view const had(*variable);
        bool replaced = false;
        for (auto const& given : environment)
            replaced = replaced || had.starts_with(given.substr(0, given.find('=') + 1));
        if (!replaced)
            variables.emplace_back(had);
    }
    variables.insert(variables.end(), environment.begin(), environment.end());

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in.get(), 0);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), 1);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), 2);
    pid_t pid = 0;
    auto const failed = ::posix_spawnp(&pid, words.front().c_str(), &actions, nullptr, pointers(words).data(),
                                       pointers(variables).data());
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0)
        throw std::runtime_error("cannot start " + command.front());
    writing.reset();

    Ran ran;
    std::array<char, 4096> piece{};
    for (;;) {
        auto const count = ::read(out.get(), piece.data(), piece.size());
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        ran.out.append(piece.data(), static_cast<std::size_t>(count));
    }
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ran;
}

std::string mustRun(std::vector<std::string> const& command, std::vector<std::string> const& environment,
                    std::string_view input)
{
    auto ran = run(command, environment, input);
    if (ran.ok())
        return std::move(ran.out);
    std::string line;
    for (auto const& word : command)
        line += word + " ";
    throw std::runtime_error(line + "failed:\n" + ran.out);
}

} // namespace termalin::test
