#pragma once

#include <stop_token>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "core/deadline.h"
#include "core/result.h"
#include "ssh/target.h"

namespace termalin::ssh {

struct Address {
    int family = 0; ///< AF_INET or AF_INET6
    sockaddr_storage bytes{};
    socklen_t size = 0;

    [[nodiscard]] std::string text() const; ///< Without the port.
};

/// Whether `text` is an IPv6 address in numbers, with or without a zone ("fe80::1%eth0"), without brackets.
[[nodiscard]] bool isIpv6Address(std::string const& text);

/// The addresses that a name has, with `port` in each, in the resolver's order; an address gives itself. The
/// deadline and the stop hold over the resolver too. Errors: Unreachable, Timeout, Cancelled.
Result<std::vector<Address>> lookUp(std::string const& hostname, std::uint16_t port, AddressFamily family,
                                    Deadline deadline, std::stop_token const& stop);

} // namespace termalin::ssh
