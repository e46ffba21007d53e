#include "core/error.h"

#include <system_error>

namespace termalin {

std::string_view toString(Errc code) noexcept
{
    switch (code) {
    case Errc::InvalidArgument: return "invalid_argument";
    case Errc::UnknownHost: return "unknown_host";
    case Errc::UnknownSession: return "unknown_session";
    case Errc::UnknownTunnel: return "unknown_tunnel";
    case Errc::UnknownTab: return "unknown_tab";
    case Errc::UnknownConnection: return "unknown_connection";
    case Errc::BlockedByPolicy: return "blocked_by_policy";
    case Errc::NotInAllowlist: return "not_in_allowlist";
    case Errc::NeedsFullAccess: return "needs_full_access";
    case Errc::ConsentRequired: return "consent_required";
    case Errc::AppNotRunning: return "app_not_running";
    case Errc::AppLocked: return "app_locked";
    case Errc::VaultLocked: return "vault_locked";
    case Errc::AuthFailed: return "auth_failed";
    case Errc::HostKeyUnknown: return "host_key_unknown";
    case Errc::HostKeyChanged: return "host_key_changed";
    case Errc::HostKeyRevoked: return "host_key_revoked";
    case Errc::Unreachable: return "unreachable";
    case Errc::Timeout: return "timeout";
    case Errc::Cancelled: return "cancelled";
    case Errc::TooLarge: return "too_large";
    case Errc::TooMany: return "too_many";
    case Errc::NotFound: return "not_found";
    case Errc::PermissionDenied: return "permission_denied";
    case Errc::NoSpace: return "no_space";
    case Errc::PortInUse: return "port_in_use";
    case Errc::ReadOnly: return "read_only";
    case Errc::NotConnected: return "not_connected";
    case Errc::TabBusy: return "tab_busy";
    case Errc::QueryFailed: return "query_failed";
    case Errc::Unsupported: return "unsupported";
    case Errc::Internal: return "internal";
    }
    return "internal";
}

bool isRetryable(Error const& error) noexcept
{
    switch (error.code) {
    case Errc::Unreachable:
    case Errc::TooMany:
    case Errc::TabBusy:
    case Errc::PortInUse: return true;
    case Errc::Timeout: return error.nothingWasSent;
    default: return false;
    }
}

Error systemError(Errc code, std::string_view attempted, int number)
{
    return Error{code, std::string(attempted) + ": " + std::generic_category().message(number),
                 "errno " + std::to_string(number)};
}

} // namespace termalin
