#include "core/vault_holder.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/paths.h"
#include "core/vault.h"
#include "core/vault_socket.h"

namespace termalin {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kIdBytes = 32;
constexpr std::size_t kMostRequest = 128;
constexpr std::string_view kReady = "ready\n";

// What each side says. Request: "get ID\n" answered by the key, or "lock\n" answered by "locked\n".

std::sig_atomic_t volatile endAsked = 0;

void onSignal(int)
{
    endAsked = 1;
}

/// Seconds since the machine started, its sleep included.
std::int64_t seconds()
{
    timespec time{};
    (void)::clock_gettime(CLOCK_BOOTTIME, &time);
    return time.tv_sec;
}

struct Duty {
    std::string vaultId;
    std::int64_t lifetime = 0;
    fs::path socket;
};

/// The socket that is ours is the one that stands at its path. When it is gone, the runtime folder was
/// cleared at logout; when it is another, a newer holder has taken over.
bool stillInPlace(fs::path const& socket, ino_t inode)
{
    struct stat info{};
    return ::lstat(socket.c_str(), &info) == 0 && info.st_ino == inode;
}

/// True: go on. False: the key is to be forgotten.
bool answer(int fd, Duty const& duty, LockedKey const& key)
{
    limitWaiting(fd);
    if (!peerIsOurs(fd))
        return true;
    auto const request = receive(fd, kMostRequest, '\n');
    if (request == "lock\n")
        return false;
    if (request == fmt::format("get {}\n", duty.vaultId))
        static_cast<void>(sendAll(fd, key.view())); // whoever has gone meanwhile asks again
    return true;
}

void serve(UniqueFd const& listener, Duty const& duty, LockedKey key)
{
    struct stat info{};
    if (::lstat(duty.socket.c_str(), &info) != 0)
        return;
    auto const inode = info.st_ino;
    auto const end = seconds() + duty.lifetime;
    while (endAsked == 0) {
        auto const left = end - seconds();
        if (left <= 0 || !stillInPlace(duty.socket, inode))
            break;
        pollfd waiting{.fd = listener.get(), .events = POLLIN, .revents = 0};
        if (::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 5) * 1000)) <= 0)
            continue;
        UniqueFd const client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (client && !answer(client.get(), duty, key)) {
            {
                auto const forgotten = std::move(key); // wiped here, before it is said to be
            }
            if (stillInPlace(duty.socket, inode))
                ::unlink(duty.socket.c_str());
            static_cast<void>(sendAll(client.get(), "locked\n"));
            return;
        }
    }
    if (stillInPlace(duty.socket, inode))
        ::unlink(duty.socket.c_str());
}

void complain(std::string const& text)
{
    if (::write(STDOUT_FILENO, text.data(), text.size()) < 0)
        ::_exit(1);
}

std::optional<Duty> readDuty()
{
    Duty duty;
    auto const line = [] {
        auto text = receive(STDIN_FILENO, 4096, '\n');
        if (text.ends_with('\n'))
            text.pop_back();
        return text;
    };
    duty.vaultId = line();
    auto const lifetime = line();
    auto const [end, fault] =
        std::from_chars(lifetime.data(), lifetime.data() + lifetime.size(), duty.lifetime);
    duty.socket = line();
    if (duty.vaultId.size() != kIdBytes || fault != std::errc() || !duty.socket.is_absolute())
        return std::nullopt;
    return duty;
}

/// Leaves the terminal, the folder and every descriptor of whoever started us.
void settleDown()
{
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    rlimit const none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::close_range(STDERR_FILENO + 1, ~0U, 0);
    if (::chdir("/") != 0)
        ::_exit(1);
    (void)::signal(SIGPIPE, SIG_IGN);
    struct sigaction action{};
    action.sa_handler = onSignal;
    for (auto const number : {SIGTERM, SIGINT, SIGHUP})
        ::sigaction(number, &action, nullptr);
}

} // namespace

int runVaultHolder(int, char**)
{
    // A process of its own that nobody has to wait for. Memory locks are not inherited: fork before the key
    // comes.
    if (auto const child = ::fork(); child != 0)
        ::_exit(child < 0 ? 1 : 0);
    ::setsid();
    settleDown();
    auto const duty = readDuty();
    auto bytes = receive(STDIN_FILENO, LockedKey::kBytes);
    auto key = LockedKey::from(bytes);
    wipe(bytes);
    if (!duty || !key) {
        complain("The vault's holder was started by hand; use termalin-mcp vault unlock.");
        return 2;
    }
    auto const listener = listenPrivately(duty->socket);
    if (!listener) {
        complain(listener.error().message);
        return 1;
    }
    complain(std::string(kReady));
    UniqueFd const nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (auto const fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::dup2(nothing.get(), fd);
    serve(*listener, *duty, *std::move(key));
    return 0;
}

std::optional<LockedKey> askHolder(fs::path const& socket, std::string_view vaultId)
{
    auto const fd = connectPrivately(socket);
    if (!fd || !sendAll(fd->get(), fmt::format("get {}\n", vaultId)))
        return std::nullopt;
    auto bytes = receive(fd->get(), LockedKey::kBytes);
    auto key = LockedKey::from(bytes);
    wipe(bytes);
    return key ? std::optional<LockedKey>(*std::move(key)) : std::nullopt;
}

Result<bool> endHolder(fs::path const& socket)
{
    auto const fd = connectPrivately(socket);
    if (!fd && fd.error().code == Errc::NotFound)
        return false;
    if (!fd)
        return std::unexpected(fd.error());
    if (!sendAll(fd->get(), "lock\n") || receive(fd->get(), kMostRequest, '\n') != "locked\n")
        return fail(Errc::Timeout, fmt::format("The vault's holder at {} did not answer. End the process "
                                               "'termalin-mcp vault-holder', then try again.",
                                               socket.string()));
    return true;
}

Result<void> spawnHolder(fs::path const& socket, std::string_view vaultId, LockedKey const& key,
                         std::chrono::seconds lifetime)
{
    TRY(makePrivateDir(socket.parent_path()));
    // Sockets: a send to a child that has died is an error here and not a signal.
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) != 0)
        return std::unexpected(systemError(Errc::Internal, "Starting the vault's holder", errno));
    UniqueFd const toChild(in[1]);
    UniqueFd childIn(in[0]);
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out.data()) != 0)
        return std::unexpected(systemError(Errc::Internal, "Starting the vault's holder", errno));
    UniqueFd const fromChild(out[0]);
    UniqueFd childOut(out[1]);

    posix_spawn_file_actions_t actions{};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, childIn.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, childOut.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::string program = "termalin-mcp";
    std::string word(kVaultHolderWord);
    std::array<char*, 3> const arguments{program.data(), word.data(), nullptr};
    std::array<char*, 1> const environment{nullptr};
    pid_t child = -1;
    auto const fault =
        ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    if (fault != 0)
        return std::unexpected(systemError(Errc::Internal, "Starting the vault's holder", fault));
    childIn.reset();
    childOut.reset();
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) { // it forks and goes at once
    }
    limitWaiting(fromChild.get());
    auto const sent =
        sendAll(toChild.get(), fmt::format("{}\n{}\n{}\n", vaultId, lifetime.count(), socket.string())) &&
        sendAll(toChild.get(), key.view());
    ::shutdown(toChild.get(), SHUT_WR);
    auto const said = receive(fromChild.get(), 1024, '\n');
    if (!sent || said != kReady)
        return fail(Errc::Internal, "The vault's holder could not be started. " + said);
    return {};
}

} // namespace termalin
