#pragma once

#include <memory>

#include "ssh/detail_connection.h"

namespace termalin::ssh {

/// Connection::open for the folder's own use.
Result<std::shared_ptr<ConnectionImpl>> openRoute(Route const& route, LoginContext const& context,
                                                  Deadline deadline, std::stop_token const& stop);

} // namespace termalin::ssh
