#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mcp-stdio/control_socket.h"

namespace termalin::mcp {

/// What the control socket offers one termalin-mcp beside MCP: signing and the report. The app's side.
class AppRequests {
public:
    AppRequests(Services& services, AppDesk& desk, std::uint64_t client);
    ~AppRequests(); ///< The client has left.
    AppRequests(AppRequests const&) = delete;
    AppRequests& operator=(AppRequests const&) = delete;

    [[nodiscard]] static std::vector<std::string> methods();

    /// termalin/keys and termalin/sign. Everything is judged afresh: agents.stopped, then the policy of the
    /// host that the login leads to, and that the host which is logged in to is on the way there.
    Result<Json> request(std::string const& method, Json const& params, Call const& call);
    /// notifications/termalin/began and .../ended; what is not as it must be is ignored.
    void notified(std::string const& method, Json const& params);

private:
    Services& m_services;
    AppDesk& m_desk;
    std::uint64_t m_client;
};

// The names and forms on the wire, for both ends.
inline constexpr std::string_view kKeysMethod = "termalin/keys";
inline constexpr std::string_view kSignMethod = "termalin/sign";
inline constexpr std::string_view kBeganMethod = "notifications/termalin/began";
inline constexpr std::string_view kEndedMethod = "notifications/termalin/ended";

[[nodiscard]] std::string_view toString(Activity::Kind kind) noexcept; ///< "session", "tunnel", "call"
[[nodiscard]] std::optional<Activity::Kind> parseActivityKind(std::string_view text) noexcept;
[[nodiscard]] Json toJson(Activity const& activity);

} // namespace termalin::mcp
