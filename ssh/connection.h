#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/command_policy.h"
#include "core/deadline.h"
#include "core/hosts.h"
#include "core/output_buffer.h"
#include "core/result.h"
#include "ssh/credentials.h"
#include "ssh/known_hosts.h"
#include "ssh/target.h"

namespace termalin::ssh {

enum class Completion : std::uint8_t {
    Exit,         ///< The server said that it ended, or closed the channel.
    Timeout,      ///< The deadline passed; the stop ladder ran.
    Cancelled,    ///< `stop` was requested; the stop ladder ran.
    Disconnected, ///< The line was cut after the command was handed over: it may or may not have finished.
};
[[nodiscard]] std::string_view toString(Completion completion) noexcept; ///< "exit", "timeout", ...

enum class Stopped : std::uint8_t {
    NotTried,
    Confirmed,   ///< Its own process was seen alive, and now neither it nor anything found to be its is left.
    Unconfirmed, ///< The note says why.
};

struct ExecRequest {
    std::string command;
    std::size_t outputCap = 64U * 1024U;
    /// Gets the output as it comes, on the connection's thread; must return at once. May be empty.
    std::function<void(std::string_view)> onOutput;
};

struct ExecOutcome {
    OutputBuffer::Text output; ///< stdout and stderr, merged as they came
    std::optional<int> exitCode;
    std::string signal; ///< "KILL"; empty if none
    Completion completion = Completion::Exit;
    Stopped stopped = Stopped::NotTried;
    std::string note; ///< One or more sentences; empty if there is nothing to say.
    std::chrono::milliseconds duration{0};
};

/// What a connection is made with beside its route.
struct LoginContext {
    std::filesystem::path ownKnownHosts; ///< Ours; the person's files are in each Target.
    std::shared_ptr<Credentials> credentials;
    /// Learns what was used, so that the next login tries it first; and is asked for that. By Target::name.
    /// May be empty.
    std::function<void(std::string const& target, std::string const& what)> onLoggedIn;
    std::function<std::string(std::string const& target)> lastLogin;
    /// Gets an audit line for the helper that stops a command. May be empty.
    std::function<void(std::string const& target, std::string const& what)> onHelper;
};

/// One logged-in SSH connection and the only thread that touches it. All public members may be called from
/// any thread, several at once; each call has a channel of its own, at most 8 at a time, the rest wait their
/// turn within their deadline.
class Connection {
public:
    /// Connects hop by hop, checks each server's key under its own name before any credential leaves, and
    /// logs in. `deadline` covers everything from the name lookup on. Errors: Unreachable, Timeout (nothing
    /// was sent), Cancelled, HostKeyUnknown, HostKeyChanged, HostKeyRevoked, Unsupported, AuthFailed,
    /// VaultLocked, and what the credentials answer.
    static Result<std::shared_ptr<Connection>> open(Route const& route, LoginContext const& context,
                                                    Deadline deadline, std::stop_token const& stop);
    virtual ~Connection() = default; ///< Closes, in bounded time (0.5 s), without waiting for commands.

    /// Runs one command without a terminal and with an empty, closed input. A result (not an error) from the
    /// moment it was handed over; nothing is ever run twice. When `deadline` passes or `stop` is requested
    /// the stop ladder (a helper, then signals) runs: most often 1 s, 11 s at most. Errors (nothing
    /// ran): Timeout, Cancelled, Unreachable, TooMany.
    virtual Result<ExecOutcome> exec(ExecRequest request, Deadline deadline, std::stop_token const& stop) = 0;

    /// Whether single-quoted words reach a program as they are, found once by asking the server to print
    /// some.
    virtual Result<LoginShell> loginShell(Deadline deadline, std::stop_token const& stop) = 0;

    /// From now on a session channel is opened beforehand whenever nothing runs, so that the next command
    /// needs one round trip less. Nothing runs on it.
    virtual void keepChannelReady() = 0;

    /// False once the line is known to be lost, or close() was called.
    [[nodiscard]] virtual bool alive() const = 0;
    /// Why it is not alive; empty while it is.
    [[nodiscard]] virtual std::string whyClosed() const = 0;
    /// Runs once when the connection ends, on its thread, or at once if it has ended.
    virtual void onClosed(std::function<void()> callback) = 0;
    /// Ends all calls with Cancelled / Completion::Disconnected and disconnects.
    virtual void close() = 0;

    /// What the login went through: a person's touch or code, so that it must not be repeated for a spare.
    [[nodiscard]] virtual bool neededPerson() const = 0;
    [[nodiscard]] virtual AuthType authType() const = 0; ///< What succeeded in the end.
    [[nodiscard]] virtual ServerKey const& serverKey() const = 0;
    /// SSH_MSG_USERAUTH_BANNER text and the server's version line, made safe to show; for `host test` and
    /// doctor.
    [[nodiscard]] virtual std::string serverVersion() const = 0;

    struct Traffic {
        std::uint64_t bytesIn = 0, bytesOut = 0;
    };
    [[nodiscard]] virtual Traffic traffic() const = 0;
};

/// The server's key, without logging in: for `host trust`. The earlier hops of `route` are logged in to.
/// `preferredTypes`: offered first. Errors: as Connection::open.
Result<ServerKey> fetchServerKey(Route const& route, LoginContext const& context, Deadline deadline,
                                 std::stop_token const& stop);

} // namespace termalin::ssh
