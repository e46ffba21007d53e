#pragma once

#include <initializer_list>
#include <libssh2.h>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.h"
#include "core/result.h"
#include "ssh/session.h"
#include "ssh/target.h"

namespace termalin::ssh::detail {

/// Message numbers of RFC 4252 and 4256. 60 means what the method under way makes of it.
inline constexpr std::uint8_t kAuthRequest = 50;
inline constexpr std::uint8_t kAuthFailure = 51;
inline constexpr std::uint8_t kAuthSuccess = 52;
inline constexpr std::uint8_t kAuthMethodSpecific = 60;
inline constexpr std::uint8_t kAuthInfoResponse = 61;

/// The packets of one session's authentication.
class AuthWire {
public:
    AuthWire(Session& session, Target const& target, Deadline deadline, std::stop_token stop);
    ~AuthWire();
    AuthWire(AuthWire const&) = delete;
    AuthWire& operator=(AuthWire const&) = delete;

    /// Asks what the server takes ("none", RFC 4252 5.2). False: nothing is needed, we are in.
    Result<bool> begin();

    /// A request's first fields, for `method`.
    [[nodiscard]] std::string request(std::string_view method) const;
    /// Sends and takes the answer: a failure, a success, or a packet of the method.
    Result<std::string> exchange(std::string_view packet);

    /// What a failure says can go on; keeps it for methods(). True: this step succeeded and others must
    /// follow.
    bool noteFailure(std::string_view packet);
    [[nodiscard]] std::vector<std::string> const& methods() const noexcept { return m_methods; }
    [[nodiscard]] bool takes(std::string_view method) const;
    /// Whether it is known what the server takes.
    [[nodiscard]] bool asked() const noexcept { return !m_methods.empty(); }

    [[nodiscard]] std::string sessionId() const;
    /// Waits until the server has taken up the authentication, and so has said what it has to say before.
    /// Nothing else needs that: requests may be sent ahead of its answer. Errors: as exchange.
    Result<void> hearServer();
    /// Empty list: the server did not say (RFC 8308), or has not yet; see hearServer().
    [[nodiscard]] std::vector<std::string> serverSignatures() const;

    /// The server's last words before it hung up; empty if there were none.
    [[nodiscard]] std::string const& goodbye() const noexcept { return m_goodbye; }
    [[nodiscard]] Deadline deadline() const noexcept { return m_deadline; }
    [[nodiscard]] std::stop_token const& stop() const noexcept { return m_stop; }

private:
    static void disconnected(LIBSSH2_SESSION*, int, char const* message, int size, char const*, int, void**);

    Session& m_session;
    Target const& m_target;
    Deadline m_deadline;
    std::stop_token m_stop;
    std::string m_attempted;
    std::vector<std::string> m_methods;
    std::string m_goodbye;
    bool m_heard = false;
};

} // namespace termalin::ssh::detail
