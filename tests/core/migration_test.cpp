#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "core/schema.h"
#include "core/sqlite.h"
#include "core/store.h"
#include "tests/support/temp_dir.h"

namespace termalin {
namespace {

using sqlite::Database;
using ::testing::HasSubstr;

/// Runs statements with the library itself, as another program would.
void executeIn(std::filesystem::path const& file, std::string const& sql)
{
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &raw), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
    sqlite3_close(raw);
    ::chmod(file.c_str(), 0600);
}

class MigrationTest : public ::testing::Test {
protected:
    std::filesystem::path file() const { return m_dir / "termalin.db"; }
    Result<std::int64_t> migrateTo(std::vector<char const*> const& steps) const
    {
        TRY_LET(auto database, Database::open(file()));
        TRY(sqlite::migrate(database, steps));
        return database.numberOf("PRAGMA user_version");
    }
    test::TempDir m_dir;
    std::vector<char const*> const m_steps{"CREATE TABLE a (x); INSERT INTO a VALUES (1)",
                                           "ALTER TABLE a ADD COLUMN y DEFAULT 5", "UPDATE a SET y = x + y"};
};

TEST_F(MigrationTest, EveryOlderVersionIsBroughtUpToDateWithItsData)
{
    for (std::size_t older = 0; older < m_steps.size(); ++older) {
        test::writeFile(file(), "");
        std::vector<char const*> const first(m_steps.begin(),
                                             m_steps.begin() + static_cast<std::ptrdiff_t>(older));
        EXPECT_EQ(migrateTo(first).value(), static_cast<std::int64_t>(older));
        EXPECT_EQ(migrateTo(m_steps).value(), 3);
        auto database = Database::open(file());
        EXPECT_EQ(database->numberOf("SELECT y FROM a").value(), 6);
        std::filesystem::remove(file());
    }
}

TEST_F(MigrationTest, AStepThatFailsLeavesTheVersionBeforeIt)
{
    test::writeFile(file(), "");
    auto steps = m_steps;
    steps[2] = "UPDATE a SET y = 9; UPDATE missing SET z = 1";
    EXPECT_FALSE(migrateTo(steps));
    {
        auto database = Database::open(file());
        EXPECT_EQ(database->numberOf("PRAGMA user_version").value(), 2);
        EXPECT_EQ(database->numberOf("SELECT y FROM a").value(), 5);
    }
    EXPECT_EQ(migrateTo(m_steps).value(), 3);
}

TEST_F(MigrationTest, EveryReleasedVersionOfTheStoreIsBroughtUpToDateWithItsHosts)
{
    for (std::size_t version = 1; version <= kSchemaSteps.size(); ++version) {
        auto const old = m_dir / ("v" + std::to_string(version) + ".db");
        std::string sql;
        for (std::size_t i = 0; i < version; ++i)
            sql += kSchemaSteps.at(i);
        sql +=
            "INSERT INTO hosts (id, name, hostname, port, username, auth_type, policy, tags, notes, "
            "key_files, "
            "certificate_files, identities_only, agent_socket, known_hosts_file, host_key_alias, "
            "proxy_command, "
            "rules, reads, revision, route_revision) VALUES ('h1', 'old', 'old.example', 2022, 'me', 'key', "
            "'allowlist', 'a', '', '/k', '', 1, '', '', '', '', 'uptime', '/var/log/**', 7, 3);"
            "PRAGMA user_version=" +
            std::to_string(version);
        executeIn(old, sql);
        auto const store = Store::open(old);
        ASSERT_TRUE(store) << store.error().message;
        auto const host = (*store)->findHost("old").value();
        EXPECT_EQ(host.port, 2022);
        EXPECT_EQ(host.policy, AgentPolicy::Allowlist);
        EXPECT_THAT(host.rules, ::testing::ElementsAre("uptime"));
        EXPECT_EQ(host.revision, 7);
        EXPECT_EQ(host.addressFamily, AddressFamily::Any);
        EXPECT_FALSE(host.connectTimeout || host.serverAliveInterval || host.serverAliveCountMax);
    }
}

TEST_F(MigrationTest, WhatThisProgramDoesNotKnowOfAHostIsReadAsTheStrictest)
{
    ASSERT_TRUE(Store::open(file()));
    executeIn(file(), "UPDATE hosts SET policy = 'everything', auth_type = 'magic' WHERE id = 'local'");
    auto const host = Store::open(file()).value()->findHost("local").value();
    EXPECT_EQ(host.policy, AgentPolicy::Blocked);
    EXPECT_EQ(host.authType, AuthType::Agent);
}

TEST_F(MigrationTest, ANewerVersionIsRefusedAndNotTouched)
{
    ASSERT_TRUE(Store::open(file()));
    executeIn(file(), "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version=" +
                          std::to_string(kSchemaSteps.size() + 1));
    auto const before = test::readFile(file());
    auto const refused = Store::open(file());
    EXPECT_EQ(refused.error().code, Errc::Unsupported);
    EXPECT_THAT(refused.error().message, HasSubstr("newer"));
    EXPECT_EQ(test::readFile(file()), before);
}

TEST_F(MigrationTest, AnotherProgramsDatabaseIsRefusedAndNotTouched)
{
    executeIn(file(), "CREATE TABLE bookmarks (x)");
    auto const before = test::readFile(file());
    auto const refused = Store::open(file());
    EXPECT_EQ(refused.error().code, Errc::Unsupported);
    EXPECT_EQ(test::readFile(file()), before);
}

TEST_F(MigrationTest, ADamagedFileIsRefusedAndNotTouched)
{
    std::string const garbage(8192, 'g');
    test::writeFile(file(), garbage);
    ::chmod(file().c_str(), 0600);
    auto const refused = Store::open(file());
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("damaged"));
    EXPECT_THAT(refused.error().message, HasSubstr("backup"));
    EXPECT_EQ(test::readFile(file()), garbage);
}

TEST_F(MigrationTest, DamagedPagesAreFoundWhenTheyAreRead)
{
    {
        auto const store = Store::open(file());
        ASSERT_TRUE(store);
        for (int i = 0; i < 50; ++i) {
            Host host;
            host.name = "host" + std::to_string(i);
            host.hostname = "server.example";
            host.notes = std::string(3000, 'n');
            ASSERT_TRUE((*store)->addHost(host));
        }
    }
    auto bytes = test::readFile(file());
    ASSERT_GT(bytes.size(), 100'000U);
    for (std::size_t at = 4096; at < bytes.size(); ++at)
        bytes[at] = 'd';
    test::writeFile(file(), bytes);
    auto const store = Store::open(file()); // reads the first page alone
    auto const message = store ? (*store)->hosts().error().message : store.error().message;
    EXPECT_THAT(message, HasSubstr("damaged"));
    EXPECT_EQ(test::readFile(file()), bytes);
}

} // namespace
} // namespace termalin
