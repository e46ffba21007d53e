#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"

namespace termalin::cli {

/// Where to log in, as a person writes it: USER@ADDRESS[:PORT], an IPv6 address in brackets.
struct Login {
    std::string user;
    std::string address; ///< Without brackets.
    std::uint16_t port = 22;
};

/// The last @ parts user and address, so that a user such as "ann@corp" can be written. Characters that a
/// ProxyCommand's shell would act on are refused in both, as ssh refuses them.
/// Errors: InvalidArgument says which part is wrong and how it is written.
Result<Login> parseLogin(std::string_view text);

/// Whether a connection to `address` (a name or a number) ends at this computer: loopback, the unspecified
/// address, or an address of one of its interfaces. Looks the name up, for 10 s at most;
/// one that is not found is not ours, and one that was not answered in time counts as ours.
[[nodiscard]] bool isThisComputer(std::string const& address);

} // namespace termalin::cli
