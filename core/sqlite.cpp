#include "core/sqlite.h"

#include <cerrno>
#include <chrono>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <thread>

namespace termalin::sqlite {
namespace {

constexpr int kBusyMilliseconds = 5000;
/// Different statements that are kept; the program's own texts are fewer.
constexpr std::size_t kIdleTexts = 64;
constexpr std::size_t kIdleOfOneText = 2;

Errc codeOf(int code, int systemNumber)
{
    auto const primary = code & 0xff;
    if (systemNumber == ENOSPC || systemNumber == EDQUOT || systemNumber == EFBIG)
        return Errc::NoSpace;
    if (systemNumber == EACCES || systemNumber == EPERM || systemNumber == EROFS)
        return Errc::PermissionDenied;
    // SQLite keeps no system number for a write beyond a quota or a limit of size, which is by far the most
    // frequent reason for a write that a disk with space left does not take.
    if (code == SQLITE_IOERR_WRITE)
        return Errc::NoSpace;
    switch (primary) {
    case SQLITE_FULL: return Errc::NoSpace;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return Errc::PermissionDenied;
    case SQLITE_BUSY: return Errc::Timeout;
    default: return Errc::Internal;
    }
}

std::string_view advice(Errc code, int primary)
{
    if (code == Errc::NoSpace)
        return "Nothing was changed. Free some space or look at your quota, then try again.";
    if (code == Errc::PermissionDenied)
        return "Nothing was changed. See that the file and its folder belong to you and can be written.";
    if (primary == SQLITE_BUSY)
        return "Nothing was changed: another process kept the file busy for 5 s. Try again.";
    if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB)
        return "The file is damaged and was left as it is. Put a backup in its place; or move it away "
               "together "
               "with its -wal and -shm files, and an empty one is made.";
    return "Nothing was changed.";
}

} // namespace

void detail::FinalizeStatement::operator()(sqlite3_stmt* statement) const noexcept
{
    sqlite3_finalize(statement); // repeats the error of the last step, which was reported then
}

Statement::~Statement()
{
    if (!m_raw)
        return;
    sqlite3_reset(m_raw.get());
    sqlite3_clear_bindings(m_raw.get());
    auto& idle = m_database->m_idle;
    if (auto const known = idle.find(m_sql); known != idle.end()) {
        if (known->second.size() < kIdleOfOneText)
            known->second.push_back(std::move(m_raw));
    } else if (idle.size() < kIdleTexts) {
        idle[std::move(m_sql)].push_back(std::move(m_raw));
    }
}

Statement& Statement::bind(std::string_view text)
{
    auto const code = sqlite3_bind_text64(m_raw.get(), ++m_bound, text.empty() ? "" : text.data(),
                                          text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    m_bindError = m_bindError != SQLITE_OK ? m_bindError : code;
    return *this;
}

Statement& Statement::bind(std::int64_t number)
{
    auto const code = sqlite3_bind_int64(m_raw.get(), ++m_bound, number);
    m_bindError = m_bindError != SQLITE_OK ? m_bindError : code;
    return *this;
}

Statement& Statement::bindBytes(std::string_view bytes)
{
    auto const code = sqlite3_bind_blob64(m_raw.get(), ++m_bound, bytes.empty() ? "" : bytes.data(),
                                          bytes.size(), SQLITE_TRANSIENT);
    m_bindError = m_bindError != SQLITE_OK ? m_bindError : code;
    return *this;
}

Result<bool> Statement::step()
{
    if (m_bindError != SQLITE_OK)
        return std::unexpected(m_database->error(m_bindError));
    auto const code = sqlite3_step(m_raw.get());
    if (code == SQLITE_ROW)
        return true;
    if (code == SQLITE_DONE)
        return false;
    return std::unexpected(m_database->error(code));
}

Result<void> Statement::run()
{
    for (;;) {
        TRY_LET(bool const row, step());
        if (!row)
            return {};
    }
}

void Statement::reset()
{
    sqlite3_reset(m_raw.get());
    m_bound = 0;
    m_bindError = SQLITE_OK;
}

std::int64_t Statement::number(int column) const
{
    return sqlite3_column_int64(m_raw.get(), column);
}

std::string_view Statement::text(int column) const
{
    // A blob of a text column's bytes are the text's bytes, NUL included.
    auto const* const bytes = static_cast<char const*>(sqlite3_column_blob(m_raw.get(), column));
    auto const length = sqlite3_column_bytes(m_raw.get(), column);
    return bytes == nullptr ? std::string_view{} : std::string_view(bytes, static_cast<std::size_t>(length));
}

bool Statement::isNull(int column) const
{
    return sqlite3_column_type(m_raw.get(), column) == SQLITE_NULL;
}

void Database::Close::operator()(sqlite3* database) const noexcept
{
    sqlite3_close_v2(database);
}

Result<Database> Database::open(std::filesystem::path const& file)
{
    Database database(file);
    sqlite3* raw = nullptr;
    auto const code = sqlite3_open_v2(
        file.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
    database.m_raw.reset(raw);
    if (code != SQLITE_OK)
        return std::unexpected(database.error(code));
    sqlite3_busy_timeout(raw, kBusyMilliseconds);
    // A hostile or damaged file must not run code of its own choosing through views and triggers.
    sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_FKEY, 1, nullptr);
    TRY(database.execute("PRAGMA synchronous=FULL")); // a build of SQLite may have another default
    return database;
}

Result<Statement> Database::prepare(std::string_view sql)
{
    if (auto const idle = m_idle.find(sql); idle != m_idle.end() && !idle->second.empty()) {
        auto raw = std::move(idle->second.back());
        idle->second.pop_back();
        return Statement(*this, sql, std::move(raw));
    }
    sqlite3_stmt* statement = nullptr;
    auto const code = sqlite3_prepare_v3(m_raw.get(), sql.data(), static_cast<int>(sql.size()),
                                         SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK)
        return std::unexpected(error(code));
    return Statement(*this, sql, detail::StatementHandle(statement));
}

Result<void> Database::execute(char const* sql)
{
    auto const code = sqlite3_exec(m_raw.get(), sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK)
        return std::unexpected(error(code));
    return {};
}

Result<std::int64_t> Database::numberOf(std::string_view sql)
{
    TRY_LET(auto statement, prepare(sql));
    TRY_LET(bool const row, statement.step());
    return row ? statement.number(0) : 0;
}

std::int64_t Database::changed() const
{
    return sqlite3_changes64(m_raw.get());
}

std::int64_t Database::totalChanged() const
{
    return sqlite3_total_changes64(m_raw.get());
}

bool Database::moved()
{
    int moved = 0;
    if (sqlite3_file_control(m_raw.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0)
        return true;
    // The log is there as long as a connection is: whoever removes it makes the next process begin another.
    auto const log = m_file.string() + "-wal";
    struct stat info{};
    auto const there = ::stat(log.c_str(), &info) == 0;
    if (m_log == 0)
        m_log = there ? info.st_ino : 0;
    return m_log != 0 && (!there || info.st_ino != m_log);
}

void Database::leaveLog()
{
    sqlite3_db_config(m_raw.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

void Database::setPatience(Patience patience)
{
    sqlite3_busy_timeout(m_raw.get(), patience == Patience::None ? 0 : kBusyMilliseconds);
}

Error Database::error(int code) const
{
    auto const primary = code & 0xff;
    auto const systemNumber = m_raw && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN)
                                  ? sqlite3_system_errno(m_raw.get())
                                  : 0;
    auto const ours = codeOf(code, systemNumber);
    auto const* const text = m_raw ? sqlite3_errmsg(m_raw.get()) : sqlite3_errstr(code);
    Error error{ours, fmt::format("{}: {}. {}", m_file.string(), text, advice(ours, primary)),
                systemNumber != 0 ? fmt::format("SQLite {}, errno {}", code, systemNumber)
                                  : fmt::format("SQLite {}", code)};
    error.nothingWasSent = ours == Errc::Timeout;
    return error;
}

Result<Transaction> Transaction::begin(Database& database, Kind kind)
{
    // A write takes its lock at once, so that what was read before it cannot have changed by then.
    TRY_LET(auto begin, database.prepare(kind == Kind::Write ? "BEGIN IMMEDIATE" : "BEGIN"));
    TRY(begin.run());
    return Transaction(database);
}

Result<void> Transaction::commit()
{
    TRY_LET(auto commit, m_database->prepare("COMMIT"));
    TRY(commit.run());
    m_database = nullptr;
    return {};
}

Transaction::~Transaction()
{
    if (m_database != nullptr) // fails only where SQLite has rolled back by itself
        static_cast<void>(m_database->execute("ROLLBACK"));
}

namespace {

Result<std::int64_t> checkedVersion(Database& database, std::size_t known)
{
    TRY_LET(auto const version, database.numberOf("PRAGMA user_version"));
    if (version < 0 || version > static_cast<std::int64_t>(known))
        return fail(
            Errc::Unsupported,
            fmt::format("{} has version {}, and this program knows versions up to {}. It was left as it is. "
                        "Use the newer Termalin that wrote it.",
                        database.file().string(), version, known));
    return version;
}

/// The change to a write-ahead log wants the file for itself and does not wait as other statements do.
Result<void> useWriteAheadLog(Database& database)
{
    auto const giveUp = std::chrono::steady_clock::now() + std::chrono::milliseconds(kBusyMilliseconds);
    for (;;) {
        auto const changed = database.execute("PRAGMA journal_mode=WAL");
        if (changed || changed.error().code != Errc::Timeout || std::chrono::steady_clock::now() > giveUp)
            return changed;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

/// One step, or none if another process was quicker. True: there may be more to do.
Result<bool> migrateOnce(Database& database, std::span<char const* const> steps)
{
    TRY_LET(auto transaction, Transaction::begin(database, Transaction::Kind::Write));
    TRY_LET(auto const version, checkedVersion(database, steps.size()));
    if (version == static_cast<std::int64_t>(steps.size()))
        return false;
    if (version == 0) {
        TRY_LET(auto const strangers, database.numberOf("SELECT count(*) FROM sqlite_schema"));
        if (strangers != 0)
            return fail(
                Errc::Unsupported,
                fmt::format("{} is a database of another program. It was left as it is; move it away.",
                            database.file().string()));
    }
    TRY(database.execute(steps[static_cast<std::size_t>(version)]));
    TRY(database.execute(fmt::format("PRAGMA user_version={}", version + 1).c_str()));
    TRY(transaction.commit());
    return true;
}

} // namespace

Result<void> migrate(Database& database, std::span<char const* const> steps)
{
    TRY_LET(auto const version, checkedVersion(database, steps.size()));
    if (version == static_cast<std::int64_t>(steps.size()))
        return {};
    if (version == 0) {
        TRY_LET(auto const strangers, database.numberOf("SELECT count(*) FROM sqlite_schema"));
        if (strangers == 0)
            TRY(useWriteAheadLog(database)); // a new file; it stays so for good
    }
    for (;;) {
        TRY_LET(bool const again, migrateOnce(database, steps));
        if (!again)
            return {};
    }
}

} // namespace termalin::sqlite
