// What an agent holds on real servers, and how it loses it.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>

#include "core/settings.h"
#include "tests/mcp-stdio/desk.h"
#include "tests/support/process.h"
#include "tests/support/relay.h"

namespace termalin::test {
namespace {

using ::testing::HasSubstr;

bool listens(std::string const& listenAddr)
{
    UniqueFd const fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(listenAddr.substr(listenAddr.find(':') + 1))));
    return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

class AgentSessionsTest : public ::testing::Test {
protected:
    std::string session(std::string const& host = "web")
    {
        auto const opened = m_desk.call("session_open", {{"host", host}});
        EXPECT_EQ(opened.code(), "") << opened.text();
        return opened.value().at("sessionId");
    }
    std::string tunnel(std::string const& sessionId)
    {
        auto const opened = m_desk.call("tunnel_open", {{"session", sessionId}, {"type", "dynamic"}});
        EXPECT_EQ(opened.code(), "") << opened.text();
        return opened.value().at("listenAddr");
    }
    Reply run(std::string const& sessionId, std::string const& command)
    {
        return m_desk.call("session_exec", {{"session", sessionId}, {"command", command}});
    }
    /// A command that runs until it is stopped, begun for sure.
    int startLong(std::string const& sessionId, std::string const& seconds)
    {
        auto const call = m_desk.start("session_exec", {{"session", sessionId},
                                                        {"command", "echo begun; exec sleep " + seconds},
                                                        {"timeoutSeconds", 3600}});
        EXPECT_TRUE(m_desk.awaitProgress(call, "begun"));
        return call;
    }
    std::size_t sessionsOpen()
    {
        return m_desk.call("session_list", Json::object()).value().at("sessions").size();
    }
    std::size_t tunnelsOpen()
    {
        return m_desk.call("tunnel_list", Json::object()).value().at("tunnels").size();
    }

    Sshd m_server;
    Desk m_desk;
};

TEST_F(AgentSessionsTest, APolicyNarrowedByAnotherProcessStopsWhatRunsAndClosesTunnels)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const id = session();
    auto const port = tunnel(id);
    auto const seconds = uniqueSeconds();
    auto const call = startLong(id, seconds);
    EXPECT_TRUE(listens(port));
    m_desk.changeOutside("web", [](Host& host) {
        host.policy = AgentPolicy::Allowlist;
        host.rules = {"echo *"};
    });
    auto const stopped = m_desk.await(call).value();
    EXPECT_EQ(stopped["completion"], "cancelled");
    EXPECT_EQ(stopped["output"], "begun\n");
    EXPECT_THAT(stopped["note"].get<std::string>(), HasSubstr("no longer admits"));
    EXPECT_TRUE(eventually([&] { return processesWith("sleep " + seconds).empty(); }));
    EXPECT_TRUE(eventually([&] { return !listens(port); }));
    EXPECT_EQ(tunnelsOpen(), 0U);
    EXPECT_EQ(run(id, "echo still").value()["output"], "still\n") << "what is still allowed goes on";
}

TEST_F(AgentSessionsTest, ACommandThatANarrowerPolicyStillAdmitsRunsOn)
{
    m_desk.save(m_server, "web", AgentPolicy::Allowlist, [](Host& host) { host.rules = {"cat *", "id"}; });
    auto const id = session();
    auto const call =
        m_desk.start("session_exec", {{"session", id}, {"command", "cat fifo"}, {"timeoutSeconds", 600}});
    auto const fifo = m_server.home() / "fifo";
    m_desk.await(call); // there is no such file: it ends by itself
    m_desk.changeOutside("web", [](Host& host) { host.rules = {"cat *"}; });
    EXPECT_EQ(run(id, "id").code(), "not_in_allowlist");
    EXPECT_EQ(run(id, "cat nothing").value()["completion"], "exit");
}

TEST_F(AgentSessionsTest, ABlockedHostsSessionsEndAndSayWhy)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const id = session();
    auto const call = startLong(id, uniqueSeconds());
    m_desk.changeOutside("web", [](Host& host) { host.policy = AgentPolicy::Blocked; });
    EXPECT_EQ(m_desk.await(call).value()["completion"], "cancelled");
    EXPECT_EQ(run(id, "id").code(), "blocked_by_policy");
    EXPECT_TRUE(eventually([&] { return m_server.sessions().empty(); }));
    EXPECT_EQ(sessionsOpen(), 0U);
}

TEST_F(AgentSessionsTest, ARemovedOrMovedHostTakesItsSessionsWithIt)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    m_desk.save(m_server, "db", AgentPolicy::Full);
    auto const removed = session("web");
    auto const moved = session("db");
    auto const port = tunnel(moved);
    m_desk.removeOutside("web");
    m_desk.changeOutside("db", [](Host& host) { host.hostname = "localhost"; });
    EXPECT_TRUE(eventually([&] { return sessionsOpen() == 0; }));
    EXPECT_EQ(run(removed, "id").code(), "unknown_session");
    EXPECT_EQ(run(moved, "id").code(), "unknown_session");
    EXPECT_TRUE(eventually([&] { return !listens(port); }));
    EXPECT_TRUE(eventually([&] { return m_server.sessions().empty(); }));
}

TEST_F(AgentSessionsTest, AChangedJumpHostEndsWhatGoesThroughIt)
{
    Sshd const gate;
    m_desk.save(gate, "gate", AgentPolicy::Blocked);
    m_desk.save(m_server, "web", AgentPolicy::Full, [](Host& host) { host.jump = {"gate"}; });
    auto const id = session();
    EXPECT_EQ(run(id, "echo through").value()["output"], "through\n");
    EXPECT_EQ(gate.accepted(), 1U);
    m_desk.changeOutside("gate", [](Host& host) { host.username = "another"; });
    EXPECT_TRUE(eventually([&] { return sessionsOpen() == 0; }));
    EXPECT_EQ(run(id, "id").code(), "unknown_session");
}

TEST_F(AgentSessionsTest, StopEverythingStopsCommandsAndTunnelsAndHoldsUntilItIsLifted)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const id = session();
    auto const port = tunnel(id);
    auto const seconds = uniqueSeconds();
    auto const call = startLong(id, seconds);
    ASSERT_TRUE(changeSetting(m_desk.paths().settings, "agents.stopped", "true"));
    auto const stopped = m_desk.await(call).value();
    EXPECT_EQ(stopped["completion"], "cancelled");
    EXPECT_THAT(stopped["note"].get<std::string>(), HasSubstr("stopped all agents"));
    EXPECT_TRUE(eventually([&] { return !listens(port); }));
    EXPECT_TRUE(eventually([&] { return processesWith("sleep " + seconds).empty(); }));
    for (auto const& [tool, arguments] : {std::pair<std::string, Json>{"hosts_list", Json::object()},
                                          {"ssh_exec", {{"host", "web"}, {"command", "id"}}},
                                          {"session_exec", {{"session", id}, {"command", "id"}}},
                                          {"generate_password", Json::object()}})
        EXPECT_EQ(m_desk.call(tool, arguments).code(), "consent_required") << tool;
    ASSERT_TRUE(changeSetting(m_desk.paths().settings, "agents.stopped", "false"));
    EXPECT_EQ(run(id, "echo again").value()["output"], "again\n");
}

TEST_F(AgentSessionsTest, ASessionWhoseServerDiedIsToldOnceAndGone)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const id = session();
    auto const port = tunnel(id);
    m_server.killSessions();
    EXPECT_TRUE(eventually([&] { return sessionsOpen() == 0; }));
    auto const lost = run(id, "id");
    EXPECT_EQ(lost.code(), "not_connected");
    EXPECT_THAT(lost.text(), HasSubstr("session_open"));
    EXPECT_TRUE(eventually([&] { return !listens(port); }));
    EXPECT_EQ(tunnelsOpen(), 0U);
}

TEST_F(AgentSessionsTest, LoginsThatNeverAnsweredDoNotHoldUpTheNext)
{
    Relay relay(m_server.port());
    auto known = readFile(m_server.knownHosts());
    auto const port = std::to_string(m_server.port());
    known.replace(known.find(port), port.size(), std::to_string(relay.port()));
    auto const file = m_server.folder() / "relayed";
    writeFile(file, known);
    m_desk.save(m_server, "web", AgentPolicy::Full, [&](Host& host) {
        host.port = relay.port();
        host.knownHostsFile = file;
    });
    relay.goSilent();
    std::vector<int> calls; // more than there are logins to one host at a time
    for (int i = 0; i < 20; ++i)
        calls.push_back(
            m_desk.start("ssh_exec", {{"host", "web"}, {"command", "echo never"}, {"timeoutSeconds", 1}}));
    for (auto const call : calls)
        EXPECT_EQ(m_desk.await(call).code(), "timeout");
    relay.speakAgain();
    EXPECT_EQ(m_desk.call("ssh_exec", {{"host", "web"}, {"command", "echo hi"}}).value()["output"], "hi\n");
}

TEST_F(AgentSessionsTest, ClosingASessionStopsItsCommands)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const id = session();
    auto const seconds = uniqueSeconds();
    auto const call = startLong(id, seconds);
    EXPECT_EQ(m_desk.call("session_close", {{"session", id}}).value()["closed"], true);
    EXPECT_EQ(m_desk.await(call).value()["completion"], "cancelled");
    EXPECT_TRUE(eventually([&] { return processesWith("sleep " + seconds).empty(); }));
}

TEST_F(AgentSessionsTest, ASpareIsReadyForTheNextCallAndUsedOnce)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    std::set<std::string> lines; // SSH_CONNECTION names our port: another one, another connection
    constexpr std::size_t kCalls = 5;
    for (std::size_t i = 1; i <= kCalls; ++i) {
        auto const reply = m_desk.call("ssh_exec", {{"host", "web"}, {"command", "echo $SSH_CONNECTION"}});
        ASSERT_EQ(reply.code(), "") << reply.text();
        lines.insert(reply.value()["output"]);
        // The spare for the next call, and no more.
        EXPECT_TRUE(eventually([&] { return m_server.accepted() == i + 1; })) << i;
    }
    EXPECT_EQ(lines.size(), kCalls);
    EXPECT_TRUE(eventually([&] { return m_server.sessions().size() == 1; })) << "used ones are closed";
}

TEST_F(AgentSessionsTest, ASpareGoesWhenItsHostChangesAndADeadOneIsNotUsed)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const exec = [&] { return m_desk.call("ssh_exec", {{"host", "web"}, {"command", "echo hi"}}); };
    EXPECT_EQ(exec().value()["output"], "hi\n");
    EXPECT_TRUE(eventually([&] { return m_server.accepted() == 2 && m_server.sessions().size() == 1; }));
    m_server.killSessions();
    EXPECT_EQ(exec().value()["output"], "hi\n");
    EXPECT_TRUE(eventually([&] { return m_server.accepted() == 4 && m_server.sessions().size() == 1; }));
    m_desk.changeOutside("web", [](Host& host) { host.notes = "changed"; });
    EXPECT_TRUE(eventually([&] { return m_server.sessions().empty(); }));
    EXPECT_EQ(m_server.accepted(), 4U);
}

TEST_F(AgentSessionsTest, ThereAreAtMost32SessionsAnd64Tunnels)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    std::vector<int> calls;
    for (std::size_t i = 0; i < mcp::AgentSessions::kMostSessions; ++i)
        calls.push_back(m_desk.start("session_open", {{"host", "web"}}));
    std::string id;
    for (auto const call : calls)
        id = m_desk.await(call).value().at("sessionId");
    auto const more = m_desk.call("session_open", {{"host", "web"}});
    EXPECT_EQ(more.code(), "too_many");
    EXPECT_EQ(more.result["_meta"]["retryable"], true);
    for (std::size_t i = 0; i < mcp::AgentSessions::kMostTunnels; ++i)
        tunnel(id);
    EXPECT_EQ(m_desk.call("tunnel_open", {{"session", id}, {"type", "dynamic"}}).code(), "too_many");
    EXPECT_EQ(m_desk.call("session_close", {{"session", id}}).code(), "");
    EXPECT_EQ(m_desk.call("session_open", {{"host", "web"}}).code(), "");
}

TEST_F(AgentSessionsTest, TwoHundredCallsAtOnceAllEndWell)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const id = session();
    std::vector<std::pair<int, int>> calls;
    for (int i = 0; i < 200; ++i) {
        Json arguments{{"command", "echo " + std::to_string(i)}, {"timeoutSeconds", 600}};
        auto const fresh = i % 5 == 0; // a login each
        arguments[fresh ? "host" : "session"] = fresh ? "web" : id;
        calls.emplace_back(m_desk.start(fresh ? "ssh_exec" : "session_exec", arguments), i);
    }
    for (auto const& [call, number] : calls) {
        auto const reply = m_desk.await(call);
        ASSERT_EQ(reply.code(), "") << reply.text();
        EXPECT_EQ(reply.value()["output"], std::to_string(number) + "\n");
    }
}

} // namespace
} // namespace termalin::test
