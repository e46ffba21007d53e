#include "core/vault_socket.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace termalin {
namespace {

Result<sockaddr_un> addressOf(std::filesystem::path const& socket)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    auto const& text = socket.native();
    if (text.size() >= sizeof address.sun_path)
        return fail(Errc::InvalidArgument,
                    fmt::format("The socket's path {} has 108 bytes or more. Set TERMALIN_HOME "
                                "to a folder with a shorter path.",
                                text));
    std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
    return address;
}

Result<UniqueFd> makeSocket()
{
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd)
        return std::unexpected(systemError(Errc::Internal, "Making a socket", errno));
    return fd;
}

} // namespace

Result<UniqueFd> connectPrivately(std::filesystem::path const& socket)
{
    TRY_LET(auto const address, addressOf(socket));
    struct stat info{};
    if (::lstat(socket.c_str(), &info) != 0)
        return std::unexpected(
            systemError(Errc::NotFound, fmt::format("Looking for {}", socket.string()), errno));
    if (!S_ISSOCK(info.st_mode) || info.st_uid != ::geteuid())
        return fail(Errc::PermissionDenied, fmt::format("{} is not a socket of yours.", socket.string()));
    TRY_LET(auto fd, makeSocket());
    limitWaiting(fd.get());
    if (::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        return std::unexpected(
            systemError(Errc::NotFound, fmt::format("Connecting to {}", socket.string()), errno));
    if (!peerIsOurs(fd.get()))
        return fail(Errc::PermissionDenied, fmt::format("{} is served by another user.", socket.string()));
    return fd;
}

Result<UniqueFd> listenPrivately(std::filesystem::path const& socket)
{
    auto own = socket;
    own += fmt::format(".{}", ::getpid());
    TRY_LET(auto const address, addressOf(own));
    TRY_LET(auto fd, makeSocket());
    ::unlink(own.c_str());
    auto const before = ::umask(0177); // bind(2) takes the mode from there; this process has one thread
    auto const bound = ::bind(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address);
    auto const number = errno;
    ::umask(before);
    if (bound != 0)
        return std::unexpected(
            systemError(Errc::PermissionDenied, fmt::format("Making the socket {}", own.string()), number));
    // In one step, whether a dead socket or a living one's stands there.
    if (::listen(fd.get(), 16) != 0 || ::rename(own.c_str(), socket.c_str()) != 0) {
        auto error =
            systemError(Errc::PermissionDenied, fmt::format("Making the socket {}", socket.string()), errno);
        ::unlink(own.c_str());
        return std::unexpected(std::move(error));
    }
    return fd;
}

bool peerIsOurs(int fd)
{
    ucred peer{};
    socklen_t length = sizeof peer;
    return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

void limitWaiting(int fd)
{
    timeval const patience{.tv_sec = 2, .tv_usec = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

bool sendAll(int fd, std::string_view bytes)
{
    while (!bytes.empty()) {
        auto const sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

std::string receive(int fd, std::size_t most, char until)
{
    std::string bytes(most, '\0');
    std::size_t had = 0;
    while (had < most && (until == '\0' || had == 0 || bytes[had - 1] != until)) {
        auto const got = ::read(fd, bytes.data() + had, until == '\0' ? most - had : 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        had += static_cast<std::size_t>(got);
    }
    bytes.resize(had);
    return bytes;
}

} // namespace termalin
