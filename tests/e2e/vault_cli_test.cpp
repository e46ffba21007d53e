#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_home.h"

namespace termalin::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class VaultCommands : public ::testing::Test {
protected:
    void TearDown() override
    {
        static_cast<void>(m_home.run({"vault", "lock"}));
    } // its holder, if there is one

    CliHome m_home;
};

TEST_F(VaultCommands, APasswordIsKeptAndNowhereToBeSeen)
{
    m_home.must({"vault", "init", "--secret-fd", "0"}, "correct horse\n");
    EXPECT_EQ(m_home.run({"vault", "init", "--secret-fd", "0"}, "again\n").status, 2);
    EXPECT_EQ(
        m_home.run({"host", "add", "s", "u@192.0.2.1", "--ask-password", "--secret-fd", "0"}, "hunter22xyz\n")
            .status,
        1)
        << "the vault is locked";
    EXPECT_EQ(m_home.host("s"), nullptr) << "nothing was half done";
    m_home.must({"vault", "unlock", "--secret-fd", "0"}, "correct horse\n");
    auto const added = m_home.must({"host", "add", "s", "u@192.0.2.1", "--ask-password", "--secret-fd", "0"},
                                   "hunter22xyz\n");
    EXPECT_EQ(m_home.host("s").at("authType"), "password");
    EXPECT_THAT(added, Not(HasSubstr("hunter22xyz")));
    for (auto const& entry : std::filesystem::recursive_directory_iterator(m_home.data()))
        if (entry.is_regular_file()) {
            EXPECT_THAT(readFile(entry.path()), Not(HasSubstr("hunter22xyz"))) << entry.path();
        }
}

TEST_F(VaultCommands, ThePasswordIsAskedWithoutAnEchoAndCanBeChanged)
{
    auto const made =
        m_home.onTerminal({"vault", "init"}, {{"new vault: ", "first one\r"}, {"again: ", "first one\r"}});
    EXPECT_EQ(made.status, 0) << made.out;
    EXPECT_THAT(made.out, Not(HasSubstr("first one")));
    EXPECT_EQ(m_home.run({"vault", "unlock", "--secret-fd", "0"}, "wrong\n").status, 1);
    m_home.must({"vault", "passwd", "--secret-fd", "0"}, "first one\nsecond one\n");
    EXPECT_EQ(m_home.run({"vault", "unlock", "--secret-fd", "0"}, "first one\n").status, 1);
    // The old one is looked at before a new one is asked for.
    auto const wrong = m_home.onTerminal({"vault", "passwd"}, {{"the vault): ", "wrong\r"}});
    EXPECT_EQ(wrong.status, 1);
    EXPECT_THAT(wrong.out, Not(HasSubstr("New master password")));
    auto const opened = m_home.onTerminal({"vault", "unlock"}, {{"of the vault: ", "secondX\x7f one\r"}});
    EXPECT_EQ(opened.status, 0) << opened.out << " (a typing error can be taken back)";
}

TEST_F(VaultCommands, AShortMasterPasswordIsTakenWithAWarningAndLockingNothingIsDone)
{
    EXPECT_THAT(m_home.must({"vault", "lock"}), HasSubstr("no vault"));
    EXPECT_THAT(m_home.must({"vault", "init", "--secret-fd", "0"}, "short\n"), HasSubstr("Warning"));
    EXPECT_THAT(m_home.must({"vault", "passwd", "--secret-fd", "0"}, "short\nfour random words here\n"),
                Not(HasSubstr("Warning")));
}

TEST_F(VaultCommands, TwoThatDifferAndCtrlCLeaveAllAsItWas)
{
    EXPECT_EQ(m_home.onTerminal({"vault", "init"}, {{"new vault: ", "one\r"}, {"again: ", "two\r"}}).status,
              2);
    EXPECT_EQ(m_home.onTerminal({"vault", "init"}, {{"new vault: ", "one\x03"}}).status, 1);
    EXPECT_EQ(m_home.run({"vault", "unlock", "--secret-fd", "0"}, "one\n").status, 1);
}

} // namespace
} // namespace termalin::test
