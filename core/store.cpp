#include "core/store.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/guarded.h"
#include "core/host_table.h"
#include "core/paths.h"
#include "core/schema.h"
#include "core/sqlite.h"

namespace termalin {
namespace {

namespace fs = std::filesystem;
using sqlite::Database;
using sqlite::Transaction;

/// The file and its folder are this user's alone. A new file is made by mknod(2), not opened: closing a
/// descriptor of a database file would drop the locks that SQLite holds on it in this process.
Result<void> prepareFile(fs::path const& file)
{
    TRY(makeDataDir(file.has_parent_path() ? file.parent_path() : fs::path(".")));
    struct stat info{};
    if (::lstat(file.c_str(), &info) != 0) {
        if (errno != ENOENT)
            return std::unexpected(
                systemError(Errc::PermissionDenied, fmt::format("Looking at {}", file.string()), errno));
        if (::mknod(file.c_str(), S_IFREG | 0600, 0) != 0 && errno != EEXIST) {
            auto const code = errno == ENOSPC || errno == EDQUOT ? Errc::NoSpace : Errc::PermissionDenied;
            return std::unexpected(systemError(code, fmt::format("Creating {}", file.string()), errno));
        }
        return {};
    }
    auto const refuse = [&file](std::string_view why) {
        return fail(Errc::PermissionDenied, fmt::format("{} {}", file.string(), why));
    };
    if (!S_ISREG(info.st_mode))
        return refuse("is not a regular file. Put the file itself there, not a link to it.");
    if (info.st_uid != ::geteuid())
        return refuse(
            fmt::format("belongs to user {}, not to you. Give it to yourself with chown.", info.st_uid));
    if ((info.st_mode & 0077U) != 0)
        return refuse(fmt::format("is open to other users (mode {:04o}). Run: chmod 600 '{}'",
                                  info.st_mode & 07777U, file.string()));
    return {};
}

class SqliteStore final : public Store {
public:
    SqliteStore(fs::path file, std::unique_ptr<Database> database)
        : m_file(std::move(file)), m_database(std::move(database))
    {
    }

    Result<std::vector<Host>> hosts() override;
    Result<void> lookAtOpenHosts(std::function<void(HostView const&)> const& look) override;
    Result<Host> findHost(std::string_view idOrName) override;
    Result<Host> addHost(Host const& host) override;
    Result<Host> updateHost(Host const& host) override;
    Result<void> removeHost(std::string_view id) override;
    Result<std::int64_t> version() override;
    Result<std::optional<std::string>> value(std::string_view key) override;
    Result<void> setValue(std::string_view key, std::string_view value) override;
    Result<void> setValueAtOnce(std::string_view key, std::string_view value) override;
    Result<void> removeValue(std::string_view key) override;
    Result<std::optional<std::string>> blob(std::string_view owner, std::string_view name) override;
    Result<void> setBlob(std::string_view owner, std::string_view name, std::string_view bytes) override;
    Result<void> removeBlob(std::string_view owner, std::string_view name) override;
    Result<std::vector<std::pair<std::string, std::string>>> blobs() override;
    Result<void> replaceBlobs(std::vector<Blob> const& blobs) override;
    Result<void> addWidening(Widening const& widening) override;
    Result<std::vector<Widening>> widenings() override;
    Result<void> removeWidening(std::int64_t id) override;

private:
    using Guard = Guarded<std::unique_ptr<Database>>;

    Result<Guard::Access> current();
    Result<void> openAgain(std::unique_ptr<Database>& database);
    /// Runs one writing statement with text parameters.
    Result<void> write(std::string_view sql, std::initializer_list<std::string_view> parameters);
    static Result<void> write(Database& database, std::string_view sql,
                              std::initializer_list<std::string_view> parameters);

    fs::path const m_file;
    Guard m_database;          ///< empty while the file cannot be opened again
    std::int64_t m_opened = 0; ///< how often it was opened again; guarded by m_database
};

/// The database to work with. The name may lead to another file than the one that was opened: a backup was
/// put in its place, or it was moved away. The old one could be read on without end, and would say what does
/// not hold any more.
Result<SqliteStore::Guard::Access> SqliteStore::current()
{
    auto access = m_database.access();
    if (!*access || (*access)->moved())
        TRY(openAgain(*access));
    return access;
}

/// Makes nothing: a file that is empty or of an older version may be one that somebody is still copying.
Result<void> SqliteStore::openAgain(std::unique_ptr<Database>& database)
{
    if (database)
        database->leaveLog();
    database.reset(); // before the other is opened: SQLite shares what it knows of one file
    struct stat info{};
    if (::lstat(m_file.c_str(), &info) != 0 && errno == ENOENT)
        return fail(Errc::NotFound,
                    fmt::format("{} is gone, so nothing that was permitted holds any more. Put it back, or "
                                "a backup of it.",
                                m_file.string()));
    TRY(prepareFile(m_file));
    TRY_LET(auto opened, Database::open(m_file));
    TRY_LET(auto const version, opened.numberOf("PRAGMA user_version"));
    if (version != static_cast<std::int64_t>(std::size(kSchemaSteps)))
        return fail(Errc::Unsupported,
                    fmt::format("{} was replaced by a file of another version ({}). Run termalin-mcp host "
                                "list, which brings an older one up to date.",
                                m_file.string(), version));
    ++m_opened;
    database = std::make_unique<Database>(std::move(opened));
    static_cast<void>(database->moved()); // it learns which log belongs to it
    return {};
}

Result<std::vector<Host>> SqliteStore::hosts()
{
    TRY_LET(auto access, current());
    return readHosts(**access);
}

Result<void> SqliteStore::lookAtOpenHosts(std::function<void(HostView const&)> const& look)
{
    TRY_LET(auto access, current());
    return readOpenHosts(**access, look);
}

Result<Host> SqliteStore::findHost(std::string_view idOrName)
{
    TRY_LET(auto access, current());
    return readHost(**access, idOrName);
}

Result<Host> SqliteStore::addHost(Host const& host)
{
    TRY_LET(auto access, current());
    return insertHost(**access, host);
}

Result<Host> SqliteStore::updateHost(Host const& host)
{
    TRY_LET(auto access, current());
    return changeHost(**access, host);
}

Result<void> SqliteStore::removeHost(std::string_view id)
{
    TRY_LET(auto access, current());
    return deleteHost(**access, id);
}

Result<std::int64_t> SqliteStore::version()
{
    TRY_LET(auto access, current());
    auto& database = **access;
    // data_version stands still for this connection's own changes. Neither number ever falls, so their sum
    // rises with either.
    TRY_LET(auto const others, database.numberOf("PRAGMA data_version"));
    // A file that was opened again counts from the beginning.
    constexpr int kRoomForChanges = 40;
    return others + database.totalChanged() + (m_opened << kRoomForChanges);
}

Result<void> SqliteStore::write(std::string_view sql, std::initializer_list<std::string_view> parameters)
{
    TRY_LET(auto access, current());
    return write(**access, sql, parameters);
}

Result<void> SqliteStore::write(Database& database, std::string_view sql,
                                std::initializer_list<std::string_view> parameters)
{
    TRY_LET(auto statement, database.prepare(sql));
    for (auto const parameter : parameters)
        statement.bind(parameter);
    return statement.run();
}

Result<std::optional<std::string>> SqliteStore::value(std::string_view key)
{
    TRY_LET(auto access, current());
    TRY_LET(auto statement, (*access)->prepare("SELECT value FROM \"values\" WHERE key = ?"));
    statement.bind(key);
    TRY_LET(bool const row, statement.step());
    return row ? std::optional<std::string>(statement.text(0)) : std::nullopt;
}

constexpr std::string_view kPutValue = "INSERT INTO \"values\" (key, value) VALUES (?, ?) ON CONFLICT (key) "
                                       "DO UPDATE SET value = excluded.value";

Result<void> SqliteStore::setValue(std::string_view key, std::string_view value)
{
    return write(kPutValue, {key, value});
}

Result<void> SqliteStore::setValueAtOnce(std::string_view key, std::string_view value)
{
    TRY_LET(auto access, current());
    (*access)->setPatience(sqlite::Patience::None);
    auto written = write(**access, kPutValue, {key, value});
    (*access)->setPatience(sqlite::Patience::Usual);
    return written;
}

Result<void> SqliteStore::removeValue(std::string_view key)
{
    return write("DELETE FROM \"values\" WHERE key = ?", {key});
}

Result<std::optional<std::string>> SqliteStore::blob(std::string_view owner, std::string_view name)
{
    TRY_LET(auto access, current());
    TRY_LET(auto statement, (*access)->prepare("SELECT bytes FROM blobs WHERE owner = ? AND name = ?"));
    statement.bind(owner).bind(name);
    TRY_LET(bool const row, statement.step());
    return row ? std::optional<std::string>(statement.text(0)) : std::nullopt;
}

/// Keeps no secret of a host that is gone, however the two calls were timed.
Result<void> putBlob(Database& database, Store::Blob const& blob)
{
    TRY_LET(auto statement,
            database.prepare(
                "INSERT INTO blobs (owner, name, bytes) SELECT ?1, ?2, ?3 WHERE ?1 = 'vault' OR EXISTS "
                "(SELECT 1 FROM hosts WHERE id = ?1) ON CONFLICT (owner, name) DO UPDATE SET bytes = "
                "excluded.bytes"));
    statement.bind(blob.owner).bind(blob.name).bindBytes(blob.bytes);
    TRY(statement.run());
    if (database.changed() == 0)
        return fail(Errc::UnknownHost,
                    fmt::format("The host {} is gone, and its secret was not kept.", blob.owner));
    return {};
}

Result<void> SqliteStore::setBlob(std::string_view owner, std::string_view name, std::string_view bytes)
{
    return replaceBlobs({Blob{std::string(owner), std::string(name), std::string(bytes)}});
}

Result<void> SqliteStore::removeBlob(std::string_view owner, std::string_view name)
{
    return write("DELETE FROM blobs WHERE owner = ? AND name = ?", {owner, name});
}

Result<std::vector<std::pair<std::string, std::string>>> SqliteStore::blobs()
{
    TRY_LET(auto access, current());
    TRY_LET(auto statement, (*access)->prepare("SELECT owner, name FROM blobs ORDER BY owner, name"));
    std::vector<std::pair<std::string, std::string>> found;
    for (;;) {
        TRY_LET(bool const row, statement.step());
        if (!row)
            return found;
        found.emplace_back(statement.text(0), statement.text(1));
    }
}

Result<void> SqliteStore::replaceBlobs(std::vector<Blob> const& blobs)
{
    TRY_LET(auto access, current());
    TRY_LET(auto transaction, Transaction::begin(**access, Transaction::Kind::Write));
    for (auto const& blob : blobs)
        TRY(putBlob(**access, blob));
    return transaction.commit();
}

Result<void> SqliteStore::addWidening(Widening const& widening)
{
    return write("INSERT INTO widenings (time, program, what, before) VALUES (?, ?, ?, ?)",
                 {widening.time, widening.program, widening.what, widening.before});
}

Result<std::vector<Store::Widening>> SqliteStore::widenings()
{
    TRY_LET(auto access, current());
    TRY_LET(auto statement,
            (*access)->prepare("SELECT id, time, program, what, before FROM widenings ORDER BY id"));
    std::vector<Widening> found;
    for (;;) {
        TRY_LET(bool const row, statement.step());
        if (!row)
            return found;
        found.push_back({.id = statement.number(0),
                         .time = std::string(statement.text(1)),
                         .program = std::string(statement.text(2)),
                         .what = std::string(statement.text(3)),
                         .before = std::string(statement.text(4))});
    }
}

Result<void> SqliteStore::removeWidening(std::int64_t id)
{
    TRY_LET(auto access, current());
    TRY_LET(auto statement, (*access)->prepare("DELETE FROM widenings WHERE id = ?"));
    statement.bind(id);
    return statement.run();
}

} // namespace

Result<std::unique_ptr<Store>> Store::open(std::filesystem::path const& file)
{
    TRY(prepareFile(file));
    TRY_LET(auto opened, Database::open(file));
    auto database = std::make_unique<Database>(std::move(opened));
    TRY(sqlite::migrate(*database, kSchemaSteps));
    static_cast<void>(database->moved()); // it learns which log belongs to it
    return std::make_unique<SqliteStore>(file, std::move(database));
}

} // namespace termalin
