#include "ssh/sftp.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "ssh/detail_sftp_client.h"
#include "ssh/detail_sftp_upload.h"

namespace termalin::ssh {

namespace {

using sftp::Code;
using sftp::Type;

/// Bytes asked for and not yet there: the channel's window.
constexpr std::uint64_t kReadAhead = 8U * 1024U * 1024U;
/// Requests for the next entries, and for the targets of links, under way at once.
constexpr std::size_t kListAhead = 8, kLinksAhead = 64;

std::string pathWithin(std::string_view folder, std::string_view name)
{
    return std::string(folder) + (folder.ends_with('/') ? "" : "/") + std::string(name);
}

FileInfo describe(std::string path, sftp::Attributes const& attributes, std::string_view longName)
{
    FileInfo info;
    info.name = path.substr(path.rfind('/') + 1);
    info.path = std::move(path);
    info.isDir = attributes.isDir();
    info.isLink = attributes.isLink();
    info.size = attributes.size.value_or(0);
    info.mode = attributes.mode.value_or(0) & 07777U;
    if (attributes.times)
        info.modified = attributes.times->second;
    std::tie(info.owner, info.group) = sftp::ownerAndGroup(longName);
    if (attributes.owner) {
        info.uid = attributes.owner->first;
        info.gid = attributes.owner->second;
        if (info.owner.empty())
            info.owner = std::to_string(*info.uid);
        if (info.group.empty())
            info.group = std::to_string(*info.gid);
    }
    return info;
}

/// Reads a file from its front to its end, with many requests under way.
class Download {
public:
    Download(SftpClient& client, std::string_view path, CallLimits const& limits)
        : m_client(client), m_path(path), m_limits(limits)
    {
    }

    Result<std::uint64_t> run(std::optional<std::uint64_t> limit,
                              std::function<Result<void>(std::string_view)> const& sink)
    {
        // Looked at before it is opened: opening a pipe or a device may hang or have an effect.
        TRY_LET(auto const seen,
                m_client.attributes(m_client.sendPath(Type::Stat, m_path), "read", m_path, m_limits));
        TRY(admit(seen, limit));
        TRY_LET(auto handle,
                m_client.handle(m_client.sendOpen(m_path, sftp::kOpenRead, {}), "read", m_path, m_limits));
        m_file = RemoteHandle(m_client, std::move(handle));
        m_expected = seen.size.value_or(0);
        auto const opened = m_client.sendPath(Type::Fstat, m_file.get());
        ask();
        TRY_LET(auto const is, m_client.attributes(opened, "read", m_path, m_limits));
        TRY(admit(is, limit));
        return transfer(limit, sink);
    }

private:
    struct Piece {
        SftpClient::Id id;
        std::uint64_t offset;
        std::uint32_t size;
    };

    [[nodiscard]] Result<void> admit(sftp::Attributes const& attributes,
                                     std::optional<std::uint64_t> limit) const
    {
        if (!attributes.isRegular())
            return fail(Errc::InvalidArgument, quotedPath(m_path) + " is " + std::string(attributes.kind()) +
                                                   "; only a regular file can be read.");
        return limit && attributes.size.value_or(0) > *limit ? tooLarge(*limit) : Result<void>{};
    }

    [[nodiscard]] Result<void> tooLarge(std::uint64_t limit) const
    {
        return fail(Errc::TooLarge, quotedPath(m_path) + " is larger than " + std::to_string(limit) +
                                        " bytes; read a part of it with a command such as tail or sed -n.");
    }

    /// Asks for more, up to the expected end, and for one piece beyond it, which is where the true end shows.
    void ask()
    {
        while (m_asked < kReadAhead && (m_next < m_expected || !m_beyond)) {
            m_beyond = m_next >= m_expected;
            auto const size = m_beyond ? m_client.maxRead()
                                       : static_cast<std::uint32_t>(std::min<std::uint64_t>(
                                             m_client.maxRead(), m_expected - m_next));
            m_pieces.push_back({m_client.sendRead(m_file.get(), m_next, size), m_next, size});
            m_next += size;
            m_asked += size;
        }
    }

    Result<std::uint64_t> transfer(std::optional<std::uint64_t> limit,
                                   std::function<Result<void>(std::string_view)> const& sink)
    {
        for (std::uint64_t total = 0;;) {
            ask();
            auto piece = m_pieces.front();
            m_pieces.pop_front();
            TRY_LET(auto const answer, m_client.await(piece.id, m_limits));
            auto const* const data = std::get_if<sftp::DataReply>(&answer.reply.body);
            auto const* const status = std::get_if<sftp::Status>(&answer.reply.body);
            if ((status != nullptr && status->code == Code::Eof) || (data != nullptr && data->bytes.empty()))
                return total;
            if (data == nullptr || data->bytes.size() > piece.size)
                return std::unexpected(m_client.refusal(answer.reply, "read", m_path));
            auto const got = static_cast<std::uint32_t>(data->bytes.size());
            total += got;
            if (limit && total > *limit)
                return std::unexpected(tooLarge(*limit).error());
            m_asked -= got;
            if (piece.offset >= m_expected) { // it has grown, or has no size, as in /proc
                m_expected = piece.offset + piece.size;
                m_beyond = false;
            }
            if (got < piece.size) {
                piece.offset += got;
                piece.size -= got;
                piece.id = m_client.sendRead(m_file.get(), piece.offset, piece.size);
                m_pieces.push_front(piece);
            }
            TRY(sink(data->bytes));
        }
    }

    SftpClient& m_client;
    std::string_view m_path;
    CallLimits const& m_limits;
    RemoteHandle m_file;
    std::deque<Piece> m_pieces; ///< in the order of their offsets
    std::uint64_t m_expected = 0, m_next = 0, m_asked = 0;
    bool m_beyond = false; ///< a piece beyond the expected end is under way
};

/// Reads a folder.
class Lister {
public:
    Lister(SftpClient& client, std::string_view path, CallLimits const& limits)
        : m_client(client), m_path(path), m_limits(limits)
    {
    }

    Result<Listing> run(std::size_t limit)
    {
        TRY_LET(m_listing.path,
                m_client.name(m_client.sendPath(Type::Realpath, m_path), "find", m_path, m_limits));
        auto opened = m_client.handle(m_client.sendPath(Type::Opendir, m_listing.path), "list",
                                      m_listing.path, m_limits);
        if (!opened)
            return std::unexpected(notAFolder(opened.error()));
        RemoteHandle const folder(m_client, *std::move(opened));
        TRY(readAll(folder, limit));
        TRY(resolveLinks());
        std::ranges::sort(m_listing.entries, {}, &FileInfo::name);
        return std::move(m_listing);
    }

private:
    /// OpenSSH calls a file a folder that does not exist.
    Error notAFolder(Error error)
    {
        auto const is = m_client.attributes(m_client.sendPath(Type::Stat, m_listing.path), "list",
                                            m_listing.path, m_limits);
        if (is && is->mode && !is->isDir())
            return {Errc::InvalidArgument,
                    quotedPath(m_listing.path) + " is " + std::string(is->kind()) + ", not a folder."};
        return error;
    }

    Result<void> readAll(RemoteHandle const& folder, std::size_t limit)
    {
        std::deque<SftpClient::Id> asked;
        for (;;) {
            while (asked.size() < kListAhead)
                asked.push_back(m_client.sendPath(Type::Readdir, folder.get()));
            TRY_LET(auto const answer, m_client.await(asked.front(), m_limits));
            asked.pop_front();
            auto const* const status = std::get_if<sftp::Status>(&answer.reply.body);
            if (status != nullptr && status->code == Code::Eof)
                return {};
            auto const* const names = std::get_if<sftp::NameReply>(&answer.reply.body);
            // A list without a name is not an answer: the end of a folder is a status.
            if (names == nullptr || names->empty())
                return std::unexpected(m_client.refusal(answer.reply, "list", m_listing.path));
            for (auto const& entry : *names) {
                // A slash in a name would lead elsewhere; no file is called that.
                if (entry.name.empty() || entry.name == "." || entry.name == ".." ||
                    entry.name.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
                    continue;
                if (m_listing.entries.size() == limit) {
                    m_listing.truncated = true;
                    return {};
                }
                m_listing.entries.push_back(
                    describe(pathWithin(m_listing.path, entry.name), entry.attributes, entry.longName));
            }
        }
    }

    Result<void> resolveLinks()
    {
        struct Asked {
            FileInfo* link;
            SftpClient::Id target, status;
        };
        std::deque<Asked> asked;
        auto const settle = [&]() -> Result<void> {
            auto const [link, target, status] = asked.front();
            asked.pop_front();
            auto where = m_client.name(target, "read the link", link->path, m_limits);
            if (!where && !SftpClient::said(where.error()))
                return std::unexpected(where.error());
            if (where)
                link->linkTarget = *std::move(where);
            auto const is = m_client.attributes(status, "look at", link->path, m_limits);
            if (!is && !SftpClient::said(is.error()))
                return std::unexpected(is.error());
            link->isDir = is && is->isDir();
            return {};
        };
        for (auto& entry : m_listing.entries) {
            if (!entry.isLink)
                continue;
            auto const target = m_client.sendPath(Type::Readlink, entry.path);
            asked.push_back({&entry, target, m_client.sendPath(Type::Stat, entry.path)});
            if (asked.size() == kLinksAhead)
                TRY(settle());
        }
        while (!asked.empty())
            TRY(settle());
        return {};
    }

    SftpClient& m_client;
    std::string_view m_path;
    CallLimits const& m_limits;
    Listing m_listing;
};

class SftpImpl final : public Sftp {
public:
    explicit SftpImpl(std::unique_ptr<SftpClient> client) : m_client(std::move(client)) {}

    Result<std::string> realPath(std::string_view path, Deadline deadline,
                                 std::stop_token const& stop) override
    {
        return call(deadline, stop, [&](CallLimits const& limits) {
            return m_client->name(m_client->sendPath(Type::Realpath, path), "find", path, limits);
        });
    }

    Result<Listing> list(std::string_view path, std::size_t limit, Deadline deadline,
                         std::stop_token const& stop) override
    {
        return call(deadline, stop,
                    [&](CallLimits const& limits) { return Lister(*m_client, path, limits).run(limit); });
    }

    Result<FileInfo> stat(std::string_view path, Deadline deadline, std::stop_token const& stop) override
    {
        return look(Type::Stat, path, deadline, stop);
    }
    Result<FileInfo> lstat(std::string_view path, Deadline deadline, std::stop_token const& stop) override
    {
        return look(Type::Lstat, path, deadline, stop);
    }

    Result<std::string> read(std::string_view path, std::uint64_t limit, Deadline deadline,
                             std::stop_token const& stop) override
    {
        return call(deadline, stop, [&](CallLimits const& limits) -> Result<std::string> {
            std::string content;
            TRY(Download(*m_client, path, limits).run(limit, [&](std::string_view piece) -> Result<void> {
                content += piece;
                return {};
            }));
            return content;
        });
    }

    Result<std::uint64_t> download(std::string_view path,
                                   std::function<Result<void>(std::string_view)> const& sink,
                                   Deadline deadline, std::stop_token const& stop) override
    {
        return call(deadline, stop, [&](CallLimits const& limits) {
            return Download(*m_client, path, limits).run(std::nullopt, sink);
        });
    }

    Result<Upload> write(std::string_view path, std::string_view content, Deadline deadline,
                         std::stop_token const& stop) override
    {
        auto rest = content;
        UploadSource source{.read = [&](char* to, std::size_t size) -> Result<std::size_t> {
                                auto const given = rest.copy(to, size);
                                rest.remove_prefix(given);
                                return given;
                            },
                            .size = content.size(),
                            .rewind = [&] { rest = content; }};
        return call(deadline, stop, [&](CallLimits const& limits) {
            return SftpUpload(*m_client, std::move(source), limits).run(path);
        });
    }

    Result<Upload> upload(std::string_view path,
                          std::function<Result<std::size_t>(char*, std::size_t)> const& source,
                          Deadline deadline, std::stop_token const& stop) override
    {
        return call(deadline, stop, [&](CallLimits const& limits) {
            return SftpUpload(*m_client, {.read = source, .size = {}, .rewind = {}}, limits).run(path);
        });
    }

private:
    /// One call after another: waits for its turn, and leaves no answer to the next one.
    template <class F>
    auto call(Deadline deadline, std::stop_token const& stop, F&& work)
        -> decltype(work(std::declval<CallLimits const&>()))
    {
        std::unique_lock lock(m_mutex);
        if (!m_changed.wait_until(lock, stop, deadline.at(), [&] { return !m_busy; }))
            return stop.stop_requested()
                       ? fail(Errc::Cancelled, "The file transfer was stopped before it began.")
                       : fail(Errc::Timeout, "Another file transfer on this channel took all the time.");
        m_busy = true;
        lock.unlock();
        auto result = work(CallLimits{deadline, stop});
        m_client->forgetAll();
        lock.lock();
        m_busy = false;
        m_changed.notify_one();
        return result;
    }

    Result<FileInfo> look(Type type, std::string_view path, Deadline deadline, std::stop_token const& stop)
    {
        return call(deadline, stop, [&](CallLimits const& limits) -> Result<FileInfo> {
            TRY_LET(auto const attributes,
                    m_client->attributes(m_client->sendPath(type, path), "look at", path, limits));
            auto info = describe(std::string(path), attributes, {});
            if (!info.isLink)
                return info;
            auto where =
                m_client->name(m_client->sendPath(Type::Readlink, path), "read the link", path, limits);
            auto const is =
                m_client->attributes(m_client->sendPath(Type::Stat, path), "look at", path, limits);
            info.linkTarget = where ? *std::move(where) : std::string();
            info.isDir = is && is->isDir();
            return info;
        });
    }

    std::unique_ptr<SftpClient> m_client;
    std::mutex m_mutex;
    std::condition_variable_any m_changed;
    bool m_busy = false; ///< guarded by m_mutex
};

} // namespace

Result<std::unique_ptr<Sftp>> Sftp::open(std::shared_ptr<Connection> connection, Deadline deadline,
                                         std::stop_token const& stop)
{
    TRY_LET(auto client, SftpClient::open(std::move(connection), {deadline, stop}));
    return std::make_unique<SftpImpl>(std::move(client));
}

} // namespace termalin::ssh
