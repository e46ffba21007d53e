#include "core/audit.h"

#include <cerrno>
#include <condition_variable>
#include <fcntl.h>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <ranges>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "core/audit_chain.h"
#include "core/log.h"
#include "core/paths.h"
#include "core/store.h"

namespace termalin {
namespace {

namespace fs = std::filesystem;

constexpr auto kSyncInterval =
    std::chrono::milliseconds(500); // once a second at least, with time for the work

constexpr auto kPatience = std::chrono::seconds(5); ///< with another process that writes to the store

Error fileError(std::string_view attempted, fs::path const& file, int number)
{
    auto const full = number == ENOSPC || number == EDQUOT || number == EFBIG;
    auto const denied = number == EACCES || number == EPERM || number == EROFS || number == ELOOP;
    auto error = systemError(full ? Errc::NoSpace : (denied ? Errc::PermissionDenied : Errc::Internal),
                             fmt::format("{} {}", attempted, file.string()), number);
    error.message += full ? ". Nothing runs without a line in the audit: free some space."
                          : ". Nothing runs without a line in the audit.";
    return error;
}

class FileAudit final : public Audit {
public:
    FileAudit(fs::path file, Store& store, UniqueFd lockFile, std::int64_t rotateAt)
        : m_file(std::move(file)), m_store(store), m_lockFile(std::move(lockFile)), m_rotateAt(rotateAt)
    {
    }
    ~FileAudit() override;
    FileAudit(FileAudit const&) = delete;
    FileAudit& operator=(FileAudit const&) = delete;

    Result<std::int64_t> begin(AuditCall const& call) override;
    Result<void> end(std::int64_t number, AuditOutcome const& outcome) override;
    Result<void> note(AuditCall const& what) override;
    void hide(Secret const& secret) override;
    std::string masked(std::string_view subject) override;
    void sync() override;

    Result<void> openFile(); ///< under the lock of lines

private:
    template <class MakeLine>
    Result<std::int64_t> append(MakeLine const& makeLine);
    Result<void> catchUp();
    Result<void> followOthers(std::int64_t size);
    Result<void> startFromFiles();
    Result<AuditTail> tailOfRotated(ChainEnd const& head) const;
    Result<void> rotateIfLarge();
    Result<void> writeLine(std::string const& text);
    Result<void> putHead(ChainEnd const& head);
    void markDirty();
    void syncLoop(std::stop_token const& stop);

    fs::path const m_file;
    Store& m_store;
    UniqueFd const m_lockFile;
    std::int64_t const m_rotateAt;

    std::mutex m_mutex; ///< Guards everything below; taken before the lock across processes.
    std::condition_variable_any m_wake;
    UniqueFd m_fd;
    ino_t m_inode = 0;
    std::int64_t m_size = -1; ///< How much of the file has been read or written; -1: start from the files.
    ChainEnd m_end;           ///< What the next line continues.
    std::string m_torn;       ///< Bytes at the end that the next line has to mark.
    bool m_needsNewline = false;
    Mask m_mask;
    bool m_dirty = false;
    bool m_warned = false;
    std::jthread m_syncer;
};

FileAudit::~FileAudit()
{
    if (m_syncer.joinable()) {
        m_syncer.request_stop();
        m_syncer.join();
    }
    sync();
}

Result<std::int64_t> FileAudit::begin(AuditCall const& call)
{
    return append([&] { return callLine(m_end, "begin", call, m_mask); });
}

Result<void> FileAudit::end(std::int64_t number, AuditOutcome const& outcome)
{
    TRY(append([&] { return outcomeLine(m_end, number, outcome, m_mask); }));
    return {};
}

Result<void> FileAudit::note(AuditCall const& what)
{
    TRY(append([&] { return callLine(m_end, "note", what, m_mask); }));
    return {};
}

void FileAudit::hide(Secret const& secret)
{
    std::lock_guard const guard(m_mutex);
    m_mask.add(secret);
}

std::string FileAudit::masked(std::string_view subject)
{
    std::lock_guard const guard(m_mutex);
    return maskedSubject(subject, m_mask);
}

template <class MakeLine>
Result<std::int64_t> FileAudit::append(MakeLine const& makeLine)
{
    std::lock_guard const guard(m_mutex);
    TRY_LET(auto const lock, AuditLock::take(m_lockFile, AuditLock::Part::Lines));
    TRY(catchUp());
    TRY(rotateIfLarge());
    std::string text;
    auto const before = m_end;
    auto const advance = [&](std::string const& line) {
        text += line;
        m_end = {.number = m_end.number + 1,
                 .hash = sha256(std::string_view(line).substr(0, line.size() - 1))};
    };
    if (m_needsNewline)
        text += '\n';
    if (!m_torn.empty())
        advance(tornLine(m_end, m_torn));
    advance(makeLine());
    if (auto written = writeLine(text); !written) {
        m_end = before;
        return std::unexpected(std::move(written).error());
    }
    m_torn.clear();
    m_needsNewline = false;
    markDirty();
    return m_end.number;
}

Result<void> FileAudit::openFile()
{
    m_fd.reset(
        ::open(m_file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    struct stat info{};
    if (!m_fd || ::fstat(m_fd.get(), &info) != 0)
        return std::unexpected(fileError("Opening", m_file, errno));
    auto const refuse = [this](std::string_view why) {
        return fail(Errc::PermissionDenied, fmt::format("{} {}", m_file.string(), why));
    };
    if (!S_ISREG(info.st_mode))
        return refuse("is not a regular file. Move it out of the way.");
    if (info.st_uid != ::geteuid())
        return refuse(
            fmt::format("belongs to user {}, not to you. Give it to yourself with chown.", info.st_uid));
    if ((info.st_mode & 0077U) != 0)
        return refuse(fmt::format("is open to other users (mode {:04o}). Run: chmod 600 '{}'",
                                  info.st_mode & 07777U, m_file.string()));
    m_inode = info.st_ino;
    m_size = -1;
    return {};
}

/// Learns what other processes have written, so that the next line continues it.
Result<void> FileAudit::catchUp()
{
    struct stat info{};
    if (!m_fd || ::lstat(m_file.c_str(), &info) != 0 || info.st_ino != m_inode) {
        TRY(openFile()); // rotated by another process, or taken away
        if (::fstat(m_fd.get(), &info) != 0)
            return std::unexpected(fileError("Looking at", m_file, errno));
    }
    if (m_size < 0 || info.st_size < m_size)
        return startFromFiles();
    if (info.st_size > m_size)
        return followOthers(info.st_size);
    return {};
}

Result<void> FileAudit::followOthers(std::int64_t size)
{
    TRY_LET(auto const bytes, readAt(m_fd.get(), m_size, static_cast<std::size_t>(size - m_size), m_file));
    auto end = m_end;
    for (std::string_view rest = bytes; !rest.empty();) {
        auto const length = rest.find('\n');
        auto const parsed =
            length == std::string_view::npos ? std::nullopt : parseAuditLine(rest.substr(0, length));
        if (!parsed || parsed->before != end.hash || parsed->number != end.number + 1)
            return startFromFiles(); // torn, or changed by somebody: look at it closely
        end = {.number = parsed->number, .hash = sha256(rest.substr(0, length))};
        rest.remove_prefix(length + 1);
    }
    m_end = end;
    m_size = size;
    return {};
}

/// The end of the newest rotated file, and whether the head's line is in any of them.
Result<AuditTail> FileAudit::tailOfRotated(ChainEnd const& head) const
{
    std::optional<AuditTail> newest;
    for (auto const& file : rotatedAuditFiles(m_file) | std::views::reverse) {
        UniqueFd const fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        struct stat info{};
        if (!fd || ::fstat(fd.get(), &info) != 0)
            return std::unexpected(fileError("Reading", file, errno));
        TRY_LET(auto const tail, readAuditTail(fd.get(), info.st_size, head, file));
        newest = newest ? newest : tail;
        newest->sawHead = newest->sawHead || tail.sawHead;
        if (newest->sawHead || tail.end.number < head.number)
            break;
    }
    return newest.value_or(AuditTail{});
}

/// Takes the end from the files. Where they do not have what the store's head names, lines were changed or
/// cut off; then the next line continues the head, so that the break stays in the chain for verify to find.
Result<void> FileAudit::startFromFiles()
{
    struct stat info{};
    if (::fstat(m_fd.get(), &info) != 0)
        return std::unexpected(fileError("Looking at", m_file, errno));
    TRY_LET(auto head, readHead(m_store));
    if (m_end.number > head.number)
        head = m_end; // what this process has seen itself is newer
    TRY_LET(auto tail, readAuditTail(m_fd.get(), info.st_size, head, m_file));
    m_torn = std::move(tail.unmarked);
    m_needsNewline = !tail.newline;
    if (tail.end.number == 0 || !tail.sawHead) {
        TRY_LET(auto const older, tailOfRotated(head));
        if (tail.end.number == 0)
            tail.end = older.end;
        tail.sawHead = tail.sawHead || older.sawHead;
    }
    m_end = tail.end;
    if (head.number > 0 && !tail.sawHead)
        m_end = {.number = std::max(head.number, tail.end.number), .hash = head.hash};
    m_size = info.st_size;
    return {};
}

Result<void> FileAudit::rotateIfLarge()
{
    if (m_size < m_rotateAt || m_needsNewline || !m_torn.empty())
        return {};
    auto const target = rotatedAuditName(m_file, m_end.number);
    // Before the name goes: a line that the head will soon vouch for must not be lost with the power.
    if (::fdatasync(m_fd.get()) != 0)
        return std::unexpected(fileError("Syncing", m_file, errno));
    struct stat info{};
    if (::lstat(target.c_str(), &info) == 0)
        return fail(Errc::Internal,
                    fmt::format("{} is in the way of the audit. Move it away.", target.string()));
    if (::rename(m_file.c_str(), target.c_str()) != 0)
        return std::unexpected(fileError("Rotating", m_file, errno));
    auto const end = m_end;
    TRY(openFile());
    m_end = end;
    m_size = 0;
    return {};
}

Result<void> FileAudit::writeLine(std::string const& text)
{
    ssize_t written = 0;
    do
        written = ::write(m_fd.get(), text.data(), text.size());
    while (written < 0 && errno == EINTR);
    if (written == static_cast<ssize_t>(text.size())) {
        m_size += written;
        return {};
    }
    auto const number = written < 0 ? errno : ENOSPC; // the disk took a part: it is full
    if (written > 0 && ::ftruncate(m_fd.get(), m_size) != 0)
        m_size = -1; // the part stays; the next line marks it
    return std::unexpected(fileError("Writing", m_file, number));
}

void FileAudit::markDirty()
{
    auto const waited = std::exchange(m_dirty, true);
    if (!m_syncer.joinable())
        m_syncer = std::jthread([this](std::stop_token const& stop) { syncLoop(stop); });
    if (!waited) // or the syncer knows already, and lets this line join
        m_wake.notify_all();
}

/// Sleeps until a line has been written, then lets others join it for a moment.
void FileAudit::syncLoop(std::stop_token const& stop)
{
    while (!stop.stop_requested()) {
        {
            std::unique_lock lock(m_mutex);
            m_wake.wait(lock, stop, [this] { return m_dirty; });
            m_wake.wait_for(lock, stop, kSyncInterval, [] { return false; });
        }
        sync();
    }
}

/// Another process may keep the store from being written. It is this thread that waits then, and nobody who
/// wants to read.
Result<void> FileAudit::putHead(ChainEnd const& head)
{
    auto const giveUp = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
        auto put = m_store.setValueAtOnce(kAuditHeadKey, formatHead(head));
        if (put || put.error().code != Errc::Timeout || std::chrono::steady_clock::now() > giveUp)
            return put;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

/// First the lines, then the head that vouches for them, so that the files are never behind the head.
void FileAudit::sync()
{
    std::unique_lock lock(m_mutex);
    if (!m_dirty)
        return;
    auto const end = m_end;
    UniqueFd const fd(::fcntl(m_fd.get(), F_DUPFD_CLOEXEC, 0));
    m_dirty = false;
    lock.unlock(); // callers do not wait for the disk

    auto const synced = [&]() -> Result<void> {
        if (!fd || ::fdatasync(fd.get()) != 0)
            return std::unexpected(fileError("Syncing", m_file, errno));
        UniqueFd const folder(::open(m_file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!folder || ::fsync(folder.get()) != 0)
            return std::unexpected(fileError("Syncing", m_file.parent_path(), errno));
        TRY_LET(auto const headLock, AuditLock::take(m_lockFile, AuditLock::Part::Head));
        TRY_LET(auto const head, readHead(m_store));
        if (head.number >= end.number)
            return {};
        return putHead(end);
    }();

    lock.lock();
    if (!synced) {
        m_dirty = true;
        if (!m_warned)
            log(LogLevel::Error, "audit", "The audit could not be made safe: {}", synced.error().message);
    }
    m_warned = !synced;
}

} // namespace

Result<std::unique_ptr<Audit>> Audit::open(fs::path const& file, Store& store, std::int64_t rotateAt)
{
    TRY(makeDataDir(file.parent_path()));
    TRY_LET(auto lockFile, openAuditLock(file));
    auto audit = std::make_unique<FileAudit>(file, store, std::move(lockFile), rotateAt);
    TRY(audit->openFile());
    return audit;
}

} // namespace termalin
