#include <atomic>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "ssh/connection.h"
#include "tests/support/process.h"
#include "tests/support/sshd.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using test::Sshd;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<ExecOutcome> run(Connection& connection, std::string command, std::size_t cap = 64 * 1024)
{
    ExecRequest request;
    request.command = std::move(command);
    request.outputCap = cap;
    return connection.exec(std::move(request), Deadline::in(60s), {});
}

class JumpTest : public ::testing::Test {
protected:
    JumpTest()
    {
        m_first = m_firstServer.target();
        m_first.name = "first";
        m_second = m_secondServer.target();
        m_second.name = "second";
        m_last = m_lastServer.target();
        m_last.name = "last";
        m_known = m_lastServer.folder() / "all_known";
        trust({&m_firstServer, &m_secondServer, &m_lastServer});
    }

    void trust(std::vector<Sshd const*> const& servers)
    {
        std::string all;
        for (auto const* server : servers)
            all += test::readFile(server->knownHosts());
        test::writeFile(m_known, all);
    }

    [[nodiscard]] LoginContext context() const
    {
        auto context = m_lastServer.context();
        context.ownKnownHosts = m_known;
        return context;
    }

    Result<std::shared_ptr<Connection>> open() const
    {
        return Connection::open({{m_first, m_second, m_last}}, context(), Deadline::in(30s), {});
    }

    Sshd m_firstServer, m_secondServer, m_lastServer;
    Target m_first, m_second, m_last;
    std::filesystem::path m_known;
};

TEST_F(JumpTest, ReachesAServerThroughAChainOfTwo)
{
    auto const connection = open();
    ASSERT_TRUE(connection) << connection.error().message;
    auto const outcome =
        run(**connection, "echo $SSH_CONNECTION | cut -d' ' -f4; head -c 3000000 /dev/zero | tr '\\0' z",
            4'000'000);
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(outcome->output.text == std::to_string(m_last.port) + "\n" + std::string(3'000'000, 'z'));
    for (auto const* server : {&m_firstServer, &m_secondServer, &m_lastServer})
        EXPECT_EQ(server->accepted(), 1U);
}

TEST_F(JumpTest, ChecksEachHopsKeyUnderItsOwnName)
{
    trust({&m_firstServer, &m_lastServer});
    auto const refused = open();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::HostKeyUnknown);
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr("second"), HasSubstr("On the way to last")));
    EXPECT_EQ(m_lastServer.accepted(), 0U);
}

TEST_F(JumpTest, FetchesTheLastServersKeyThroughTheChain)
{
    trust({&m_firstServer, &m_secondServer});
    auto const key = fetchServerKey({{m_first, m_second, m_last}}, context(), Deadline::in(30s), {});
    ASSERT_TRUE(key) << key.error().message;
    EXPECT_EQ(key->type, "ssh-ed25519");
}

TEST_F(JumpTest, SaysThatTheJumpHostCouldNotConnect)
{
    m_last.port = 1;
    auto const refused = open();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Unreachable);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("last (127.0.0.1 port 1)"), HasSubstr("could not connect")));
}

TEST_F(JumpTest, RefusesACircleAndTooManyHops)
{
    auto const circle = Connection::open({{m_first, m_second, m_first}}, context(), Deadline::in(30s), {});
    ASSERT_FALSE(circle);
    EXPECT_EQ(circle.error().code, Errc::InvalidArgument);
    EXPECT_THAT(circle.error().message, HasSubstr("circle"));

    Route longRoute;
    for (std::size_t i = 0; i <= kMaxHops; ++i) {
        auto hop = m_first;
        hop.port = static_cast<std::uint16_t>(i + 1);
        longRoute.hops.push_back(hop);
    }
    auto const tooLong = Connection::open(longRoute, context(), Deadline::in(30s), {});
    ASSERT_FALSE(tooLong);
    EXPECT_EQ(tooLong.error().code, Errc::InvalidArgument);
    EXPECT_EQ(m_firstServer.accepted(), 0U);
}

TEST_F(JumpTest, EndsWhenTheJumpHostIsLost)
{
    auto const connection = open();
    ASSERT_TRUE(connection) << connection.error().message;
    m_firstServer.killSessions();
    EXPECT_TRUE(test::eventually([&] { return !(*connection)->alive(); }));
    EXPECT_THAT((*connection)->whyClosed(), HasSubstr("lost"));
}

TEST_F(JumpTest, StopsACommandAtTheFarEnd)
{
    auto const connection = open();
    ASSERT_TRUE(connection) << connection.error().message;
    auto const seconds = test::uniqueSeconds();
    std::stop_source stop;
    ExecRequest request;
    request.command = "echo ready; exec sleep " + seconds;
    request.onOutput = [&](std::string_view) { stop.request_stop(); };
    auto const outcome = (*connection)->exec(std::move(request), Deadline::in(60s), stop.get_token());
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->stopped, Stopped::Confirmed) << outcome->note;
    EXPECT_THAT(test::processesWith("sleep " + seconds), IsEmpty());
}

class ProxyTest : public ::testing::Test {
protected:
    Sshd m_server;
    Target m_target = m_server.target();
    /// Passes bytes between its own input and output and the server, with what bash has built in.
    [[nodiscard]] std::string relay(std::string const& marker) const
    {
        return "bash -c 'exec 9<>/dev/tcp/127.0.0.1/" + std::to_string(m_server.port()) +
               "; cat <&9 & cat >&9; : " + marker + "'";
    }
    [[nodiscard]] Result<std::shared_ptr<Connection>> open() const
    {
        return Connection::open({{m_target}}, m_server.context(), Deadline::in(30s), {});
    }
};

TEST_F(ProxyTest, IsSpokenThroughAndEndsWithTheConnection)
{
    auto const marker = "proxy-" + test::uniqueSeconds();
    m_target.proxyCommand = relay(marker);
    auto connection = open();
    ASSERT_TRUE(connection) << connection.error().message;
    auto const outcome = run(**connection, "echo through");
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->output.text, "through\n");
    EXPECT_FALSE(test::processesWith(marker).empty());
    connection->reset();
    EXPECT_TRUE(test::eventually([&] { return test::processesWith(marker).empty(); }));
}

TEST_F(ProxyTest, InheritsNoDescriptorOfOurs)
{
    auto const file = m_server.folder() / "descriptors";
    auto const ours = m_server.folder() / "ours";
    test::writeFile(ours, "");
    UniqueFd const leaky(::open(ours.c_str(), O_RDONLY)); // without CLOEXEC, as a library might open one
    m_target.proxyCommand = "ls -l /proc/self/fd >" + file.string();
    auto const refused = open();
    ASSERT_FALSE(refused);
    EXPECT_THAT(test::readFile(file),
                AllOf(HasSubstr("0 -> socket:"), ::testing::Not(HasSubstr(ours.string()))));
}

TEST_F(ProxyTest, TellsWhatTheCommandSaidWhenItFails)
{
    m_target.proxyCommand = "sh -c 'echo no such gateway >&2; exit 3'";
    auto const refused = open();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Unreachable);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("ended with status 3"), HasSubstr("no such gateway")));
}

TEST_F(ProxyTest, IsEndedWhenTheProgramIsKilled)
{
    auto const marker = "proxy-" + test::uniqueSeconds();
    m_target.proxyCommand = relay(marker);
    // A process of its own holds the connection, and is killed as by kill -9.
    auto const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto const connection = open();
        while (connection)
            ::pause();
        ::_exit(1);
    }
    EXPECT_TRUE(test::eventually([&] { return m_server.accepted() == 1; }));
    EXPECT_FALSE(test::processesWith(marker).empty());
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(test::eventually([&] { return test::processesWith(marker).empty(); }));
}

} // namespace
} // namespace termalin::ssh
