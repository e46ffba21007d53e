#include "mcp-stdio/cli/program.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/command_policy.h"
#include "core/deadline.h"
#include "core/unique_fd.h"

extern char** environ; // NOLINT(readability-redundant-declaration): unistd.h has it only as an extension

namespace termalin::cli {

namespace {

constexpr std::size_t kMostOutput = 64U * 1024U;

struct Actions {
    posix_spawn_file_actions_t files{};
    posix_spawnattr_t attributes{};

    Actions()
    {
        ::posix_spawn_file_actions_init(&files);
        ::posix_spawnattr_init(&attributes);
    }
    ~Actions()
    {
        ::posix_spawn_file_actions_destroy(&files);
        ::posix_spawnattr_destroy(&attributes);
    }
    Actions(Actions const&) = delete;
    Actions& operator=(Actions const&) = delete;
};

/// Our own SIGPIPE is ignored, and a child would inherit that; a process group of its own lets the whole
/// program be ended, not only its first process.
Result<pid_t> spawn(std::vector<std::string> const& words, int output)
{
    Actions actions;
    ::posix_spawn_file_actions_addopen(&actions.files, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions.files, output, 1);
    ::posix_spawn_file_actions_adddup2(&actions.files, output, 2);
    sigset_t defaults{};
    ::sigemptyset(&defaults);
    ::sigaddset(&defaults, SIGPIPE);
    ::posix_spawnattr_setsigdefault(&actions.attributes, &defaults);
    ::posix_spawnattr_setpgroup(&actions.attributes, 0);
    ::posix_spawnattr_setflags(&actions.attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::vector<char*> arguments;
    for (auto const& word : words)
        arguments.push_back(
            const_cast<char*>(word.c_str())); // NOLINT(cppcoreguidelines-pro-type-const-cast): argv
    arguments.push_back(nullptr);
    pid_t pid = 0;
    auto const error = ::posix_spawnp(&pid, arguments.front(), &actions.files, &actions.attributes,
                                      arguments.data(), environ);
    if (error != 0)
        return std::unexpected(
            systemError(Errc::NotFound, fmt::format("'{}' cannot be started", words.front()), error));
    return pid;
}

int statusOf(int raw)
{
    return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

} // namespace

std::optional<std::filesystem::path> findInPath(std::string const& name)
{
    auto const* const variable = std::getenv("PATH"); // NOLINT(concurrency-mt-unsafe): nothing here sets any
    std::string_view rest = variable == nullptr ? "/usr/local/bin:/usr/bin:/bin" : variable;
    while (!rest.empty()) {
        auto const colon = std::min(rest.find(':'), rest.size());
        // An empty or relative part would run what lies in the current folder.
        if (rest.starts_with('/')) {
            auto const path = std::filesystem::path(rest.substr(0, colon)) / name;
            std::error_code ignored;
            if (std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0)
                return path;
        }
        rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
    return std::nullopt;
}

Result<ProgramOutcome> runProgram(std::vector<std::string> const& words, std::chrono::seconds limit)
{
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return std::unexpected(systemError(Errc::Internal, "A pipe cannot be made", errno));
    UniqueFd const reader(ends[0]);
    UniqueFd writer(ends[1]);
    TRY_LET(auto const pid, spawn(words, writer.get()));
    writer.reset();
    ProgramOutcome outcome;
    auto const deadline = Deadline::in(limit);
    auto timedOut = false;
    for (;;) {
        pollfd waiting{.fd = reader.get(), .events = POLLIN, .revents = 0};
        auto const ready = ::poll(&waiting, 1, deadline.pollTimeout());
        timedOut = deadline.passed();
        if (timedOut)
            break;
        if (ready <= 0)
            continue;
        std::array<char, 4096> bytes{};
        auto const got = ::read(reader.get(), bytes.data(), bytes.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        outcome.output.append(bytes.data(),
                              std::min(static_cast<std::size_t>(got), kMostOutput - outcome.output.size()));
    }
    if (timedOut)
        ::kill(-pid, SIGKILL);
    int raw = 0;
    while (::waitpid(pid, &raw, 0) < 0 && errno == EINTR)
        ;
    if (timedOut)
        return fail(Errc::Timeout, fmt::format("'{}' did not end within {} s and was stopped.",
                                               asTyped(words), limit.count()));
    outcome.status = statusOf(raw);
    return outcome;
}

std::string asTyped(std::vector<std::string> const& words)
{
    std::string line;
    for (auto const& word : words)
        line += (line.empty() ? "" : " ") + asArgument(word);
    return line;
}

} // namespace termalin::cli
