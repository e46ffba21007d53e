#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/settings.h"
#include "core/store.h"
#include "mcp-stdio/authorize.h"
#include "tests/support/temp_dir.h"

namespace termalin::mcp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Host hostWith(AgentPolicy policy)
{
    Host host;
    host.id = "0123";
    host.name = "web";
    host.hostname = "web.example";
    host.username = "deploy";
    host.policy = policy;
    return host;
}

Host allowing(std::vector<std::string> rules, std::vector<std::string> reads = {})
{
    auto host = hostWith(AgentPolicy::Allowlist);
    host.rules = std::move(rules);
    host.reads = std::move(reads);
    return host;
}

template <class T>
Errc codeOf(Result<T> const& result)
{
    EXPECT_FALSE(result);
    return result ? Errc::Internal : result.error().code;
}

TEST(Rulings, ABlockedHostAdmitsNothingAndSaysHowThePersonOpensIt)
{
    auto const host = hostWith(AgentPolicy::Blocked);
    EXPECT_EQ(codeOf(requireOpen(host)), Errc::BlockedByPolicy);
    EXPECT_EQ(codeOf(requireFull(host, "Opening a tunnel")), Errc::BlockedByPolicy);
    EXPECT_EQ(codeOf(ruleOnRead(host, "/etc/hosts")), Errc::BlockedByPolicy);
    auto const ruled = ruleOnCommand(host, "ls", LoginShell::Posix);
    EXPECT_EQ(codeOf(ruled), Errc::BlockedByPolicy);
    EXPECT_THAT(ruled.error().message, HasSubstr("termalin-mcp host set web --policy"));
}

TEST(Rulings, WithFullAccessTheCommandRunsAsItIs)
{
    auto const ruled =
        ruleOnCommand(hostWith(AgentPolicy::Full), "ls > /tmp/x; echo $HOME", LoginShell::Other);
    ASSERT_TRUE(ruled);
    EXPECT_EQ(ruled->toRun, "ls > /tmp/x; echo $HOME");
    EXPECT_EQ(ruled->because, "policy: full");
}

TEST(Rulings, ACommandThatNoRequestHoldsIsTooLargeAndSaysWhatToDo)
{
    auto const host = hostWith(AgentPolicy::Full);
    auto const fits = ruleOnCommand(host, std::string(32U * 1024U, 'x'), LoginShell::Posix);
    EXPECT_TRUE(fits);
    auto const ruled = ruleOnCommand(host, std::string(32U * 1024U + 1, 'x'), LoginShell::Posix);
    EXPECT_EQ(codeOf(ruled), Errc::TooLarge);
    EXPECT_THAT(ruled.error().message, HasSubstr("sftp_put"));
    auto const quotes = ruleOnCommand(allowing({"printf **"}), "printf \"" + std::string(8'100, '\'') + '"',
                                      LoginShell::Posix);
    EXPECT_EQ(codeOf(quotes), Errc::TooLarge) << "quoted again it is longer than what was admitted";
}

TEST(Rulings, OnAnAllowlistTheWordsRunQuotedAgainAndTheRuleIsNamed)
{
    auto const ruled = ruleOnCommand(allowing({"uptime", "systemctl status *"}),
                                     "systemctl  status \"nginx\"", LoginShell::Posix);
    ASSERT_TRUE(ruled) << ruled.error().message;
    EXPECT_EQ(ruled->toRun, "'systemctl' 'status' 'nginx'");
    EXPECT_EQ(ruled->because, "rule: systemctl status *");
    for (auto const* const refused :
         {"systemctl status a; id", "id", "systemctl status $(id)", "systemctl status -H x", "X=1 uptime",
          "uptime > /tmp/x", "uptime\nid", ""})
        EXPECT_EQ(
            codeOf(ruleOnCommand(allowing({"uptime", "systemctl status *"}), refused, LoginShell::Posix)),
            Errc::NotInAllowlist)
            << refused;
}

TEST(Rulings, AShellOfAnotherKindGetsOnlyWordsThatEveryShellReadsAlike)
{
    auto const host = allowing({"echo *"});
    auto const plain = ruleOnCommand(host, "echo a=b", LoginShell::Other);
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->toRun, "echo a=b");
    EXPECT_TRUE(ruleOnCommand(host, "echo 'a b'", LoginShell::Posix));
    EXPECT_EQ(codeOf(ruleOnCommand(host, "echo 'a b'", LoginShell::Other)), Errc::NotInAllowlist);
}

TEST(Rulings, ARuleThatCannotBeReadIsNotPassedOver)
{
    auto const host = allowing({"uptime", "", "ls"}, {"/var/log/**", "relative/*"});
    EXPECT_EQ(codeOf(ruleOnCommand(host, "uptime", LoginShell::Posix)), Errc::NotInAllowlist);
    EXPECT_EQ(codeOf(ruleOnRead(host, "/var/log/syslog")), Errc::NotInAllowlist);
}

TEST(Rulings, OnlyListedPathsCanBeReadOnAnAllowlist)
{
    auto const host = allowing({}, {"/var/log/**"});
    EXPECT_EQ(*ruleOnRead(host, "/var/log/nginx/access.log"), "readable: /var/log/**");
    for (auto const* const refused :
         {"/etc/shadow", "/var/log/../../etc/shadow", "var/log/x", "/var/log//x", "."})
        EXPECT_EQ(codeOf(ruleOnRead(host, refused)), Errc::NotInAllowlist) << refused;
    EXPECT_TRUE(ruleOnRead(hostWith(AgentPolicy::Full), "anything"));
}

TEST(Rulings, TunnelsAndWritesNeedFullAccess)
{
    EXPECT_TRUE(requireFull(hostWith(AgentPolicy::Full), "Writing a file"));
    auto const refused = requireFull(allowing({"**"}), "Writing a file");
    EXPECT_EQ(codeOf(refused), Errc::NeedsFullAccess);
    EXPECT_THAT(refused.error().message, HasSubstr("Writing a file"));
}

TEST(Rulings, ThisComputersShellIsClosedAndOnceOpenedNotForProgramsWithoutAWindow)
{
    auto host = hostWith(AgentPolicy::Blocked);
    host.id = "local";
    EXPECT_EQ(codeOf(requireOpen(host)), Errc::BlockedByPolicy);
    host.policy = AgentPolicy::Full;
    EXPECT_EQ(codeOf(requireOpen(host)), Errc::Unsupported);
}

class SavedHostsTest : public ::testing::Test {
protected:
    void SetUp() override
    {
        m_paths.settings = m_dir / "settings.json";
        auto opened = Store::open(m_dir / "home/termalin.db");
        ASSERT_TRUE(opened) << opened.error().message;
        m_store = *std::move(opened);
    }

    test::TempDir m_dir;
    Paths m_paths;
    std::unique_ptr<Store> m_store;
};

TEST_F(SavedHostsTest, AStopOfAllAgentsComesBeforeAnythingElseIsLookedAt)
{
    EXPECT_EQ(codeOf(findOpenHost(*m_store, m_paths, "nowhere")), Errc::UnknownHost);
    ASSERT_TRUE(changeSetting(m_paths.settings, "agents.stopped", "true"));
    auto const stopped = findOpenHost(*m_store, m_paths, "nowhere");
    EXPECT_EQ(codeOf(stopped), Errc::ConsentRequired);
    EXPECT_THAT(stopped.error().message, HasSubstr("agents resume"));
    ASSERT_TRUE(changeSetting(m_paths.settings, "agents.stopped", "false"));
    EXPECT_EQ(codeOf(findOpenHost(*m_store, m_paths, "nowhere")), Errc::UnknownHost);
}

TEST_F(SavedHostsTest, SettingsThatCannotBeReadStopAgents)
{
    std::ofstream(m_paths.settings) << R"({"agents.stopped": fal)";
    auto const stopped = requireNotStopped(m_paths);
    EXPECT_EQ(codeOf(stopped), Errc::ConsentRequired);
    EXPECT_THAT(stopped.error().message, HasSubstr(m_paths.settings.string()));
    EXPECT_THAT(stopped.error().message, Not(HasSubstr("The person has stopped")));
}

TEST_F(SavedHostsTest, APolicyIsReadAnewEachTime)
{
    auto host = hostWith(AgentPolicy::Full);
    auto const added = m_store->addHost(host);
    ASSERT_TRUE(added) << added.error().message;
    EXPECT_TRUE(findOpenHost(*m_store, m_paths, "web"));
    auto const other = *Store::open(m_dir / "home/termalin.db"); // as another process would
    auto changed = *added;
    changed.policy = AgentPolicy::Blocked;
    ASSERT_TRUE(other->updateHost(changed));
    EXPECT_EQ(codeOf(findOpenHost(*m_store, m_paths, "web")), Errc::BlockedByPolicy);
    EXPECT_EQ(codeOf(findOpenHost(*m_store, m_paths, added->id)), Errc::BlockedByPolicy);
}

TEST_F(SavedHostsTest, ThisComputersShellIsBlockedInANewStore)
{
    EXPECT_EQ(codeOf(findOpenHost(*m_store, m_paths, "local")), Errc::BlockedByPolicy);
}

} // namespace
} // namespace termalin::mcp
