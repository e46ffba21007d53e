#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace termalin {

/// Why an operation failed, as a caller may act on it. The list is the one that agents see; the spelling is
/// fixed and given by toString().
enum class Errc : std::uint8_t {
    InvalidArgument, ///< The request itself is wrong; unchanged it can never succeed.
    UnknownHost,
    UnknownSession,
    UnknownTunnel,
    UnknownTab,
    UnknownConnection,
    BlockedByPolicy, ///< The host or connection is closed to agents.
    NotInAllowlist,  ///< No rule of the host admits the command or path.
    NeedsFullAccess, ///< Only hosts with full access admit this.
    ConsentRequired, ///< A person has not allowed it, or has said no.
    AppNotRunning,
    AppLocked,
    VaultLocked,
    AuthFailed, ///< The server took none of the credentials we may offer.
    HostKeyUnknown,
    HostKeyChanged,
    HostKeyRevoked,
    Unreachable, ///< Name lookup, routing, refused, reset; or the line was cut.
    Timeout,
    Cancelled, ///< By a person's stop, a policy change or shutdown.
    TooLarge,
    TooMany,
    NotFound,
    PermissionDenied,
    NoSpace,
    PortInUse,
    ReadOnly,
    NotConnected,
    TabBusy,
    QueryFailed,
    Unsupported,
    Internal, ///< A defect of ours.
};

/// The stable spelling used in replies, the audit and logs, such as "host_key_changed".
[[nodiscard]] std::string_view toString(Errc code) noexcept;

/// A failure that a person or a model can act on.
struct Error {
    Errc code{};
    std::string message;         ///< What was tried, what happened, what to do. Sentences; never a secret.
    std::string source = {};     ///< Where it was seen: "libssh2 -18", "errno 111"; may be empty.
    bool nothingWasSent = false; ///< A Timeout before any of the work reached the server: safe to repeat.
};

/// Whether the same call may succeed if it is simply made again.
[[nodiscard]] bool isRetryable(Error const& error) noexcept;

/// The short way to return an Error from a function that returns a Result.
[[nodiscard]] inline std::unexpected<Error> fail(Errc code, std::string message, std::string source = {})
{
    return std::unexpected(Error{code, std::move(message), std::move(source)});
}

/// An Error out of a system call's number: the number's text is appended to `attempted`.
[[nodiscard]] Error systemError(Errc code, std::string_view attempted, int number);

} // namespace termalin
