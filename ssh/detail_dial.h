#pragma once

#include <stop_token>
#include <string>

#include "core/deadline.h"
#include "core/result.h"
#include "core/unique_fd.h"
#include "ssh/target.h"

namespace termalin::ssh {

/// A TCP connection to the target, IPv6 and IPv4 side by side (RFC 8305): addresses of the two families in
/// turn, IPv6 first, the next one 250 ms after the last or as soon as that failed. The name lookup runs on a
/// thread of its own, so that the deadline holds over it too. Errors: Unreachable (names each address and
/// what became of it), Timeout, Cancelled.
Result<UniqueFd> dial(Target const& target, Deadline deadline, std::stop_token const& stop);

/// How messages call the server: "NAME (HOST port PORT)".
[[nodiscard]] std::string peerName(Target const& target);

} // namespace termalin::ssh
