#include "mcp-stdio/control_socket.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <list>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "core/log.h"
#include "mcp-stdio/app_requests.h"
#include "mcp-stdio/client_program.h"
#include "mcp-stdio/serve.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {
namespace {

constexpr std::size_t kMaxClients = 64;
/// For a listener to make room in its queue: a program that hangs takes nothing off it.
constexpr timeval kConnectTime{1, 0};

Result<sockaddr_un> addressOf(std::filesystem::path const& socket)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    auto const& path = socket.native();
    if (path.size() >= sizeof address.sun_path)
        return fail(
            Errc::InvalidArgument,
            fmt::format("The path of the control socket, {}, is {} bytes long; a socket's may have at "
                        "most {}. Set TERMALIN_HOME to a shorter one.",
                        path, path.size(), sizeof address.sun_path - 1));
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

/// `path` must be ours, of this type, and closed to everybody else.
Result<void> checkPrivate(std::filesystem::path const& path, mode_t type)
{
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0)
        return fail(Errc::AppNotRunning,
                    fmt::format("Termalin is not running: there is no {}. Ask the person "
                                "to start it.",
                                path.native()));
    if ((status.st_mode & S_IFMT) != type || status.st_uid != ::geteuid() || (status.st_mode & 0077U) != 0)
        return fail(Errc::PermissionDenied,
                    fmt::format("{} is not used: it must be {} of this user's that nobody else may open. "
                                "Remove it and start Termalin again.",
                                path.native(), type == S_IFDIR ? "a folder" : "a socket"));
    return {};
}

std::optional<ucred> peerOf(int fd)
{
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid())
        return std::nullopt;
    return peer;
}

class SocketListener : public Listener {
public:
    SocketListener(UniqueFd lock, UniqueFd fd, std::filesystem::path path, Services& services, AppDesk& desk)
        : m_lock(std::move(lock))
        , m_fd(std::move(fd))
        , m_path(std::move(path))
        , m_services(services)
        , m_desk(desk)
        , m_wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
        , m_acceptor([this](std::stop_token const& stop) { accept(stop); })
    {
    }

    SocketListener(SocketListener const&) = delete;
    SocketListener& operator=(SocketListener const&) = delete;
    ~SocketListener() override
    {
        ::unlink(m_path.c_str()); // before the lock goes: from then on it may be another's
        m_acceptor.request_stop();
        (void)::eventfd_write(m_wake.get(), 1);
        m_acceptor.join();
    }

    void toolsChanged() override
    {
        std::lock_guard const lock(m_mutex);
        for (auto& client : m_clients)
            if (client.server != nullptr)
                client.server->toolsChanged();
    }

private:
    struct Client {
        Server* server = nullptr; ///< guarded by m_mutex
        std::atomic<bool> done = false;
        std::jthread thread;
    };

    void accept(std::stop_token const& stop)
    {
        while (!stop.stop_requested()) {
            std::array<pollfd, 2> fds{{{m_wake.get(), POLLIN, 0}, {m_fd.get(), POLLIN, 0}}};
            (void)::poll(fds.data(), fds.size(), -1);
            if (stop.stop_requested())
                break;
            UniqueFd client(::accept4(m_fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!client && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
                (void)::poll(fds.data(), 1, 200); // until descriptors are free again; it stays in the queue
            reap();
            auto const peer = client ? peerOf(client.get()) : std::nullopt;
            if (!peer || m_clients.size() >= kMaxClients)
                continue;
            std::lock_guard const lock(m_mutex);
            auto& entry = m_clients.emplace_back();
            entry.thread =
                std::jthread([this, &entry, pid = peer->pid, fd = std::move(client)](
                                 std::stop_token const& end) { serveOne(entry, fd.get(), pid, end); });
        }
        for (auto& client : m_clients)
            client.thread.request_stop();
        for (auto& client : m_clients)
            client.thread.join();
    }

    void serveOne(Client& entry, int fd, pid_t pid, std::stop_token const& end)
    {
        auto const number = ++m_lastClient;
        AppRequests requests(m_services, m_desk, number);
        ServeOptions options;
        options.server.relays = true;
        options.server.clientProgram = programOfParent(pid);
        options.server.methods = AppRequests::methods();
        options.server.request = [&](std::string const& method, Json const& params, Call const& call) {
            return requests.request(method, params, call);
        };
        options.server.notified = [&](std::string const& method, Json const& params) {
            requests.notified(method, params);
        };
        options.serving = [&](Server* server) {
            std::lock_guard const lock(m_mutex);
            entry.server = server;
        };
        serve(fd, fd, appTools(), m_services, std::move(options), end);
        entry.done = true;
    }

    void reap() // accept thread only
    {
        std::lock_guard const lock(m_mutex);
        std::erase_if(m_clients, [](Client const& client) { return client.done.load(); });
    }

    UniqueFd m_lock;
    UniqueFd m_fd;
    std::filesystem::path m_path;
    Services& m_services;
    AppDesk& m_desk;
    UniqueFd m_wake;
    std::atomic<std::uint64_t> m_lastClient = 0;
    std::mutex m_mutex;
    std::list<Client> m_clients; ///< changed by the accept thread only, under m_mutex
    std::jthread m_acceptor;
};

} // namespace

Result<UniqueFd> connectTo(std::filesystem::path const& socket)
{
    TRY_LET(auto const address, addressOf(socket));
    TRY(checkPrivate(socket.parent_path(), S_IFDIR));
    TRY(checkPrivate(socket, S_IFSOCK));
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd)
        return std::unexpected(systemError(Errc::Internal, "Making a socket", errno));
    // The one bound that connect(2) on a Unix socket knows (socket(7)).
    timeval const unbounded{};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kConnectTime, sizeof kConnectTime);
    auto const failed = ::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0;
    auto const number = errno;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &unbounded, sizeof unbounded);
    if (failed && number == EAGAIN)
        return fail(Errc::AppNotRunning,
                    fmt::format("Termalin runs but takes no connection on {}; ask the person to look at it.",
                                socket.native()));
    if (failed)
        return std::unexpected(
            systemError(Errc::AppNotRunning,
                        "Termalin is not running (ask the person to start it): its control socket", number));
    if (!peerOf(fd.get()))
        return fail(Errc::PermissionDenied,
                    fmt::format("The process that listens on {} is another user's; it is not used.",
                                socket.native()));
    return fd;
}

Result<std::unique_ptr<Listener>> Listener::open(std::filesystem::path const& socket, Services& services,
                                                 AppDesk& desk)
{
    TRY_LET(auto const address, addressOf(socket));
    TRY(makePrivateDir(socket.parent_path()));
    auto const lockPath = socket.native() + ".lock";
    UniqueFd lock(::open(lockPath.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock)
        return std::unexpected(systemError(Errc::PermissionDenied, "Opening " + lockPath, errno));
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
        return fail(Errc::PortInUse,
                    fmt::format("Another Termalin listens on {} already; use its window.", socket.native()));
    ::unlink(socket.c_str()); // whoever made it is gone, or would hold the lock
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // Between bind and chmod the folder alone keeps others out.
    if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0 ||
        ::chmod(socket.c_str(), 0600) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
        return std::unexpected(systemError(Errc::Internal, "Listening on " + socket.native(), errno));
    return std::make_unique<SocketListener>(std::move(lock), std::move(fd), socket, services, desk);
}

} // namespace termalin::mcp
