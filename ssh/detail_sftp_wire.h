#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.h"
#include "core/result.h"
#include "ssh/channel.h"
#include "ssh/detail_task.h"

namespace termalin::ssh {

/// How long a call may take, and what ends it before that.
struct CallLimits {
    Deadline deadline;
    std::stop_token stop;
};

/// One message as it came, without its length. Large ones go back to a pool when they are done with: a
/// transfer would otherwise ask the kernel for fresh pages all the time.
class SftpMessage {
public:
    [[nodiscard]] std::string_view bytes() const { return {m_bytes.get(), m_size}; }

private:
    friend class SftpWire;
    struct Pool {
        std::mutex mutex;
        // NOLINTNEXTLINE(modernize-avoid-c-arrays): left as they are, where a vector would fill them
        std::vector<std::unique_ptr<char[]>> free; ///< kPooled bytes each
    };
    struct GiveBack {
        std::shared_ptr<Pool> pool; ///< null: not from the pool
        void operator()(char* bytes) const;
    };
    static constexpr std::size_t kPooled = 264U * 1024U, kMaxFree = 8;

    SftpMessage(std::shared_ptr<Pool> const& pool, std::size_t size);
    std::unique_ptr<char[], GiveBack> m_bytes; // NOLINT(modernize-avoid-c-arrays): sized when it comes
    std::size_t m_size;
};

/// A channel with the sftp subsystem as a pair of queues: the connection's thread moves messages between them
/// and the channel, a calling thread puts in and takes out. What comes in is bounded: it is read no further
/// than kMaxQueued ahead, after which the channel's window shuts.
class SftpWire final : public Task {
public:
    explicit SftpWire(std::string server) : m_server(std::move(server)) {}

    // Any thread.

    /// Queues a message (its length in front); the caller wakes the connection. Nothing happens once broken.
    void send(std::string message);
    /// The next message. Errors: Timeout, Cancelled, Unreachable; Unsupported when there is no SFTP, or the
    /// server's bytes are none; all but the first two for good.
    Result<SftpMessage> receive(CallLimits const& limits);
    /// Forgets what has been queued and not begun to be sent.
    void unsend();
    /// Ends it, with `why` for receive(); the caller wakes the connection.
    void shut(Error why);

    bool step(Session& session) override;
    void ended(Error const& why) override;
    [[nodiscard]] Deadline wakeAt() const override { return m_wakeAt; }
    [[nodiscard]] bool minds() const override { return true; }

private:
    bool open(Session& session);
    bool giveUp(Session& session);
    void write();
    void read();
    void gotMessage();
    void fail(Error why) { shut(std::move(why)); }
    [[nodiscard]] bool broken();
    [[nodiscard]] Error noSftp(std::string_view what) const;

    static constexpr std::size_t kMaxQueued = 16U * 1024U * 1024U;

    std::string const m_server;

    std::mutex m_mutex; ///< guards what follows
    std::condition_variable_any m_changed;
    std::deque<std::string> m_out;
    std::deque<SftpMessage> m_in;
    std::size_t m_inBytes = 0;
    std::optional<Error> m_failure;

    // The connection's thread only.
    std::optional<Channel> m_channel;
    bool m_started = false;
    bool m_answered = false; ///< a whole message has come
    Deadline m_wakeAt = Deadline::never();
    std::string m_sending; ///< bytes m_sent.. are left
    std::size_t m_sent = 0;
    std::array<char, 4> m_header{};
    std::size_t m_have = 0; ///< of the header, then of the message
    std::optional<SftpMessage> m_coming;
    std::shared_ptr<SftpMessage::Pool> m_pool = std::make_shared<SftpMessage::Pool>();
};

} // namespace termalin::ssh
