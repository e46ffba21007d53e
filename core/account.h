#pragma once

#include <string>

namespace termalin {

/// The name of the account that this process runs as, from the password database: the user name of a host
/// that has none of its own, as in ssh. Empty when the database does not know it.
[[nodiscard]] std::string ownAccount();

} // namespace termalin
