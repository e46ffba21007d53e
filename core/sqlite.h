#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "core/result.h"

struct sqlite3;
struct sqlite3_stmt;

/// A thin cover over SQLite's C interface, for the files of core/ alone.
namespace termalin::sqlite {

class Database;

namespace detail {

struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const noexcept;
};
using StatementHandle = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

/// Prepared statements that nobody uses at the moment, by their text: compiling one costs several times what
/// running it does.
using IdleStatements = std::map<std::string, std::vector<StatementHandle>, std::less<>>;

} // namespace detail

/// One prepared statement. Not thread safe; must not outlive its Database.
class Statement {
public:
    /// Its rows are let go of; the compiled statement is kept for the next one with the same text.
    ~Statement();
    Statement(Statement&&) noexcept = default;
    Statement& operator=(Statement&&) = delete;
    Statement(Statement const&) = delete;
    Statement& operator=(Statement const&) = delete;

    /// Binds the next parameter, from the left. A bind that fails shows in the next step().
    Statement& bind(std::string_view text);
    Statement& bind(std::int64_t number);
    Statement& bindBytes(std::string_view bytes);

    /// True: a row is there. False: done.
    Result<bool> step();
    /// Runs a statement that gives no rows.
    Result<void> run();
    /// Makes it ready to be bound and run again.
    void reset();

    [[nodiscard]] std::int64_t number(int column) const;
    /// Valid until the next step().
    [[nodiscard]] std::string_view text(int column) const;
    [[nodiscard]] bool isNull(int column) const;

private:
    friend class Database;
    Statement(Database& database, std::string_view sql, detail::StatementHandle raw)
        : m_database(&database), m_sql(sql), m_raw(std::move(raw))
    {
    }

    Database* m_database;
    std::string m_sql;
    detail::StatementHandle m_raw; ///< empty in one that was moved from
    int m_bound = 0;
    int m_bindError = 0;
};

enum class Patience : std::uint8_t { None, Usual };

/// One connection. Not thread safe.
class Database {
public:
    /// Opens an existing file for reading and writing; waits up to 5 s for other processes' locks.
    static Result<Database> open(std::filesystem::path const& file);

    /// The statement must go before the Database moves or goes.
    Result<Statement> prepare(std::string_view sql);
    /// Runs one or more statements, rows being dropped.
    Result<void> execute(char const* sql);
    /// The first column of the first row of `sql`.
    Result<std::int64_t> numberOf(std::string_view sql);
    /// Rows that the last statement has changed.
    [[nodiscard]] std::int64_t changed() const;
    /// Rows that this connection has changed since it was opened.
    [[nodiscard]] std::int64_t totalChanged() const;
    /// Whether the file's name, or its log's, leads to another file by now, or to none.
    [[nodiscard]] bool moved();
    /// The log is left as it is at the end: it, or the file, may belong to another database by now.
    void leaveLog();
    /// How long statements wait for other processes' locks: 5 s, or not at all.
    void setPatience(Patience patience);
    [[nodiscard]] std::filesystem::path const& file() const noexcept { return m_file; }

    /// An SQLite result code of the last call as an Error that names the file and says what to do.
    [[nodiscard]] Error error(int code) const;

private:
    struct Close {
        void operator()(sqlite3* database) const noexcept;
    };
    friend class Statement;
    explicit Database(std::filesystem::path file) : m_file(std::move(file)) {}

    std::filesystem::path m_file;
    ino_t m_log = 0; ///< the write-ahead log's, once there is one
    std::unique_ptr<sqlite3, Close> m_raw;
    detail::IdleStatements m_idle;
};

/// Rolls back when it goes, unless committed.
class Transaction {
public:
    enum class Kind : std::uint8_t { Read, Write };
    static Result<Transaction> begin(Database& database, Kind kind);
    Result<void> commit();

    ~Transaction();
    Transaction(Transaction&& other) noexcept : m_database(std::exchange(other.m_database, nullptr)) {}
    Transaction& operator=(Transaction&&) = delete;
    Transaction(Transaction const&) = delete;
    Transaction& operator=(Transaction const&) = delete;

private:
    explicit Transaction(Database& database) : m_database(&database) {}
    Database* m_database;
};

/// Brings the file up to date: step number N (counted from 1) leads from schema version N - 1 to N, each in a
/// transaction of its own. Several processes may do so at once. A file that is up to date costs one read.
/// Errors: Unsupported when the file's version is larger than the number of steps, or the file is another
/// program's; nothing is changed then.
Result<void> migrate(Database& database, std::span<char const* const> steps);

} // namespace termalin::sqlite
