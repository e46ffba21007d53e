#include "core/paths.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/unique_fd.h"

namespace termalin {
namespace {

namespace fs = std::filesystem;

Error fileError(std::string_view attempted, fs::path const& file, int number)
{
    auto const code = [number] {
        switch (number) {
        case ENOENT: return Errc::NotFound;
        case EACCES:
        case EPERM:
        case EROFS: return Errc::PermissionDenied;
        case ENOSPC:
        case EDQUOT:
        case EFBIG: return Errc::NoSpace;
        default: return Errc::Internal;
        }
    }();
    return systemError(code, fmt::format("{} {}", attempted, file.string()), number);
}

/// An environment variable's path; empty if it is unset, empty or, as the XDG specification asks, relative.
fs::path absoluteFromEnvironment(char const* name)
{
    auto const* const value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): nothing here sets it
    if (value == nullptr || value[0] != '/')
        return {};
    fs::path const path(value);
    return path.has_filename() || path == path.root_path() ? path : path.parent_path();
}

fs::path homeFromPasswordDatabase()
{
    std::string buffer(16U << 10U, '\0');
    passwd entry{};
    passwd* found = nullptr;
    while (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) == ERANGE &&
           buffer.size() < (1U << 20U))
        buffer.resize(buffer.size() * 2);
    if (found == nullptr || entry.pw_dir == nullptr || entry.pw_dir[0] != '/')
        return {};
    return entry.pw_dir;
}

bool isOurFolder(fs::path const& dir)
{
    struct stat info{};
    return ::stat(dir.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

/// The order of docs/control-socket.md. A runtime folder that a `su` has left behind belongs to somebody else
/// and is passed over.
fs::path runtimeDirOf(fs::path const& home)
{
    auto const named = absoluteFromEnvironment("XDG_RUNTIME_DIR");
    if (!named.empty() && isOurFolder(named))
        return named / "termalin";
    auto const usual = fs::path("/run/user") / std::to_string(::geteuid());
    if (isOurFolder(usual))
        return usual / "termalin";
    return home / ".local/state/termalin/run";
}

fs::path xdg(char const* variable, fs::path const& home, char const* usual)
{
    auto named = absoluteFromEnvironment(variable);
    return (named.empty() ? home / usual : named) / "termalin";
}

Result<void> checkSocketLength(fs::path const& socket)
{
    constexpr auto kLimit = sizeof(sockaddr_un::sun_path);
    if (socket.native().size() < kLimit)
        return {};
    return fail(
        Errc::InvalidArgument,
        fmt::format("The socket's path {} has {} bytes, and the system allows {}. Set TERMALIN_HOME to a "
                    "folder with a shorter path.",
                    socket.string(), socket.native().size(), kLimit - 1));
}

Result<void> syncFolder(fs::path const& dir)
{
    UniqueFd const fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd || (::fsync(fd.get()) != 0 && errno != EINVAL && errno != EROFS))
        return std::unexpected(fileError("Syncing the folder", dir, errno));
    return {};
}

Result<void> writeAll(int fd, std::string_view bytes, fs::path const& file)
{
    while (!bytes.empty()) {
        auto const written = ::write(fd, bytes.data(), bytes.size());
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return std::unexpected(fileError("Writing", file, errno));
        }
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
}

std::string randomSuffix()
{
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != sizeof number)
        number = static_cast<std::uint64_t>(::getpid()); // the file is opened with O_EXCL in any case
    return fmt::format("{:016x}", number);
}

/// The file that a chain of links ends at, which need not exist.
Result<fs::path> followLinks(fs::path file)
{
    for (int hops = 0; hops < 40; ++hops) {
        std::string target(PATH_MAX, '\0');
        auto const length = ::readlink(file.c_str(), target.data(), target.size());
        if (length < 0 && (errno == EINVAL || errno == ENOENT))
            return file;
        if (length < 0)
            return std::unexpected(fileError("Reading the link", file, errno));
        target.resize(static_cast<std::size_t>(length));
        file = file.parent_path() / target;
    }
    return fail(Errc::InvalidArgument,
                fmt::format("{} is a circle of links. Remove one of them.", file.string()));
}

Result<void> writeTemporary(fs::path const& temporary, std::string_view content)
{
    UniqueFd const fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd)
        return std::unexpected(fileError("Creating", temporary, errno));
    TRY(writeAll(fd.get(), content, temporary));
    if (::fsync(fd.get()) != 0)
        return std::unexpected(fileError("Syncing", temporary, errno));
    return {};
}

} // namespace

Result<Paths> Paths::find()
{
    Paths paths;
    paths.home = homeFromPasswordDatabase();
    auto const* const chosen =
        std::getenv("TERMALIN_HOME"); // NOLINT(concurrency-mt-unsafe): nothing here sets it
    if (chosen != nullptr && chosen[0] != '\0') {
        auto const base = absoluteFromEnvironment("TERMALIN_HOME");
        if (base.empty())
            return fail(Errc::InvalidArgument,
                        "TERMALIN_HOME must be an absolute path, such as /home/me/termalin; it is relative.");
        if (paths.home.empty())
            paths.home = base;
        paths.isolated = true;
        paths.store = base / "termalin.db";
        paths.settings = base / "settings.json";
        paths.knownHosts = base / "known_hosts";
        paths.audit = base / "audit/audit.jsonl";
        paths.runtimeDir = base / "run";
    } else {
        if (paths.home.empty())
            return fail(
                Errc::InvalidArgument,
                fmt::format("User {} has no home folder in the password database. Set TERMALIN_HOME to the "
                            "absolute path of a folder of your own.",
                            ::getuid()));
        auto const data = xdg("XDG_DATA_HOME", paths.home, ".local/share");
        paths.store = data / "termalin.db";
        paths.settings = xdg("XDG_CONFIG_HOME", paths.home, ".config") / "settings.json";
        paths.knownHosts = data / "known_hosts";
        paths.audit = xdg("XDG_STATE_HOME", paths.home, ".local/state") / "audit/audit.jsonl";
        paths.runtimeDir = runtimeDirOf(paths.home);
    }
    paths.controlSocket = paths.runtimeDir / "control";
    paths.vaultSocket = paths.runtimeDir / "vault";
    TRY(checkSocketLength(paths.controlSocket)); // the longer one
    return paths;
}

namespace {

/// `closed`: the permissions that others must not have.
Result<void> makeDir(fs::path const& dir, mode_t closed)
{
    auto const parent = dir.parent_path();
    if (::mkdir(dir.c_str(), 0700) != 0) {
        if (errno == ENOENT && !parent.empty() && parent != dir) {
            std::error_code ignored;
            if (!fs::exists(parent, ignored))
                if (auto made = makeDir(parent, closed); !made)
                    return made;
            if (::mkdir(dir.c_str(), 0700) == 0)
                return syncFolder(parent);
        }
        if (errno != EEXIST)
            return std::unexpected(fileError("Creating the folder", dir, errno));
    } else if (!parent.empty()) {
        return syncFolder(parent);
    }

    struct stat info{};
    if (::lstat(dir.c_str(), &info) != 0)
        return std::unexpected(fileError("Looking at the folder", dir, errno));
    auto const refuse = [&dir](std::string_view why) {
        return fail(Errc::PermissionDenied, fmt::format("{} {}", dir.string(), why));
    };
    if (S_ISLNK(info.st_mode))
        return refuse(
            "is a link, and a folder that holds secrets must not be. Put a real folder in its place.");
    if (!S_ISDIR(info.st_mode))
        return refuse("is not a folder. Move it out of the way.");
    if (info.st_uid != ::geteuid())
        return refuse(fmt::format(
            "belongs to user {}, not to you. Give it to yourself with chown, or remove it.", info.st_uid));
    if ((info.st_mode & closed) != 0)
        return refuse(
            fmt::format("is open to other users (mode {:04o}). See that nobody else has put anything in "
                        "it, then run: chmod 700 '{}'",
                        info.st_mode & 07777U, dir.string()));
    return {};
}

} // namespace

Result<void> makePrivateDir(fs::path const& dir)
{
    return makeDir(dir, 0077);
}

Result<void> makeDataDir(fs::path const& dir)
{
    return makeDir(dir, 0022);
}

Result<void> writeFileAtomically(fs::path const& file, std::string_view content)
{
    TRY_LET(auto const target, followLinks(file));
    auto temporary = target;
    temporary += "." + randomSuffix() + ".tmp";
    auto written = writeTemporary(temporary, content);
    if (written && ::rename(temporary.c_str(), target.c_str()) != 0)
        written = std::unexpected(fileError("Replacing", target, errno));
    if (!written) {
        ::unlink(temporary.c_str());
        return written;
    }
    return syncFolder(target.has_parent_path() ? target.parent_path() : fs::path("."));
}

Result<std::string> readFile(fs::path const& file, std::size_t limit)
{
    // Not blocking: a pipe that somebody has put in the file's place must not hang us.
    UniqueFd const fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!fd)
        return std::unexpected(fileError("Reading", file, errno));
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0)
        return std::unexpected(fileError("Reading", file, errno));
    if (!S_ISREG(info.st_mode))
        return fail(Errc::InvalidArgument, fmt::format("{} is not a regular file.", file.string()));

    std::string content;
    auto const expected = static_cast<std::size_t>(info.st_size);
    for (;;) {
        auto const had = content.size();
        // One byte more than there should be, so that the end is seen without growing.
        content.resize(std::max(had + 4096, std::min(expected, limit) + 1));
        auto const got = ::read(fd.get(), content.data() + had, content.size() - had);
        content.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        if (got < 0 && errno != EINTR)
            return std::unexpected(fileError("Reading", file, errno));
        if (content.size() > limit)
            return fail(Errc::TooLarge, fmt::format("{} is larger than {} bytes, which it should not be.",
                                                    file.string(), limit));
        if (got == 0)
            return content;
    }
}

} // namespace termalin
