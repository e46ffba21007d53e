#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "ssh/route.h"

namespace termalin::ssh {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Home {
public:
    Home()
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "route-test-XXXXXX").string();
        m_dir = ::mkdtemp(pattern.data());
        std::filesystem::create_directory(m_dir / ".ssh");
    }
    ~Home() { std::filesystem::remove_all(m_dir); }
    Home(Home const&) = delete;
    Home& operator=(Home const&) = delete;

    [[nodiscard]] std::filesystem::path const& dir() const { return m_dir; }
    void makeKey(std::string const& name) const { std::ofstream(m_dir / ".ssh" / name) << "key"; }

private:
    std::filesystem::path m_dir;
};

class RouteTest : public ::testing::Test {
protected:
    Host& save(std::string const& name, std::vector<std::string> jump = {})
    {
        Host host;
        host.id = "id-" + name;
        host.name = name;
        host.hostname = name + ".example";
        host.username = "deploy";
        host.jump = std::move(jump);
        return m_hosts[name] = std::move(host);
    }

    Result<SavedRoute> resolve(std::string const& name)
    {
        return resolveRoute(
            m_hosts.at(name),
            [this](std::string_view wanted) -> Result<Host> {
                auto const found = m_hosts.find(std::string(wanted));
                if (found == m_hosts.end())
                    return fail(Errc::UnknownHost, "no such host");
                return found->second;
            },
            m_defaults);
    }

    std::vector<std::string> names(std::string const& name)
    {
        std::vector<std::string> out;
        auto const route = resolve(name);
        EXPECT_TRUE(route) << route.error().message;
        if (route)
            for (auto const& hop : route->route.hops)
                out.push_back(hop.name);
        return out;
    }

    Home m_home;
    RouteDefaults m_defaults{.home = m_home.dir(), .environmentSocket = "/run/agent", .localUser = "me"};
    std::map<std::string, Host> m_hosts;
};

TEST_F(RouteTest, OfSeveralJumpsOnlyTheFirstBringsItsOwn)
{
    save("gate");
    save("first", {"gate"});
    save("second", {"elsewhere"});
    save("server", {"first", "second"});
    EXPECT_THAT(names("server"), ElementsAre("gate", "first", "second", "server"));
    EXPECT_THAT(resolve("server")->hostIds, ElementsAre("id-gate", "id-first", "id-second", "id-server"));
}

TEST_F(RouteTest, ACircleOfJumpsIsRefusedWithTheHostThatHasIt)
{
    save("a", {"b"});
    save("b", {"c"});
    save("c", {"a"});
    auto const route = resolve("a");
    ASSERT_FALSE(route);
    EXPECT_EQ(route.error().code, Errc::InvalidArgument);
    EXPECT_THAT(route.error().message, HasSubstr("circle"));
}

TEST_F(RouteTest, EightJumpHostsAreTheMost)
{
    save("h0");
    for (int i = 1; i <= 9; ++i)
        save("h" + std::to_string(i), {"h" + std::to_string(i - 1)});
    EXPECT_TRUE(resolve("h8"));
    ASSERT_FALSE(resolve("h9"));
    EXPECT_EQ(resolve("h9").error().code, Errc::InvalidArgument);
}

TEST_F(RouteTest, AJumpThatIsNotSavedIsAnUnknownHost)
{
    save("server", {"nowhere"});
    EXPECT_EQ(resolve("server").error().code, Errc::UnknownHost);
}

TEST_F(RouteTest, AJumpHostThatAgentsMayNotUseIsPassedThrough)
{
    save("gate").policy = AgentPolicy::Blocked;
    save("server", {"gate"}).policy = AgentPolicy::Full;
    EXPECT_THAT(names("server"), ElementsAre("gate", "server"));
}

TEST_F(RouteTest, DefaultKeysAreThoseThatExistInOrder)
{
    m_home.makeKey("id_rsa");
    m_home.makeKey("id_ed25519");
    save("server");
    auto const target = resolve("server")->route.destination();
    EXPECT_THAT(target.keyFiles, ElementsAre((m_home.dir() / ".ssh/id_ed25519").string(),
                                             (m_home.dir() / ".ssh/id_rsa").string()));
    EXPECT_EQ(target.agentSocket, "/run/agent");
    EXPECT_THAT(target.knownHostsFiles, ::testing::Contains("/etc/ssh/ssh_known_hosts"));
}

TEST_F(RouteTest, InAFolderOfItsOwnNothingOfTheAccountIsUsedUnlessNamed)
{
    m_defaults.isolated = true;
    m_home.makeKey("id_ed25519");
    auto& host = save("server");
    EXPECT_THAT(resolve("server")->route.destination().keyFiles, IsEmpty());
    EXPECT_THAT(resolve("server")->route.destination().knownHostsFiles, IsEmpty());
    EXPECT_EQ(resolve("server")->route.destination().agentSocket, "");
    host.agentSocket = "SSH_AUTH_SOCK";
    host.keyFiles = {"~/.ssh/id_ed25519"};
    EXPECT_EQ(resolve("server")->route.destination().agentSocket, "/run/agent");
    EXPECT_THAT(resolve("server")->route.destination().keyFiles,
                ElementsAre((m_home.dir() / ".ssh/id_ed25519").string()));
}

TEST_F(RouteTest, AHostWithAPasswordIsNotOfferedKeysThatNobodyNamed)
{
    m_home.makeKey("id_ed25519");
    save("server").authType = AuthType::Password;
    EXPECT_THAT(resolve("server")->route.destination().keyFiles, IsEmpty());
    EXPECT_EQ(resolve("server")->route.destination().agentSocket, "");
}

TEST_F(RouteTest, ARelativeKeyFileIsRefusedBecauseTheFolderOfTheServerIsAnyones)
{
    save("server").keyFiles = {"keys/deploy"};
    EXPECT_EQ(resolve("server").error().code, Errc::InvalidArgument);
}

TEST_F(RouteTest, TheTokensOfAProxyCommandAreThoseOfSshConfig)
{
    auto& host = save("server");
    host.port = 2222;
    host.proxyCommand = "nc -X 5 -x proxy:1080 %h %p # %r %n 100%%";
    EXPECT_EQ(resolve("server")->route.destination().proxyCommand,
              "nc -X 5 -x proxy:1080 server.example 2222 # deploy server 100%");
    for (auto const* const wrong : {"nc %d", "nc %", "nc %%%"}) {
        host.proxyCommand = wrong;
        EXPECT_EQ(resolve("server").error().code, Errc::InvalidArgument) << wrong;
    }
}

TEST_F(RouteTest, AValueThatAShellWouldActOnNeverReachesAProxyCommand)
{
    auto& host = save("server");
    host.proxyCommand = "nc %h %p";
    for (auto const* const name :
         {"a;id", "$(id)", "`id`", "a b", "-oProxyCommand=x", "a\nb", "a'b", "a|b"}) {
        host.hostname = name;
        auto const route = resolve("server");
        ASSERT_FALSE(route) << name;
        EXPECT_EQ(route.error().code, Errc::InvalidArgument);
    }
}

TEST_F(RouteTest, AProxyCommandOfAHostBehindAJumpIsNotRun)
{
    save("gate").proxyCommand = "nc %h %p";
    save("server", {"gate"}).proxyCommand = "nc %h %p";
    auto const route = resolve("server");
    ASSERT_TRUE(route);
    EXPECT_EQ(route->route.hops[0].proxyCommand, "nc gate.example 22");
    EXPECT_EQ(route->route.hops[1].proxyCommand, "");
}

TEST_F(RouteTest, ThisComputersOwnShellIsNoServerToLogInTo)
{
    save("local").id = "local";
    save("server", {"local"});
    EXPECT_EQ(resolve("local").error().code, Errc::Unsupported);
    EXPECT_EQ(resolve("server").error().code, Errc::InvalidArgument);
}

TEST_F(RouteTest, WithoutAUserNameTheAccountsOwnIsUsed)
{
    save("server").username.clear();
    EXPECT_EQ(resolve("server")->route.destination().user, "me");
}

} // namespace
} // namespace termalin::ssh
