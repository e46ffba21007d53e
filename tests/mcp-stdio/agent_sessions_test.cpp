// What an agent holds on real servers, and how it loses it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/settings.h"
#include "tests/mcp-stdio/desk.h"
#include "tests/support/process.h"
#include "tests/support/program.h"
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
    /// Saves "web", which is reached over `relay`.
    Host saveBehind(Relay const& relay, Sshd const& server, AgentPolicy policy,
                    std::vector<std::string> rules = {})
    {
        auto known = readFile(server.knownHosts());
        auto const port = std::to_string(server.port());
        known.replace(known.find(port), port.size(), std::to_string(relay.port()));
        auto const file = server.folder() / "relayed";
        writeFile(file, known);
        return m_desk.save(server, "web", policy, [&](Host& host) {
            host.port = relay.port();
            host.knownHostsFiles = {file};
            host.rules = std::move(rules);
        });
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
    m_desk.save(m_server, "web", AgentPolicy::Allowlist,
                [](Host& host) { host.rules = {"cat *", "tail **"}; });
    auto const id = session();
    auto const pipe = m_server.home() / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    writeFile(m_server.home() / "lines", "begun\n");
    auto const exec = [&](std::string const& command) {
        return m_desk.start("session_exec", {{"session", id}, {"command", command}, {"timeoutSeconds", 600}});
    };
    auto const admitted = exec("cat pipe");
    UniqueFd writer;
    ASSERT_TRUE(eventually([&] { // it opens once somebody reads
        writer.reset(::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
        return static_cast<bool>(writer);
    }));
    auto const refused = exec("tail -f lines");
    ASSERT_TRUE(m_desk.awaitProgress(refused, "begun"));
    m_desk.changeOutside("web", [](Host& host) { host.rules = {"cat *"}; });
    // Both are judged by the same look at the host, so that the one has been once the other was stopped.
    EXPECT_EQ(m_desk.await(refused).value()["completion"], "cancelled");
    ASSERT_EQ(::write(writer.get(), "still here\n", 11), 11);
    writer.reset();
    auto const ended = m_desk.await(admitted).value();
    EXPECT_EQ(ended["completion"], "exit");
    EXPECT_EQ(ended["output"], "still here\n");
    EXPECT_FALSE(ended.contains("note"));
}

/// A login shell that waits until it is let go on: whatever asks it something is held up on the server.
class SlowShellTest : public AgentSessionsTest {
protected:
    SlowShellTest()
    {
        writeFile(m_shell, "#!/bin/sh\n: >" + asked().string() + "\nwhile [ ! -e " + m_gate.string() +
                               " ]; do sleep 0.02; done\nexec /bin/sh \"$@\"\n");
        ::chmod(m_shell.c_str(), 0755);
        ::chmod(m_dir.path().c_str(), 0755);
    }
    [[nodiscard]] std::filesystem::path asked() const { return m_dir / "asked"; }
    bool isAsked() const
    {
        return eventually([&] { return std::filesystem::exists(asked()); });
    }
    void letGo() { writeFile(m_gate, ""); }

    TempDir m_dir;
    std::filesystem::path m_shell = m_dir / "shell";
    std::filesystem::path m_gate = m_dir / "gate";
};

TEST_F(SlowShellTest, APolicyThatChangesWhileTheLoginShellIsAskedCounts)
{
    Sshd const slow({.loginShell = m_shell});
    m_desk.save(slow, "web", AgentPolicy::Allowlist, [](Host& host) { host.rules = {"touch *", "id"}; });
    auto const call = m_desk.start("ssh_exec", {{"host", "web"}, {"command", "touch ran"}});
    ASSERT_TRUE(isAsked());
    m_desk.changeOutside("web", [](Host& host) { host.rules = {"id"}; });
    letGo();
    auto const code = m_desk.await(call).code();
    EXPECT_TRUE(code == "not_in_allowlist" || code == "cancelled") << code; // whichever is seen first
    EXPECT_FALSE(std::filesystem::exists(slow.home() / "ran"));
}

TEST_F(SlowShellTest, SoDoesOneThatBecameAnAllowlistAfterTheCallHadBegun)
{
    Sshd const slow({.loginShell = m_shell});
    Relay relay(slow.port());
    saveBehind(relay, slow, AgentPolicy::Full);
    relay.goSilent();
    auto const call = m_desk.start("ssh_exec", {{"host", "web"}, {"command", "touch ran"}});
    ASSERT_TRUE(eventually([&] { return slow.accepted() == 1; })); // it has been admitted, and logs in
    m_desk.changeOutside("web", [](Host& host) {
        host.policy = AgentPolicy::Allowlist;
        host.rules = {"touch *", "id"};
    });
    relay.speakAgain();
    ASSERT_TRUE(isAsked());
    m_desk.changeOutside("web", [](Host& host) { host.rules = {"id"}; });
    letGo();
    auto const code = m_desk.await(call).code();
    EXPECT_TRUE(code == "not_in_allowlist" || code == "cancelled") << code;
    EXPECT_FALSE(std::filesystem::exists(slow.home() / "ran"));
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

TEST_F(AgentSessionsTest, AStoreThatCannotBeReadClosesSessionsAndDoesNotClaimThatAHostWasRemoved)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const id = session();
    auto const call = startLong(id, uniqueSeconds());
    ASSERT_TRUE(test::run({"python3", "-c",
                           "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('ALTER TABLE hosts "
                           "RENAME TO lost')",
                           m_desk.paths().store.string()})
                    .ok());
    auto const stopped = m_desk.await(call).value();
    EXPECT_EQ(stopped["completion"], "cancelled");
    EXPECT_THAT(stopped["note"].get<std::string>(), HasSubstr("could not be read"));
    EXPECT_TRUE(eventually([&] { return sessionsOpen() == 0; }));
    auto const closed = m_desk.sessions().use(id);
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().code, Errc::Internal);
    EXPECT_THAT(closed.error().message, HasSubstr(m_desk.paths().store.string()));
    for (auto const& text : {stopped["note"].get<std::string>(), closed.error().message})
        EXPECT_THAT(text, ::testing::Not(HasSubstr("removed")));
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
    saveBehind(relay, m_server, AgentPolicy::Full);
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

TEST_F(AgentSessionsTest, ASpareThatIsNotReadyTakesNoTimeFromACallThatHasLittle)
{
    Relay relay(m_server.port());
    auto const host = saveBehind(relay, m_server, AgentPolicy::Full);
    auto const store = *Store::open(m_desk.paths().store);
    mcp::Connector connector({.store = *store, .paths = m_desk.paths()});
    mcp::Closer closer;
    mcp::Spares spares(connector, closer);
    auto opened = connector.open(host, Deadline::in(std::chrono::seconds(60)), {});
    ASSERT_TRUE(opened) << opened.error().message;
    relay.goSilent();
    spares.prepare(host);
    ASSERT_EQ(spares.hostIds().size(), 1U);
    auto const deadline = Deadline::in(std::chrono::seconds(15));
    EXPECT_EQ(spares.take(host, deadline, {}), nullptr);
    EXPECT_FALSE(deadline.passed());
    relay.speakAgain();
    EXPECT_NE(spares.take(host, Deadline::in(std::chrono::minutes(10)), {}), nullptr)
        << "with time, it waits";
    closer.close(*std::move(opened));
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
    EXPECT_TRUE(
        eventually([&] { return m_server.sessions().empty(); })); // until then it may still take a command
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
