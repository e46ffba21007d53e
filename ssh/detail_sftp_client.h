#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ssh/connection.h"
#include "ssh/detail_sftp_wire.h"
#include "ssh/sftp_codec.h"

namespace termalin::ssh {

/// Requests and their answers over a wire, many under way at once. For one thread at a time.
class SftpClient {
public:
    /// INIT, VERSION and the limits. Errors: as SftpWire::receive.
    static Result<std::unique_ptr<SftpClient>> open(std::shared_ptr<Connection> connection,
                                                    CallLimits const& limits);
    ~SftpClient();
    SftpClient(SftpClient const&) = delete;
    SftpClient& operator=(SftpClient const&) = delete;

    using Id = std::uint32_t;
    /// An answer and the message that it points into.
    struct Answer {
        SftpMessage message;
        sftp::Reply reply;
    };

    /// What a request begins with; its id is idOf().
    [[nodiscard]] sftp::Encoder request(sftp::Type type);
    /// Sends it; its answer must be awaited or forgotten.
    Id send(sftp::Encoder&& message);
    /// Waits for the answer to `id`, keeping the others that come. Errors: as SftpWire::receive.
    Result<Answer> await(Id id, CallLimits const& limits);
    /// Whatever is not answered will be dropped when it comes; handles among it are closed.
    void forgetAll();
    /// The same, and what has not begun to be sent never will be.
    void breakOff();

    // Requests of one path or handle, sent.
    Id sendPath(sftp::Type type, std::string_view path);
    Id sendOpen(std::string_view path, std::uint32_t flags, sftp::Attributes const& attributes);
    Id sendRead(std::string_view handle, std::uint64_t offset, std::uint32_t size);
    Id sendSet(std::string_view handle, sftp::Attributes const& attributes);
    Id sendRename(std::string_view from, std::string_view to); ///< posix-rename where there is one.
    Id sendFsync(std::string_view handle);                     ///< Only if canFsync().

    // Their answers. `attempted` and `path` are for the message: "open", "/etc/x".
    Result<void> ok(Id id, std::string_view attempted, std::string_view path, CallLimits const& limits);
    Result<std::string> handle(Id id, std::string_view attempted, std::string_view path,
                               CallLimits const& limits);
    Result<sftp::Attributes> attributes(Id id, std::string_view attempted, std::string_view path,
                                        CallLimits const& limits);
    /// The one name of a REALPATH or READLINK.
    Result<std::string> name(Id id, std::string_view attempted, std::string_view path,
                             CallLimits const& limits);
    /// CLOSE, whose answer nobody waits for.
    void close(std::string_view handle);

    /// An Error out of an answer that is no success.
    [[nodiscard]] Error refusal(sftp::Reply const& reply, std::string_view attempted,
                                std::string_view path) const;
    /// Whether the server itself said no: the line still works.
    [[nodiscard]] static bool said(Error const& error) { return error.source.starts_with("sftp status"); }
    /// Room on the file system of `path`, where the server can tell.
    std::optional<sftp::Space> space(std::string_view path, CallLimits const& limits);

    [[nodiscard]] std::uint32_t maxRead() const { return m_maxRead; }
    [[nodiscard]] std::uint32_t maxWrite() const { return m_maxWrite; }
    [[nodiscard]] bool canRenameOver() const { return m_posixRename; }
    [[nodiscard]] bool canFsync() const { return m_fsync; }
    [[nodiscard]] std::string const& server() const { return m_server; }
    [[nodiscard]] std::shared_ptr<Connection> const& connection() const { return m_connection; }

private:
    explicit SftpClient(std::shared_ptr<Connection> connection);
    Result<void> start(CallLimits const& limits);
    Result<void> learnLimits(CallLimits const& limits);

    Result<Answer> awaitRefusable(Id id, std::string_view attempted, std::string_view path,
                                  CallLimits const& limits);
    void drop(sftp::Reply const& reply);

    std::shared_ptr<Connection> m_connection;
    std::string m_server;
    std::shared_ptr<SftpWire> m_wire;
    Id m_lastId = 0;
    std::unordered_map<Id, bool> m_underWay; ///< Whether somebody still wants the answer.
    std::unordered_map<Id, Answer> m_arrived;
    std::uint32_t m_maxRead = 32U * 1024U, m_maxWrite = 32U * 1024U;
    bool m_posixRename = false, m_fsync = false, m_statvfs = false;
};

/// A handle of the server, closed when it goes.
class RemoteHandle {
public:
    RemoteHandle() = default;
    RemoteHandle(SftpClient& client, std::string handle) : m_client(&client), m_handle(std::move(handle)) {}
    RemoteHandle(RemoteHandle&& other) noexcept
        : m_client(std::exchange(other.m_client, nullptr)), m_handle(std::move(other.m_handle))
    {
    }
    RemoteHandle& operator=(RemoteHandle&& other) noexcept
    {
        std::swap(m_client, other.m_client);
        std::swap(m_handle, other.m_handle);
        return *this;
    }
    RemoteHandle(RemoteHandle const&) = delete;
    RemoteHandle& operator=(RemoteHandle const&) = delete;
    ~RemoteHandle()
    {
        if (m_client != nullptr)
            m_client->close(m_handle);
    }
    [[nodiscard]] std::string const& get() const noexcept { return m_handle; }
    explicit operator bool() const noexcept { return m_client != nullptr; }
    /// The caller closes it itself.
    std::string release() noexcept
    {
        m_client = nullptr;
        return std::move(m_handle);
    }

private:
    SftpClient* m_client = nullptr;
    std::string m_handle;
};

/// How a path appears in a message: bytes that are no plain text are shown, not obeyed.
[[nodiscard]] std::string quotedPath(std::string_view path);

} // namespace termalin::ssh
