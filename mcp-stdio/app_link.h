#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "mcp-stdio/tool.h"

namespace termalin::ssh {
class Signer;
struct SignerWish;
} // namespace termalin::ssh

namespace termalin::mcp {

/// One thing that this program does for an agent, as the running app shows it to the person.
struct Activity {
    enum class Kind : std::uint8_t { Session, Tunnel, Call };
    Kind kind{};
    std::string id;     ///< Unique within its kind and this process.
    std::string tool;   ///< The tool that began it.
    std::string host;   ///< Name; empty where there is none.
    std::string hostId; ///< The same.
    /// The command or path, or a tunnel's listenAddr and target; the app sees at most 8 KiB.
    std::string detail;
    std::string since; ///< ISO 8601 UTC.
};

/// The running app, as termalin-mcp sees it: an MCP client of the control socket (docs/control-socket.md). It
/// connects when it is first needed or when an app appears, and again after the app has gone. Thread safe.
class AppLink {
public:
    /// What an activity's detail passes through before the app is told of it: Audit::masked().
    using Masked = std::function<std::string(std::string_view detail)>;
    /// `socket`: Paths::controlSocket. What `masked` reaches must outlive this. Does not connect yet.
    static std::unique_ptr<AppLink> make(std::filesystem::path socket, ClientInfo self, Masked masked);
    virtual ~AppLink() = default; ///< Disconnects; calls in flight end with AppNotRunning.

    /// Has the app run a row of appTools() and returns its CallToolResult as it came. Progress is passed on
    /// to `call.progress`; a stop of `call` cancels the call in the app too. Errors: AppNotRunning (nothing
    /// listens, or the app went away meanwhile), PermissionDenied (the socket is not the person's own),
    /// Cancelled, Internal (no answer that can be understood).
    virtual Result<Json> call(Tool const& tool, Args const& args, Call const& call) = 0;

    /// Whether the app says that a connection grants writes. False while there is no app. Returns at once.
    [[nodiscard]] virtual bool grantsDataWrites() const = 0;
    /// Runs, on the link's own thread, whenever grantsDataWrites() has changed. Set once, before use.
    virtual void onGrantsChanged(std::function<void()> callback) = 0;

    /// Begins or replaces an entry of what the app shows, without the secrets in it; ended() removes it. Both
    /// return at once, work without an app too, and what still goes on is told to an app that starts later.
    virtual void began(Activity const& activity) = 0;
    virtual void ended(Activity::Kind kind, std::string_view id) = 0;

    /// The keys that the app offers for a login, each of which signs in the app, as long as the login's
    /// deadline and stop let it. Empty without an app or with none for this host. Errors: AppLocked, Timeout,
    /// Cancelled; what the app says of the host that the login leads to.
    virtual Result<std::vector<std::shared_ptr<ssh::Signer>>> signers(ssh::SignerWish const& wish) = 0;

    /// Whether an app is connected at this moment.
    [[nodiscard]] virtual bool connected() const = 0;
};

} // namespace termalin::mcp
