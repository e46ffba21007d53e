#include "core/audit_chain.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fcntl.h>
#include <fmt/format.h>
#include <thread>
#include <unistd.h>

#include "core/store.h"

namespace termalin {
namespace {

namespace fs = std::filesystem;

struct flock rangeOf(AuditLock::Part part, short type)
{
    struct flock range{};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(part);
    range.l_len = 1;
    return range;
}

} // namespace

std::vector<fs::path> rotatedAuditFiles(fs::path const& file)
{
    auto const prefix = file.stem().string() + "-";
    auto const extension = file.extension().string();
    std::vector<fs::path> found;
    std::error_code ignored;
    for (auto const& entry : fs::directory_iterator(file.parent_path(), ignored)) {
        auto const name = entry.path().filename().string();
        if (name.starts_with(prefix) && name.ends_with(extension))
            found.push_back(entry.path());
    }
    std::ranges::sort(found); // numbers of one width: the order of names is the order of time
    return found;
}

fs::path rotatedAuditName(fs::path const& file, std::int64_t last)
{
    return file.parent_path() /
           fmt::format("{}-{:019}{}", file.stem().string(), last, file.extension().string());
}

Result<UniqueFd> openAuditLock(fs::path const& file)
{
    auto const path = file.parent_path() / (file.stem().string() + ".lock");
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd)
        return std::unexpected(
            systemError(errno == ENOSPC || errno == EDQUOT ? Errc::NoSpace : Errc::PermissionDenied,
                        fmt::format("Opening {}", path.string()), errno));
    return fd;
}

Result<AuditLock> AuditLock::take(UniqueFd const& lockFile, Part part)
{
    auto const giveUp = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    auto range = rangeOf(part, F_WRLCK);
    // Locks of the open file description: unlike flock(2) they have ranges, and unlike POSIX locks they are
    // not lost when some other descriptor of the file is closed.
    while (::fcntl(lockFile.get(), F_OFD_SETLK, &range) != 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return std::unexpected(systemError(Errc::Internal, "Locking the audit", errno));
        if (std::chrono::steady_clock::now() > giveUp)
            return fail(Errc::Timeout,
                        "Another process has kept the audit locked for 5 s, so nothing was run. See "
                        "whether a stopped termalin-mcp is there, then try again.");
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return AuditLock(lockFile.get(), part);
}

AuditLock::~AuditLock()
{
    if (m_fd < 0)
        return;
    auto range = rangeOf(m_part, F_UNLCK);
    ::fcntl(m_fd, F_OFD_SETLK, &range);
}

std::string formatHead(ChainEnd const& head)
{
    return fmt::format("{} {}", head.number, head.hash);
}

Result<ChainEnd> readHead(Store& store)
{
    TRY_LET(auto const text, store.value(kAuditHeadKey));
    ChainEnd head;
    if (!text)
        return head;
    auto const* const end = text->data() + text->size();
    auto const [rest, fault] = std::from_chars(text->data(), end, head.number);
    if (fault != std::errc() || rest == end)
        return fail(Errc::Internal, "The audit's head in the store cannot be read: somebody has changed it.");
    head.hash.assign(rest + 1, end);
    return head;
}

Result<std::string> readAt(int fd, std::int64_t offset, std::size_t size, fs::path const& file)
{
    std::string bytes(size, '\0');
    std::size_t had = 0;
    while (had < size) {
        auto const got = ::pread(fd, bytes.data() + had, size - had, offset + static_cast<off_t>(had));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return std::unexpected(
                systemError(Errc::Internal, fmt::format("Reading {}", file.string()), errno));
        if (got == 0)
            break;
        had += static_cast<std::size_t>(got);
    }
    bytes.resize(had);
    return bytes;
}

namespace {

AuditTail tailOf(std::string_view window, ChainEnd const& head)
{
    AuditTail tail;
    tail.newline = window.empty() || window.back() == '\n';
    while (!window.empty()) {
        auto const length = std::min(window.find('\n'), window.size());
        auto const whole = length < window.size();
        auto const line = window.substr(0, length);
        window.remove_prefix(whole ? length + 1 : length);
        auto const parsed = parseAuditLine(line); // whole even where only its newline was lost
        if (!parsed) {
            if (!tail.unmarked.empty())
                tail.unmarked += '\n';
            tail.unmarked += line;
            continue;
        }
        tail.unmarked.clear();
        tail.end = ChainEnd{.number = parsed->number, .hash = sha256(line)};
        tail.sawHead = tail.sawHead || tail.end == head;
    }
    return tail;
}

} // namespace

Result<AuditTail> readAuditTail(int fd, std::int64_t size, ChainEnd const& head, fs::path const& file)
{
    for (std::int64_t window = 64 * 1024;; window *= 16) {
        auto const offset = std::max<std::int64_t>(size - window, 0);
        TRY_LET(auto const bytes, readAt(fd, offset, static_cast<std::size_t>(size - offset), file));
        // Unless it begins at the beginning, the window begins within a line.
        auto const begin = offset == 0 ? 0 : std::min(bytes.find('\n'), bytes.size() - 1) + 1;
        auto tail = tailOf(std::string_view(bytes).substr(begin), head);
        if (offset == 0 ||
            (tail.end.number > 0 && (tail.sawHead || head.number == 0 || tail.end.number < head.number)))
            return tail;
    }
}

} // namespace termalin
