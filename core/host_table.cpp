#include "core/host_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <sys/random.h>
#include <unordered_map>

#include "core/host_checks.h"
#include "core/sqlite.h"

namespace termalin {
namespace {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;
using Kind = sqlite::Transaction::Kind;

constexpr std::string_view kColumns =
    "id, name, hostname, port, username, auth_type, policy, tags, notes, key_files, certificate_files, "
    "identities_only, agent_socket, known_hosts_file, host_key_alias, proxy_command, rules, reads, revision, "
    "route_revision, address_family, connect_timeout, server_alive_interval, server_alive_count_max";
constexpr std::string_view kPlaces = "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, "
                                     "?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24";

/// Lists are kept as lines: an entry has no control character and is not empty (host_checks.cpp).
std::string joined(std::vector<std::string> const& list)
{
    return fmt::format("{}", fmt::join(list, "\n"));
}

/// Appends the lines' texts to a list of strings or of views.
template <class List>
void splitInto(List& list, std::string_view lines)
{
    while (!lines.empty()) {
        auto const end = std::min(lines.find('\n'), lines.size());
        list.emplace_back(lines.substr(0, end));
        lines.remove_prefix(std::min(end + 1, lines.size()));
    }
}

std::vector<std::string> split(std::string_view lines)
{
    std::vector<std::string> list;
    splitInto(list, lines);
    return list;
}

std::optional<int> setOrNot(std::int64_t number)
{
    return number < 0 || number > std::numeric_limits<int>::max() ? std::nullopt
                                                                  : std::optional(static_cast<int>(number));
}

Host hostOf(Statement const& row)
{
    Host host;
    host.id = row.text(0);
    host.name = row.text(1);
    host.hostname = row.text(2);
    host.port = static_cast<std::uint16_t>(row.number(3));
    host.username = row.text(4);
    // What this program does not know is read as the strictest.
    host.authType = parseAuthType(row.text(5)).value_or(AuthType::Agent);
    host.policy = parseAgentPolicy(row.text(6)).value_or(AgentPolicy::Blocked);
    host.tags = split(row.text(7));
    host.notes = row.text(8);
    host.keyFiles = split(row.text(9));
    host.certificateFiles = split(row.text(10));
    host.identitiesOnly = row.number(11) != 0;
    host.agentSocket = row.text(12);
    host.knownHostsFiles = split(row.text(13));
    host.hostKeyAlias = row.text(14);
    host.proxyCommand = row.text(15);
    host.rules = split(row.text(16));
    host.reads = split(row.text(17));
    host.revision = row.number(18);
    host.routeRevision = row.number(19);
    host.addressFamily = parseAddressFamily(row.text(20)).value_or(AddressFamily::Any);
    host.connectTimeout = setOrNot(row.number(21));
    host.serverAliveInterval = setOrNot(row.number(22));
    host.serverAliveCountMax = setOrNot(row.number(23));
    return host;
}

void bindFields(Statement& statement, Host const& host)
{
    statement.bind(host.id)
        .bind(host.name)
        .bind(host.hostname)
        .bind(std::int64_t{host.port})
        .bind(host.username)
        .bind(toString(host.authType))
        .bind(toString(host.policy))
        .bind(joined(host.tags))
        .bind(host.notes)
        .bind(joined(host.keyFiles))
        .bind(joined(host.certificateFiles))
        .bind(std::int64_t{host.identitiesOnly})
        .bind(host.agentSocket)
        .bind(joined(host.knownHostsFiles))
        .bind(host.hostKeyAlias)
        .bind(host.proxyCommand)
        .bind(joined(host.rules))
        .bind(joined(host.reads))
        .bind(host.revision)
        .bind(host.routeRevision)
        .bind(toString(host.addressFamily))
        .bind(std::int64_t{host.connectTimeout.value_or(-1)})
        .bind(std::int64_t{host.serverAliveInterval.value_or(-1)})
        .bind(std::int64_t{host.serverAliveCountMax.value_or(-1)});
}

Result<std::string> newHostId()
{
    std::array<unsigned char, 12> random{};
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        return std::unexpected(systemError(Errc::Internal, "Asking the system for random bytes", errno));
    return fmt::format("h{:02x}", fmt::join(random, ""));
}

std::unexpected<Error> unknownHost(std::string_view idOrName)
{
    // Names come from agents: no more of one is repeated than a real one can have.
    return fail(
        Errc::UnknownHost,
        fmt::format(
            "There is no host '{}'. hosts_list and 'termalin-mcp host list' show the hosts there are.",
            idOrName.substr(0, 255)));
}

/// The ids of every host whose way leads through `id`, itself left out.
Result<std::set<std::string>> dependents(Database& database, std::string const& id)
{
    TRY_LET(auto statement,
            database.prepare("WITH RECURSIVE reached(id) AS (SELECT host FROM jumps WHERE via = ?1 "
                             "UNION SELECT jumps.host FROM jumps JOIN reached ON jumps.via = "
                             "reached.id) SELECT id FROM reached WHERE id <> ?1"));
    statement.bind(id);
    std::set<std::string> found;
    for (;;) {
        TRY_LET(bool const row, statement.step());
        if (!row)
            return found;
        found.emplace(statement.text(0));
    }
}

Result<std::vector<std::string>> jumpNames(Database& database, std::string const& id)
{
    TRY_LET(auto statement,
            database.prepare("SELECT hosts.name FROM jumps JOIN hosts ON hosts.id = jumps.via "
                             "WHERE jumps.host = ? ORDER BY jumps.position"));
    statement.bind(id);
    std::vector<std::string> names;
    for (;;) {
        TRY_LET(bool const row, statement.step());
        if (!row)
            return names;
        names.emplace_back(statement.text(0));
    }
}

Result<std::optional<Host>> hostBy(Database& database, std::string_view column, std::string_view value)
{
    TRY_LET(auto statement,
            database.prepare(fmt::format("SELECT {} FROM hosts WHERE {} = ?", kColumns, column)));
    statement.bind(value);
    TRY_LET(bool const row, statement.step());
    if (!row)
        return std::nullopt;
    auto host = hostOf(statement);
    TRY_LET(host.jump, jumpNames(database, host.id));
    return host;
}

Result<Host> find(Database& database, std::string_view idOrName)
{
    TRY_LET(auto byId, hostBy(database, "id", idOrName));
    if (byId)
        return *std::move(byId);
    TRY_LET(auto byName, hostBy(database, "name", idOrName));
    if (byName)
        return *std::move(byName);
    return unknownHost(idOrName);
}

Result<void> checkNameIsFree(Database& database, Host const& host)
{
    TRY_LET(auto statement, database.prepare("SELECT 1 FROM hosts WHERE name = ? AND id <> ?"));
    statement.bind(host.name).bind(host.id);
    TRY_LET(bool const taken, statement.step());
    if (taken)
        return fail(Errc::InvalidArgument,
                    fmt::format("name: another host is called '{}' already; choose another name", host.name));
    return {};
}

/// The ids of the hosts that `host` jumps through. Jumps may be given by id too.
Result<std::vector<std::string>> jumpIds(Database& database, Host const& host)
{
    std::vector<std::string> ids;
    auto const wrong = [](std::string const& jump, std::string_view why) {
        return fail(Errc::InvalidArgument, fmt::format("jump: '{}' {}", jump, why));
    };
    for (auto const& jump : host.jump) {
        auto const via = find(database, jump);
        if (!via && via.error().code == Errc::UnknownHost)
            return wrong(jump, "is no saved host; add it first");
        TRY(via);
        if (via->id == kLocalHostId)
            return wrong(jump, "is this computer itself; a connection starts here anyway");
        if (via->id == host.id)
            return wrong(jump, "is the host itself");
        if (std::ranges::find(ids, via->id) != ids.end())
            return wrong(jump, "is there twice");
        ids.push_back(via->id);
    }
    if (!host.id.empty()) {
        TRY_LET(auto const behind, dependents(database, host.id));
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (behind.contains(ids[i]))
                return wrong(host.jump[i], "itself jumps through this host; the way would go in a circle");
    }
    return ids;
}

Result<void> writeJumps(Database& database, std::string const& id, std::vector<std::string> const& via)
{
    TRY_LET(auto removal, database.prepare("DELETE FROM jumps WHERE host = ?"));
    removal.bind(id);
    TRY(removal.run());
    TRY_LET(auto insertion, database.prepare("INSERT INTO jumps (host, position, via) VALUES (?, ?, ?)"));
    for (std::size_t i = 0; i < via.size(); ++i) {
        insertion.bind(id).bind(static_cast<std::int64_t>(i)).bind(via[i]);
        TRY(insertion.run());
        insertion.reset();
    }
    return {};
}

bool same(Host const& a, Host const& b)
{
    return sameRoute(a, b) && a.name == b.name && a.authType == b.authType && a.policy == b.policy &&
           a.tags == b.tags && a.notes == b.notes && a.keyFiles == b.keyFiles &&
           a.certificateFiles == b.certificateFiles && a.identitiesOnly == b.identitiesOnly &&
           a.agentSocket == b.agentSocket && a.knownHostsFiles == b.knownHostsFiles &&
           a.hostKeyAlias == b.hostKeyAlias && a.rules == b.rules && a.reads == b.reads &&
           a.connectTimeout == b.connectTimeout && a.serverAliveInterval == b.serverAliveInterval &&
           a.serverAliveCountMax == b.serverAliveCountMax;
}

/// Of this computer's own host only what agents may do there can be changed.
Result<void> checkLocal(Host const& before, Host const& after)
{
    auto allowed = before;
    allowed.policy = after.policy;
    allowed.rules = after.rules;
    allowed.reads = after.reads;
    allowed.notes = after.notes;
    allowed.tags = after.tags;
    if (same(allowed, after))
        return {};
    return fail(Errc::InvalidArgument,
                "Of this computer's own host only policy, rules, reads, tags and notes can be "
                "changed.");
}

Result<void> bumpDependents(Database& database, std::string const& id, bool route)
{
    TRY_LET(auto const behind, dependents(database, id));
    TRY_LET(auto statement, database.prepare("UPDATE hosts SET revision = revision + 1, route_revision = "
                                             "route_revision + ? WHERE id = ?"));
    for (auto const& dependent : behind) {
        statement.bind(std::int64_t{route}).bind(dependent);
        TRY(statement.run());
        statement.reset();
    }
    return {};
}

/// Reading the table in its own order and sorting here takes half the time of going through the index of
/// names.
std::vector<Host> sortedByName(std::deque<Host> hosts)
{
    std::vector<Host*> order;
    order.reserve(hosts.size());
    for (auto& host : hosts)
        order.push_back(&host);
    std::ranges::sort(order, {}, [](Host const* host) -> std::string const& { return host->name; });
    std::vector<Host> sorted;
    sorted.reserve(hosts.size());
    for (auto* const host : order)
        sorted.push_back(std::move(*host));
    return sorted;
}

} // namespace

Result<std::vector<Host>> readHosts(Database& database)
{
    TRY_LET(auto transaction, Transaction::begin(database, Kind::Read)); // both selects see one state
    TRY_LET(auto rows, database.prepare(fmt::format("SELECT {} FROM hosts", kColumns)));
    std::deque<Host> hosts; // does not move what it has when it grows
    for (;;) {
        TRY_LET(bool const row, rows.step());
        if (!row)
            break;
        hosts.push_back(hostOf(rows));
    }
    TRY_LET(auto jumps,
            database.prepare("SELECT jumps.host, hosts.name FROM jumps JOIN hosts ON hosts.id = jumps.via "
                             "ORDER BY jumps.host, jumps.position"));
    std::unordered_map<std::string_view, Host*> byId;
    for (;;) {
        TRY_LET(bool const row, jumps.step());
        if (!row)
            break;
        if (byId.empty())
            for (auto& host : hosts)
                byId.emplace(host.id, &host);
        if (auto const found = byId.find(jumps.text(0)); found != byId.end())
            found->second->jump.emplace_back(jumps.text(1));
    }
    TRY(transaction.commit());
    return sortedByName(std::move(hosts));
}

Result<void> readOpenHosts(Database& database, std::function<void(HostView const&)> const& look)
{
    TRY_LET(auto rows, database.prepare("SELECT id, name, hostname, port, username, auth_type, policy, tags, "
                                        "notes FROM hosts WHERE policy <> 'blocked'"));
    std::vector<std::string_view> tags;
    for (;;) {
        TRY_LET(bool const row, rows.step());
        if (!row)
            return {};
        // What this program does not know is read as the strictest.
        auto const policy = parseAgentPolicy(rows.text(6)).value_or(AgentPolicy::Blocked);
        if (policy == AgentPolicy::Blocked || rows.text(0) == kLocalHostId)
            continue;
        tags.clear();
        splitInto(tags, rows.text(7));
        look({.id = rows.text(0),
              .name = rows.text(1),
              .hostname = rows.text(2),
              .port = static_cast<std::uint16_t>(rows.number(3)),
              .username = rows.text(4),
              .authType = parseAuthType(rows.text(5)).value_or(AuthType::Agent),
              .policy = policy,
              .tags = tags,
              .notes = rows.text(8)});
    }
}

Result<Host> readHost(Database& database, std::string_view idOrName)
{
    TRY_LET(auto transaction, Transaction::begin(database, Kind::Read));
    auto host = find(database, idOrName);
    TRY(transaction.commit());
    return host;
}

Result<Host> insertHost(Database& database, Host const& wanted)
{
    TRY(checkHost(wanted));
    TRY_LET(auto transaction, Transaction::begin(database, Kind::Write));
    auto host = wanted;
    host.id.clear();
    host.revision = 1;
    host.routeRevision = 1;
    TRY(checkNameIsFree(database, host));
    TRY_LET(auto const via, jumpIds(database, host));
    TRY_LET(host.id, newHostId());
    TRY_LET(auto insertion,
            database.prepare(fmt::format("INSERT INTO hosts ({}) VALUES ({})", kColumns, kPlaces)));
    bindFields(insertion, host);
    TRY(insertion.run());
    TRY(writeJumps(database, host.id, via));
    TRY_LET(host.jump, jumpNames(database, host.id));
    TRY(transaction.commit());
    return host;
}

Result<Host> changeHost(Database& database, Host const& wanted)
{
    auto const local = wanted.id == kLocalHostId;
    TRY(local ? checkForAgents(wanted) : checkHost(wanted));
    TRY_LET(auto transaction, Transaction::begin(database, Kind::Write));
    TRY_LET(auto const before, hostBy(database, "id", wanted.id));
    if (!before)
        return unknownHost(wanted.id);
    if (before->revision != wanted.revision)
        return fail(
            Errc::InvalidArgument,
            fmt::format("Host '{}' was changed by somebody else meanwhile, and that change was kept. Look at "
                        "it and make yours again.",
                        before->name));
    if (local)
        TRY(checkLocal(*before, wanted));
    TRY(checkNameIsFree(database, wanted));
    TRY_LET(auto const via, jumpIds(database, wanted));
    TRY(writeJumps(database, wanted.id, via));
    auto host = wanted;
    TRY_LET(host.jump, jumpNames(database, host.id));
    if (same(*before, host)) // nothing to confirm: the transaction goes as it came
        return *before;
    auto const route = !sameRoute(*before, host);
    host.revision = before->revision + 1;
    host.routeRevision = before->routeRevision + (route ? 1 : 0);
    TRY_LET(auto update,
            database.prepare(fmt::format("UPDATE hosts SET ({}) = ({}) WHERE id = ?1", kColumns, kPlaces)));
    bindFields(update, host);
    TRY(update.run());
    TRY(bumpDependents(database, host.id, route));
    TRY(transaction.commit());
    return host;
}

Result<void> deleteHost(Database& database, std::string_view id)
{
    if (id == kLocalHostId)
        return fail(Errc::InvalidArgument,
                    "This computer's own host cannot be removed. Set its policy to blocked.");
    TRY_LET(auto transaction, Transaction::begin(database, Kind::Write));
    TRY_LET(auto const host, hostBy(database, "id", id));
    if (!host)
        return unknownHost(id);
    TRY_LET(auto users, database.prepare("SELECT hosts.name FROM jumps JOIN hosts ON hosts.id = jumps.host "
                                         "WHERE jumps.via = ? ORDER BY hosts.name"));
    users.bind(id);
    TRY_LET(bool const used, users.step());
    if (used)
        return fail(
            Errc::InvalidArgument,
            fmt::format("Host '{}' cannot be removed: '{}' jumps through it. Change that host's jumps first.",
                        host->name, users.text(0)));
    for (auto const* const sql : {"DELETE FROM blobs WHERE owner = ?", "DELETE FROM jumps WHERE host = ?",
                                  "DELETE FROM hosts WHERE id = ?"}) {
        TRY_LET(auto removal, database.prepare(sql));
        removal.bind(id);
        TRY(removal.run());
    }
    return transaction.commit();
}

} // namespace termalin
