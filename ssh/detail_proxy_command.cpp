#include "ssh/detail_proxy_command.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>

#include "core/output_buffer.h"

extern char** environ; // NOLINT(readability-redundant-declaration): POSIX declares it nowhere

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kKeptErrors = 2048;

/// $0 is the person's shell, $1 the command. The watcher keeps none of the command's descriptors, or their
/// end would not be seen.
constexpr auto kScript = "( trap '' TERM; read -r _ <&3; kill -TERM 0; sleep 0.3; kill -KILL 0 ) "
                         "</dev/null >/dev/null 2>&1 & exec 3<&-; exec \"$0\" -c \"exec $1\"";

/// Whether the process has ended, without taking its status away: until that, its number is not used again.
bool hasEnded(pid_t pid, siginfo_t& info)
{
    info.si_pid = 0;
    return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid;
}

bool waitForEnd(pid_t pid, std::chrono::milliseconds limit, siginfo_t& info)
{
    auto const deadline = Deadline::in(limit);
    while (!hasEnded(pid, info)) {
        if (deadline.passed())
            return false;
        ::poll(nullptr, 0, 5);
    }
    return true;
}

class SpawnActions {
public:
    SpawnActions()
    {
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawnattr_init(&attributes);
        sigset_t none;
        sigset_t reset;
        ::sigemptyset(&none);
        ::sigemptyset(&reset);
        ::sigaddset(&reset, SIGPIPE);
        ::posix_spawnattr_setsigmask(&attributes, &none);
        ::posix_spawnattr_setsigdefault(&attributes, &reset);
        ::posix_spawnattr_setpgroup(&attributes, 0);
        ::posix_spawnattr_setflags(&attributes,
                                   POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~SpawnActions()
    {
        ::posix_spawn_file_actions_destroy(&actions);
        ::posix_spawnattr_destroy(&attributes);
    }
    SpawnActions(SpawnActions const&) = delete;
    SpawnActions& operator=(SpawnActions const&) = delete;

    posix_spawn_file_actions_t actions{};
    posix_spawnattr_t attributes{};
};

} // namespace

Result<std::unique_ptr<ProxyCommand>> ProxyCommand::start(Target const& target)
{
    auto const failed = [&](int number) {
        return std::unexpected(systemError(
            Errc::Unreachable,
            "Starting the ProxyCommand of " + target.name + " (" + target.proxyCommand + ")", number));
    };
    std::array<int, 2> sockets{};
    std::array<int, 2> errors{};
    std::array<int, 2> life{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
        return failed(errno);
    std::unique_ptr<ProxyCommand> proxy(new ProxyCommand);
    proxy->m_stream = UniqueFd(sockets[0]);
    UniqueFd const theirs(sockets[1]);
    if (::pipe2(errors.data(), O_CLOEXEC) != 0)
        return failed(errno);
    proxy->m_errors = UniqueFd(errors[0]);
    UniqueFd const theirErrors(errors[1]);
    if (::pipe2(life.data(), O_CLOEXEC) != 0)
        return failed(errno);
    proxy->m_lifeline = UniqueFd(life[1]);
    UniqueFd const theirLife(life[0]);

    SpawnActions spawn;
    ::posix_spawn_file_actions_adddup2(&spawn.actions, theirs.get(), 0);
    ::posix_spawn_file_actions_adddup2(&spawn.actions, theirs.get(), 1);
    ::posix_spawn_file_actions_adddup2(&spawn.actions, theirErrors.get(), 2);
    ::posix_spawn_file_actions_adddup2(&spawn.actions, theirLife.get(), 3);
    ::posix_spawn_file_actions_addclosefrom_np(&spawn.actions, 4);
    auto const* const shell = std::getenv("SHELL"); // NOLINT(concurrency-mt-unsafe): nobody sets it
    std::string const person = shell != nullptr && *shell == '/' ? shell : "/bin/sh";
    std::array<char const*, 6> const argv{"sh",   "-c", kScript, person.c_str(), target.proxyCommand.c_str(),
                                          nullptr};
    auto const rc = ::posix_spawn(&proxy->m_pid, "/bin/sh", &spawn.actions, &spawn.attributes,
                                  const_cast<char* const*>(argv.data()), ::environ);
    if (rc != 0) {
        proxy->m_pid = -1;
        return failed(rc);
    }
    proxy->m_stop = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    proxy->m_reader = std::thread([raw = proxy.get()] { raw->readErrors(); });
    return proxy;
}

void ProxyCommand::readErrors()
{
    std::array<char, 4096> buffer{};
    for (;;) {
        std::array<pollfd, 2> fds{{{m_errors.get(), POLLIN, 0}, {m_stop.get(), POLLIN, 0}}};
        if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR)
            return;
        if (fds[1].revents != 0)
            return;
        if (fds[0].revents == 0)
            continue;
        std::lock_guard const lock(m_mutex); // around the read too: what is not in the pipe is in m_said
        // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): there is something, so it does not wait
        auto const got = ::read(m_errors.get(), buffer.data(), buffer.size());
        if (got <= 0)
            return;
        m_said.append(buffer.data(), static_cast<std::size_t>(got));
        if (m_said.size() > kKeptErrors)
            m_said.erase(0, m_said.size() - kKeptErrors);
    }
}

std::string ProxyCommand::problem()
{
    siginfo_t info{};
    if (!waitForEnd(m_pid, 200ms, info))
        return {};
    auto text = "the ProxyCommand ended " + (info.si_code == CLD_EXITED
                                                 ? "with status " + std::to_string(info.si_status)
                                                 : "by signal " + std::to_string(info.si_status));
    std::unique_lock lock(m_mutex);
    auto const limit = Deadline::in(200ms);
    for (pollfd more{m_errors.get(), POLLIN, 0};
         ::poll(&more, 1, 0) > 0 && (more.revents & POLLIN) != 0 && !limit.passed();) {
        lock.unlock(); // the reader's turn
        ::poll(nullptr, 0, 2);
        lock.lock();
    }
    if (!m_said.empty())
        text += " and said: " + visible(m_said);
    return text;
}

ProxyCommand::~ProxyCommand()
{
    if (m_pid > 0) {
        siginfo_t info{};
        m_stream.reset();
        ::kill(-m_pid, SIGTERM);
        waitForEnd(m_pid, 200ms, info);
        ::kill(-m_pid, SIGKILL); // before its status is taken: the group's number is still its own
        ::waitpid(m_pid, nullptr, 0);
    }
    m_lifeline.reset();
    if (m_reader.joinable()) {
        ::eventfd_write(m_stop.get(), 1);
        m_reader.join();
    }
}

} // namespace termalin::ssh
