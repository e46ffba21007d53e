#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "core/unique_fd.h"
#include "ssh/connection.h"
#include "tests/support/temp_dir.h"

namespace termalin::test {

/// The server's end of one SSH connection (RFC 4253, 4252), with nothing but what a test needs to send what
/// no real server would: curve25519-sha256, ssh-ed25519, aes128-ctr with hmac-sha2-256, a login that asks for
/// nothing. All throws std::runtime_error when the other side is gone or speaks otherwise.
class Peer {
public:
    explicit Peer(UniqueFd stream);
    ~Peer();
    Peer(Peer const&) = delete;
    Peer& operator=(Peer const&) = delete;

    /// When the login's service is accepted (RFC 4253 10). First: with the signatures that the server takes
    /// said before (RFC 8308), if any are given.
    enum class Accepts : std::uint8_t { First, AfterTheRequest };
    /// Key exchange, and the first request of a login.
    void greet(Accepts accepts = Accepts::First, std::string const& signatures = {});
    /// That request.
    [[nodiscard]] std::string const& request() const noexcept { return m_request; }
    /// The same, and lets the other side in.
    void welcome();
    /// One packet with this payload.
    void send(std::string_view payload);
    /// The payload of the next packet.
    [[nodiscard]] std::string receive();
    /// Ends the connection without a word.
    void hangUp();

private:
    struct Direction;
    void exchangeKeys();
    void write(std::string_view bytes);
    [[nodiscard]] std::string read(std::size_t size);

    UniqueFd m_stream;
    std::string m_theirVersion;
    std::string m_request;
    std::unique_ptr<Direction> m_in, m_out;
};

/// Listens on loopback for one connection, welcomes or greets it and lets the test play the server, on a
/// thread of its own; what is thrown there ends the play, and so does the end of this object.
class HostileServer {
public:
    using Play = std::function<void(Peer&)>;
    enum class Begins : std::uint8_t { AfterLogin, WithLogin, WithLoginAhead };
    /// WithLoginAhead: the service is accepted only after the first request. `signatures`: as Peer::greet.
    explicit HostileServer(Play play, Begins begins = Begins::AfterLogin, std::string signatures = {});
    ~HostileServer();
    HostileServer(HostileServer const&) = delete;
    HostileServer& operator=(HostileServer const&) = delete;

    [[nodiscard]] ssh::Route route() const;
    /// Its key is known.
    [[nodiscard]] ssh::LoginContext context() const;

private:
    TempDir m_dir;
    std::uint16_t m_port = 0;
    UniqueFd m_listener;
    UniqueFd m_stream;  ///< a duplicate, to end what waits on it
    std::mutex m_mutex; ///< guards m_stream
    std::jthread m_thread;
};

} // namespace termalin::test
