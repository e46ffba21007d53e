#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ssh/connection.h"

namespace termalin::ssh {

enum class TunnelKind : std::uint8_t {
    Local,   ///< A local port that reaches one address as the server sees it.
    Dynamic, ///< A SOCKS5 proxy (RFC 1928, no authentication, CONNECT only) whose connections leave from the
             ///< server.
};

struct TunnelRequest {
    TunnelKind kind = TunnelKind::Local;
    std::string remoteHost; ///< Local only.
    std::uint16_t remotePort = 0;
    std::uint16_t localPort = 0; ///< 0: a free one.
    /// Asked on the connection's thread before each new connection through the tunnel is made; an error
    /// refuses it. May be empty.
    std::function<Result<void>()> admit;
};

/// A port forward over a connection, listening on 127.0.0.1 only. It ends with close(), its destruction, or
/// the connection. Bytes are passed with back-pressure both ways, and one side's end of input is passed on
/// alone (half-close).
class Tunnel {
public:
    /// Errors: PortInUse, InvalidArgument, NotConnected.
    static Result<std::shared_ptr<Tunnel>> open(std::shared_ptr<Connection> connection,
                                                TunnelRequest request);
    virtual ~Tunnel() = default;

    [[nodiscard]] virtual std::uint16_t localPort() const = 0;
    [[nodiscard]] virtual bool open() const = 0;

    struct Counts {
        std::uint64_t connections = 0;           ///< Made since it was opened.
        std::uint64_t bytesIn = 0, bytesOut = 0; ///< In: from the server.
    };
    [[nodiscard]] virtual Counts counts() const = 0;
    /// What became of the last connection that could not be made, such as the server's refusal; empty if
    /// none.
    [[nodiscard]] virtual std::string lastProblem() const = 0;
    virtual void close() = 0;
};

} // namespace termalin::ssh
