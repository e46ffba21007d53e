#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/hosts.h"

namespace termalin::sqlite {
class Database;
}

namespace termalin {

/// The hosts in the store's database, each call a transaction of its own; see the calls of Store.
Result<std::vector<Host>> readHosts(sqlite::Database& database);
Result<void> readOpenHosts(sqlite::Database& database, std::function<void(HostView const&)> const& look);
Result<Host> readHost(sqlite::Database& database, std::string_view idOrName);
Result<Host> insertHost(sqlite::Database& database, Host const& wanted);
Result<Host> changeHost(sqlite::Database& database, Host const& wanted);
Result<void> deleteHost(sqlite::Database& database, std::string_view id);

} // namespace termalin
