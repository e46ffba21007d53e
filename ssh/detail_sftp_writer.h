#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "ssh/detail_sftp_client.h"

namespace termalin::ssh {

/// A second SFTP program on the same connection that has a file open which the first one made. Servers take
/// so much on one channel before they say that they have taken it (OpenSSH: 2 MiB), so two take twice as much
/// from far away.
class SftpLane {
public:
    /// Begins to open it aside.
    SftpLane(std::shared_ptr<Connection> connection, std::string path, Deadline deadline);

    enum class State : std::uint8_t { Opening, Open, Failed };
    [[nodiscard]] State state() const noexcept { return m_state; }
    // Once it is open.
    [[nodiscard]] SftpClient& client() noexcept { return *m_client; }
    [[nodiscard]] std::string const& handle() const noexcept { return m_handle; }

private:
    std::atomic<State> m_state = State::Opening;
    std::unique_ptr<SftpClient> m_client;
    std::string m_handle;
    std::jthread m_thread; ///< last: joined before the rest goes
};

/// Writes a file's content through an open handle, many pieces under way at once. For one thread.
class SftpWriter {
public:
    /// Fills as much of the room as there is; less only at the end of the content.
    using Fill = std::function<Result<std::size_t>(char* room, std::size_t size)>;

    /// `path` is for messages. `size`: of the content, if it is known. All must outlive this.
    SftpWriter(SftpClient& client, std::string const& handle, std::string_view path, Fill fill,
               std::optional<std::uint64_t> size, CallLimits const& limits);

    /// Lets a large content go by two lanes. `path`: under which the server can open the file once more. Who
    /// may change its folder could have put another file there: nothing is written to what was opened until a
    /// secret that went in by the first handle has come out of it.
    void mayDivide(std::string path, std::shared_ptr<Connection> connection);

    /// The bytes written, each confirmed. Errors: what the source gives, what the server says, as
    /// SftpWire::receive.
    Result<std::uint64_t> run();
    [[nodiscard]] std::uint64_t confirmed() const noexcept { return m_confirmed; }

private:
    struct Flying {
        SftpClient* by = nullptr;
        SftpClient::Id id = 0;
        std::uint32_t size = 0; ///< 0: of no content
    };
    struct Piece {
        std::string bytes;
        std::uint64_t offset = 0;
    };
    enum class Divided : std::uint8_t { No, Opening, Hiding, Proving, Yes, Never };

    [[nodiscard]] std::uint64_t ahead() const;
    [[nodiscard]] std::uint32_t nextSize() const;
    Result<void> sendNext();
    Result<void> keepPiece();
    void sendKept(SftpClient& by, std::string const& handle);
    Result<void> advanceLane();
    Result<void> settle(Flying const& flying);
    Result<void> settleProof(SftpClient::Id id);

    SftpClient& m_client;
    std::string const& m_handle;
    std::string_view m_path;
    Fill m_fill;
    std::optional<std::uint64_t> m_size;
    CallLimits const& m_limits;

    std::deque<Flying> m_flying; ///< in the order of sending
    std::uint64_t m_offset = 0, m_confirmed = 0;
    std::uint64_t m_outFirst = 0, m_outSecond = 0; ///< bytes under way on each lane
    bool m_more = true;

    Divided m_divided = Divided::Never;
    std::string m_lanePath;
    std::shared_ptr<Connection> m_connection;
    std::optional<SftpLane> m_lane;
    Piece m_kept; ///< what belongs where the secret is
    std::array<char, 32> m_secret{};
};

} // namespace termalin::ssh
