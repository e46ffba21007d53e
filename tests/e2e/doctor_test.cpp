#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/e2e/cli_home.h"

namespace termalin::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Each fault is made for real, and found by its name.
class Doctor : public ::testing::Test {
protected:
    /// Runs it and expects exactly this fault, with something to do about it.
    void expectFault(CliHome::Words words, std::string const& fault, std::string const& todo) const
    {
        words.insert(words.begin(), "doctor");
        auto const ran = m_home.run(words);
        EXPECT_EQ(ran.status, 1) << ran.out;
        EXPECT_THAT(ran.out, AllOf(HasSubstr(fault + ": "), HasSubstr(todo)));
        for (auto const* const other :
             {"agent-dead", "key-file-mode", "vault-locked", "key-unknown", "key-changed", "no-sftp",
              "max-sessions", "shell-not-posix", "stale-socket", "client-configuration", "other"}) {
            if (other != fault) {
                EXPECT_THAT("\n" + ran.out, Not(HasSubstr("\n" + std::string(other) + ": "))) << ran.out;
            }
        }
    }

    CliHome m_home;
};

TEST_F(Doctor, FindsNothingWhereNothingIsWrongAndSaysWhatIsNotProtectedAgainst)
{
    Sshd const server;
    m_home.addServer("s", server);
    auto const ran = m_home.run({"doctor"});
    EXPECT_EQ(ran.status, 0) << ran.out;
    EXPECT_THAT(ran.out, AllOf(HasSubstr("No fault found"), HasSubstr("hostile program that runs as you")));
}

TEST_F(Doctor, AgentDead)
{
    Sshd const server;
    m_home.addServer("s", server);
    auto const socket = m_home.folder() / "agent";
    leaveStaleSocket(socket);
    m_home.must({"host", "set", "s", "--agent", socket.string()});
    expectFault({"s"}, "agent-dead", "ssh-add");
}

TEST_F(Doctor, KeyFileMode)
{
    Sshd const server;
    m_home.addServer("s", server);
    ::chmod(server.userKey().c_str(), 0644);
    expectFault({"s", "--offline"}, "key-file-mode", "chmod 600");
}

TEST_F(Doctor, VaultLocked)
{
    m_home.must({"vault", "init", "--secret-fd", "0"}, "master password\n");
    m_home.must({"host", "add", "s", "u@192.0.2.1"});
    // Opened once, so that the host's password can be kept; then locked.
    m_home.must({"vault", "unlock", "--secret-fd", "0"}, "master password\n");
    m_home.must({"host", "set", "s", "--ask-password", "--secret-fd", "0"}, "secret\n");
    auto const open = m_home.run({"doctor", "s", "--offline"});
    EXPECT_EQ(open.status, 0) << open.out;
    m_home.must({"vault", "lock"});
    expectFault({"s", "--offline"}, "vault-locked", "vault unlock");
}

TEST_F(Doctor, KeyUnknown)
{
    Sshd const server;
    m_home.must({"host", "add", "s", loginOf(server), "--key", server.userKey().string()});
    expectFault({"s"}, "key-unknown", "host trust s");
}

TEST_F(Doctor, KeyChanged)
{
    Sshd const server;
    m_home.trustAnotherKey(server);
    m_home.must({"host", "add", "s", loginOf(server), "--key", server.userKey().string()});
    expectFault({"s"}, "key-changed", "--replace");
}

TEST_F(Doctor, NoSftp)
{
    Sshd const server({.sftp = false});
    m_home.addServer("s", server);
    expectFault({"s"}, "no-sftp", "Subsystem sftp");
}

TEST_F(Doctor, MaxSessions)
{
    Sshd const server({.maxSessions = 1});
    m_home.addServer("s", server);
    expectFault({"s"}, "max-sessions", "Raise MaxSessions");
}

TEST_F(Doctor, ShellNotPosix)
{
    Sshd const server({.loginShell = "/usr/bin/fish"});
    m_home.addServer("s", server);
    expectFault({"s"}, "shell-not-posix", "chsh");
}

TEST_F(Doctor, StaleSocket)
{
    m_home.must({"host", "list"}); // makes the folder
    auto const run = m_home.data() / "run";
    std::filesystem::create_directory(run);
    std::filesystem::permissions(run, std::filesystem::perms::owner_all);
    leaveStaleSocket(run / "control");
    expectFault({}, "stale-socket", "rm ");
}

TEST_F(Doctor, ClientConfiguration)
{
    std::filesystem::create_directory(m_home.home() / ".cursor");
    writeFile(m_home.home() / ".cursor/mcp.json", "{\"mcpServers\": ");
    expectFault({}, "client-configuration", "Repair it");
    writeFile(m_home.home() / ".cursor/mcp.json",
              R"({"mcpServers": {"termalin": {"command": "/gone/termalin-mcp"}}})");
    expectFault({}, "client-configuration", "termalin-mcp install cursor");
}

} // namespace
} // namespace termalin::test
