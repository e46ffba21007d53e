#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"
#include "core/audit.h"
#include "core/secret.h"
#include "core/store.h"
#include "mcp-stdio/app_link.h"
#include "mcp-stdio/control_socket.h"
#include "mcp-stdio/signing.h"
#include "ssh/saved_credentials.h"
#include "ssh/wire.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin::mcp {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// What the app will be: the nine rows and the keys, with answers that a test can look at.
class FakeApp : public AppApi, public AppDesk {
public:
    Result<Json> terminalHosts(Call const& call) override
    {
        std::lock_guard const lock(mutex);
        lastClient = call.client;
        return Json{{"hosts", Json::array()}};
    }
    Result<Json> terminalSessions(Call const&) override { return fail(Errc::ConsentRequired, "It is off."); }
    Result<Json> terminalOpen(std::string const&, Call const&) override
    {
        return fail(Errc::UnknownHost, "x");
    }
    Result<Json> terminalRun(std::string const& tabId, std::string const& command,
                             std::chrono::seconds timeout, Call const& call) override
    {
        call.progress.say("building");
        std::unique_lock lock(mutex);
        ++running;
        changed.notify_all();
        changed.wait(lock, call.stop, [this] { return released; });
        --running;
        changed.notify_all();
        if (call.stop.stop_requested())
            return fail(Errc::Cancelled, "stopped");
        return Json{{"tabId", tabId}, {"output", command}, {"durationMs", timeout.count()}};
    }
    Result<Json> terminalRunMany(std::vector<std::string> const&, std::string const&, std::chrono::seconds,
                                 Call const&) override
    {
        return Json{{"results", Json::array()}};
    }
    Result<Json> dataList(Call const&) override { return Json{{"connections", Json::array()}}; }
    Result<Json> dataTables(std::string const&, std::optional<std::string> const&, Call const&) override
    {
        return fail(Errc::UnknownConnection, "x");
    }
    Result<Json> dataSchema(TableName const&, Call const&) override
    {
        return fail(Errc::UnknownConnection, "x");
    }
    Result<Json> dataQuery(Query const&, Call const& call) override
    {
        if (!call.shownDestructive)
            return fail(Errc::ReadOnly, "Fetch the tool list again.");
        return Json{{"rowCount", 0}};
    }
    [[nodiscard]] bool grantsDataWrites() const override { return writes; }

    Result<std::vector<Key>> keys(Host const& host) override
    {
        if (locked)
            return fail(Errc::AppLocked, "Termalin is locked.");
        return std::vector<Key>{{key, "deploy of " + host.name}};
    }
    Result<std::string> sign(Host const&, std::string_view, std::string_view algorithm, std::string_view data,
                             std::stop_token const&) override
    {
        ++signatures;
        return "signed " + std::string(algorithm) + std::to_string(data.size());
    }
    void began(std::uint64_t client, ClientInfo const& agent, Activity const& activity) override
    {
        note(fmt::format("+{} {} {} {}", activity.id, activity.tool, activity.detail, agent.name));
        lastNumber = client;
    }
    void ended(std::uint64_t, Activity::Kind, std::string_view id) override { note(fmt::format("-{}", id)); }
    void left(std::uint64_t) override { note("left"); }

    void note(std::string text)
    {
        std::lock_guard const lock(mutex);
        board.push_back(std::move(text));
        changed.notify_all();
    }
    bool waitForBoard(std::vector<std::string> const& expected)
    {
        std::unique_lock lock(mutex);
        return changed.wait_for(lock, test::kPatience, [&] { return board == expected; });
    }
    bool waitForRunning(int count)
    {
        std::unique_lock lock(mutex);
        return changed.wait_for(lock, test::kPatience, [&] { return running == count; });
    }
    void release()
    {
        std::lock_guard const lock(mutex);
        released = true;
        changed.notify_all();
    }

    std::mutex mutex;
    std::condition_variable_any changed;
    int running = 0;
    bool released = false;
    std::vector<std::string> board;
    ClientInfo lastClient;
    std::atomic<std::uint64_t> lastNumber = 0;
    std::atomic<bool> writes = false;
    std::atomic<bool> locked = false;
    std::atomic<int> signatures = 0;
    std::string key = ssh::WireWriter().string("ssh-ed25519").string(std::string(32, 'k')).bytes();
};

/// The app's end: the same server code on a real socket.
class App {
public:
    explicit App(std::filesystem::path const& folder)
    {
        auto opened = Store::open(folder / "termalin.db");
        EXPECT_TRUE(opened) << opened.error().message;
        store = *std::move(opened);
        services.paths.settings = folder / "settings.json";
        services.store = store.get();
        services.gatekeeper = &gate;
        services.insideApp = &fake;
        socket = folder / "run" / "control";
        start();
    }
    void start()
    {
        auto opened = Listener::open(socket, services, fake);
        ASSERT_TRUE(opened) << opened.error().message;
        listener = *std::move(opened);
    }
    std::string addHost(AgentPolicy policy)
    {
        Host host;
        host.name = std::string("host-") + std::string(toString(policy));
        host.hostname = "192.0.2.1";
        host.username = "deploy";
        host.policy = policy;
        auto const added = store->addHost(host);
        EXPECT_TRUE(added) << added.error().message;
        return added ? added->id : "";
    }

    FakeApp fake;
    test::OpenGate gate;
    std::unique_ptr<Store> store;
    Services services;
    std::filesystem::path socket;
    std::unique_ptr<Listener> listener;
};

std::string asItIs(std::string_view detail)
{
    return std::string(detail);
}

/// A login to a saved host, along jump hosts if it leads to another.
ssh::SignerWish login(std::string const& hostId, std::string const& leadsTo = {},
                      Deadline deadline = Deadline::in(60s), std::stop_token stop = {})
{
    return {.hostId = hostId,
            .leadsTo = leadsTo.empty() ? hostId : leadsTo,
            .deadline = deadline,
            .stop = std::move(stop)};
}

/// termalin-mcp's end, whose client is an agent.
class Agent {
public:
    explicit Agent(std::filesystem::path const& socket)
        : link(AppLink::make(socket, {"agent", "1", "/bin/agent"}, asItIs)), client(allTools())
    {
        client.services.app = link.get();
        link->onGrantsChanged([this] { client.server.toolsChanged(); });
        client.initialize();
    }
    Json call(std::string_view tool, std::string_view arguments = "{}")
    {
        client.call("1", tool, arguments);
        return client.next()["result"];
    }

    std::unique_ptr<AppLink> link;
    test::Client client;
};

class AppLinkTest : public ::testing::Test {
protected:
    termalin::test::TempDir m_dir;
};

TEST_F(AppLinkTest, AnswersAppNotRunningWithWhatToDoAndFindsAnAppThatStartsLater)
{
    Agent agent(m_dir / "run/control");
    auto const result = agent.call("terminal_hosts");
    EXPECT_EQ(result["_meta"], (Json{{"code", "app_not_running"}, {"retryable", false}}));
    EXPECT_THAT(result["content"][0]["text"].get<std::string>(), HasSubstr("start it"));
    App app(m_dir.path());
    EXPECT_EQ(agent.call("terminal_hosts")["structuredContent"], (Json{{"hosts", Json::array()}}));
    app.listener.reset();
    EXPECT_EQ(agent.call("terminal_hosts")["_meta"]["code"], "app_not_running");
    app.start();
    EXPECT_EQ(agent.call("terminal_hosts")["structuredContent"], (Json{{"hosts", Json::array()}}));
}

TEST_F(AppLinkTest, PassesOnTheCallItsResultItsFailureAndWhoAsks)
{
    App app(m_dir.path());
    Agent agent(app.socket);
    app.fake.release();
    auto const result = agent.call("terminal_run", R"({"tabId":"t1","command":"make","timeoutSeconds":9.0})");
    EXPECT_EQ(result["structuredContent"], (Json{{"tabId", "t1"}, {"output", "make"}, {"durationMs", 9}}));
    EXPECT_EQ(agent.call("terminal_sessions")["content"][0]["text"], "consent_required: It is off.");
    agent.call("terminal_hosts");
    EXPECT_EQ(app.fake.lastClient.name, "test");  // the agent's client, not termalin-mcp
    EXPECT_TRUE(agent.client.gate.log().empty()); // the app judges, and it alone
    EXPECT_THAT(app.gate.log(), ::testing::Contains("terminal_sessions consent_required"));
}

TEST_F(AppLinkTest, PassesOnACancelAndProgress)
{
    App app(m_dir.path());
    Agent agent(app.socket);
    agent.client.call("7", "terminal_run", R"({"tabId":"t1","command":"make"})", R"({"progressToken":"p"})");
    ASSERT_TRUE(app.fake.waitForRunning(1));
    EXPECT_EQ(agent.client.next()["params"]["message"], "building");
    agent.client.send(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}})");
    EXPECT_TRUE(app.fake.waitForRunning(0));
    ASSERT_TRUE(agent.client.server.waitUntilIdle(Deadline::in(test::kPatience)));
    EXPECT_TRUE(agent.client.upToPing().empty());
}

TEST_F(AppLinkTest, EndsCallsInFlightWhenTheAppGoes)
{
    App app(m_dir.path());
    Agent agent(app.socket);
    agent.client.call("1", "terminal_run", R"({"tabId":"t1","command":"make"})");
    ASSERT_TRUE(app.fake.waitForRunning(1));
    app.listener.reset();
    auto const code = agent.client.next()["result"]["_meta"]["code"];
    EXPECT_TRUE(code == "app_not_running" || code == "cancelled") << code; // whichever is seen first
}

TEST_F(AppLinkTest, OffersTheNineRowsAndNothingElse)
{
    App app(m_dir.path());
    auto fd = connectTo(app.socket);
    ASSERT_TRUE(fd) << fd.error().message;
    auto const ask = [&](std::string_view line) {
        auto const text = std::string(line) + '\n';
        EXPECT_EQ(::send(fd->get(), text.data(), text.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(text.size()));
        std::string answer;
        for (char c = 0; ::read(fd->get(), &c, 1) == 1 && c != '\n';)
            answer.push_back(c);
        return Json::parse(answer);
    };
    ask(R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}})");
    EXPECT_EQ(ask(R"({"jsonrpc":"2.0","id":2,"method":"tools/list"})")["result"]["tools"].size(), 9U);
    for (auto const& tool : allTools()) {
        if (tool.needs == Needs::Nothing) {
            EXPECT_EQ(ask(fmt::format(
                          R"({{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{"name":"{}"}}}})",
                          tool.name))["error"]["code"],
                      -32602)
                << tool.name;
        }
    }
    EXPECT_EQ(ask(R"({"jsonrpc":"2.0","id":4,"method":"termalin/secrets"})")["error"]["code"], -32601);
}

TEST_F(AppLinkTest, TellsTheAgentWhenWritesAreGrantedAndLetsThemRunOnlyOnceItHasSeenThat)
{
    App app(m_dir.path());
    Agent agent(app.socket);
    auto const listed = [&] {
        agent.client.send(R"({"jsonrpc":"2.0","id":"l","method":"tools/list"})");
        return agent.client.next()["result"]["tools"].back()["annotations"]["readOnlyHint"];
    };
    auto constexpr query = R"({"hostId":"db","query":"delete from t"})";
    EXPECT_EQ(agent.call("data_query", query)["_meta"]["code"], "read_only");
    EXPECT_EQ(listed(), true);
    app.fake.writes = true;
    app.listener->toolsChanged();
    EXPECT_EQ(agent.client.next()["method"], "notifications/tools/list_changed");
    EXPECT_EQ(agent.call("data_query", query)["_meta"]["code"], "read_only"); // it has not looked yet
    EXPECT_EQ(listed(), false);
    EXPECT_EQ(agent.call("data_query", query)["structuredContent"]["rowCount"], 0);
    app.fake.writes = false;
    app.listener->toolsChanged();
    EXPECT_EQ(agent.client.next()["method"], "notifications/tools/list_changed");
    EXPECT_EQ(listed(), true);
}

TEST_F(AppLinkTest, ReportsWhatGoesOnAlsoToAnAppThatStartsLater)
{
    auto const link = AppLink::make(m_dir / "run/control", {"agent", "1", "/bin/agent"}, asItIs);
    auto const activity = [](Activity::Kind kind, std::string id) {
        return Activity{kind, std::move(id), "ssh_exec", "web", "h1", "ls", "2026-01-01T00:00:00Z"};
    };
    link->began(activity(Activity::Kind::Call, "c1"));
    link->began(activity(Activity::Kind::Session, "s1"));
    link->ended(Activity::Kind::Call, "c1");
    App app(m_dir.path());
    EXPECT_TRUE(app.fake.waitForBoard({"+s1 ssh_exec ls agent"}));
    link->began(activity(Activity::Kind::Tunnel, "t1"));
    link->ended(Activity::Kind::Session, "s1");
    EXPECT_TRUE(app.fake.waitForBoard({"+s1 ssh_exec ls agent", "+t1 ssh_exec ls agent", "-s1"}));
    app.listener.reset();
    EXPECT_TRUE(app.fake.waitForBoard({"+s1 ssh_exec ls agent", "+t1 ssh_exec ls agent", "-s1", "left"}));
}

TEST_F(AppLinkTest, ReportsNoSecretThatTheRecordHides)
{
    App app(m_dir.path());
    auto const audit = *Audit::open(m_dir / "audit/audit.jsonl", *app.store);
    audit->hide(Secret(std::string_view("s3cr#t-one")));
    auto const link = AppLink::make(app.socket, {"agent", "1", ""},
                                    [&](std::string_view detail) { return audit->masked(detail); });
    auto const filler = std::string(8190, 'x'); // the secret would be cut in two
    for (auto const& [kind, detail] :
         {std::pair{Activity::Kind::Call, std::string("login s3cr#t-one; login 's3cr#t-one'")},
          {Activity::Kind::Tunnel, "127.0.0.1:1 s3cr#t-one:80"},
          {Activity::Kind::Session, filler + "s3cr#t-one"}})
        link->began({kind, "1", "a_tool", "web", "h1", detail, "2026-01-01T00:00:00Z"});
    // An app that finds the link up hears them as they began, another in the order of their kinds.
    std::unique_lock lock(app.fake.mutex);
    ASSERT_TRUE(app.fake.changed.wait_for(lock, test::kPatience, [&] { return app.fake.board.size() == 3; }));
    EXPECT_THAT(app.fake.board,
                ::testing::UnorderedElementsAre("+1 a_tool login [hidden]; login '[hidden]' agent",
                                                "+1 a_tool 127.0.0.1:1 [hidden]:80 agent",
                                                "+1 a_tool " + filler + "[h agent"));
}

std::string userauth(std::string_view user, std::string_view key, std::string_view algorithm = "ssh-ed25519",
                     std::uint8_t message = 50, std::string_view method = "publickey")
{
    return ssh::WireWriter()
        .string(std::string(32, 's'))
        .byte(message)
        .string(user)
        .string("ssh-connection")
        .string(method)
        .byte(1)
        .string(algorithm)
        .string(key)
        .bytes();
}

TEST_F(AppLinkTest, HasTheAppSignALoginToAnOpenHostWithItsKeyAndNothingElse)
{
    App app(m_dir.path());
    auto const open = app.addHost(AgentPolicy::Full);
    auto const blocked = app.addHost(AgentPolicy::Blocked);
    auto const link = AppLink::make(app.socket, {"agent", "1", ""}, asItIs);
    auto const signers = link->signers(login(open));
    ASSERT_TRUE(signers) << signers.error().message;
    ASSERT_EQ(signers->size(), 1U);
    auto& signer = *signers->front();
    EXPECT_EQ(signer.publicKey(), app.fake.key);
    EXPECT_THAT(signer.describe(), HasSubstr("deploy of host-full"));
    auto const good = userauth("deploy", app.fake.key);
    auto const signature = signer.sign(good, "ssh-ed25519");
    ASSERT_TRUE(signature) << signature.error().message;
    EXPECT_EQ(*signature, "signed ssh-ed25519" + std::to_string(good.size()));
    EXPECT_EQ(app.fake.signatures, 1);

    auto const other = ssh::WireWriter().string("ssh-ed25519").string(std::string(32, 'o')).bytes();
    for (auto const& bad :
         {userauth("root", app.fake.key), userauth("deploy", other), std::string("anything"),
          userauth("deploy", app.fake.key) + "x", good.substr(0, good.size() - 1)}) {
        auto const refused = signer.sign(bad, "ssh-ed25519");
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Errc::InvalidArgument) << refused.error().message;
    }
    EXPECT_EQ(link->signers(login(blocked)).error().code, Errc::BlockedByPolicy);
    EXPECT_EQ(link->signers(login("nope")).error().code, Errc::UnknownHost);

    auto host = *app.store->findHost(open);
    host.policy = AgentPolicy::Blocked; // from one moment to the next
    ASSERT_TRUE(app.store->updateHost(host));
    EXPECT_EQ(signer.sign(good, "ssh-ed25519").error().code, Errc::BlockedByPolicy);
    host = *app.store->findHost(open);
    host.policy = AgentPolicy::Full;
    ASSERT_TRUE(app.store->updateHost(host));
    termalin::test::writeFile(app.services.paths.settings,
                              R"({"agents.stopped":true,"agents":{"stopped":true}})");
    EXPECT_EQ(signer.sign(good, "ssh-ed25519").error().code, Errc::ConsentRequired);
    termalin::test::writeFile(app.services.paths.settings, "{}");
    app.fake.locked = true;
    EXPECT_EQ(signer.sign(good, "ssh-ed25519").error().code, Errc::AppLocked);
    EXPECT_EQ(app.fake.signatures, 1);
    app.listener.reset();
    EXPECT_EQ(signer.sign(good, "ssh-ed25519").error().code, Errc::AppNotRunning);
    EXPECT_TRUE(link->signers(login(open))->empty());
}

TEST_F(AppLinkTest, SignsForAJumpHostWhateverItsPolicyButOnlyOnTheWayToAHostThatIsOpen)
{
    App app(m_dir.path());
    auto const gate = app.addHost(AgentPolicy::Blocked);
    auto const listed = app.addHost(AgentPolicy::Allowlist);
    auto const open = app.addHost(AgentPolicy::Full);
    auto host = *app.store->findHost(open);
    host.jump = {"host-blocked"};
    ASSERT_TRUE(app.store->updateHost(host));
    auto const link = AppLink::make(app.socket, {"agent", "1", ""}, asItIs);
    EXPECT_EQ(link->signers(login(gate)).error().code, Errc::BlockedByPolicy);
    EXPECT_EQ(link->signers(login(gate, listed)).error().code, Errc::NotFound) << "not on the way there";
    EXPECT_EQ(link->signers(login(open, gate)).error().code, Errc::BlockedByPolicy);
    EXPECT_EQ(link->signers(login("nope", open)).error().code, Errc::NotFound);
    auto const signers = link->signers(login(gate, open));
    ASSERT_TRUE(signers) << signers.error().message;
    ASSERT_EQ(signers->size(), 1U);
    auto& signer = *signers->front();
    auto const good = userauth("deploy", app.fake.key);
    EXPECT_TRUE(signer.sign(good, "ssh-ed25519"));
    EXPECT_EQ(signer.sign(userauth("root", app.fake.key), "ssh-ed25519").error().code, Errc::InvalidArgument);

    host = *app.store->findHost(open);
    host.policy = AgentPolicy::Blocked; // what counts is where the login leads
    ASSERT_TRUE(app.store->updateHost(host));
    EXPECT_EQ(signer.sign(good, "ssh-ed25519").error().code, Errc::BlockedByPolicy);
    host = *app.store->findHost(open);
    host.policy = AgentPolicy::Full;
    host.jump.clear();
    ASSERT_TRUE(app.store->updateHost(host));
    EXPECT_EQ(signer.sign(good, "ssh-ed25519").error().code, Errc::NotFound);
    EXPECT_EQ(app.fake.signatures, 1);
}

/// What has the app's socket and does not serve it.
class HungAppTest : public AppLinkTest {
protected:
    HungAppTest()
    {
        std::filesystem::create_directory(m_socket.parent_path());
        ::chmod(m_socket.parent_path().c_str(), 0700);
        m_socket.native().copy(m_address.sun_path, sizeof m_address.sun_path - 1);
        EXPECT_EQ(::bind(m_listener.get(), reinterpret_cast<sockaddr const*>(&m_address), sizeof m_address),
                  0);
        ::chmod(m_socket.c_str(), 0600);
        EXPECT_EQ(::listen(m_listener.get(), 0), 0);
    }
    /// Until the listener's queue has no room.
    void fillQueue()
    {
        for (;;) {
            auto& fd =
                m_waiting.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            if (::connect(fd.get(), reinterpret_cast<sockaddr const*>(&m_address), sizeof m_address) != 0) {
                ASSERT_EQ(errno, EAGAIN);
                return;
            }
        }
    }

    std::filesystem::path m_socket = m_dir / "run/control";
    sockaddr_un m_address{.sun_family = AF_UNIX, .sun_path = {}};
    UniqueFd m_listener{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    std::vector<UniqueFd> m_waiting;
};

TEST_F(HungAppTest, KeysAreWaitedForNoLongerThanTheLoginMayTake)
{
    auto const link = AppLink::make(m_socket, {"agent", "1", ""}, asItIs);
    std::stop_source stopped;
    stopped.request_stop();
    EXPECT_EQ(link->signers(login("h", "h", Deadline::in(1h), stopped.get_token())).error().code,
              Errc::Cancelled);
    EXPECT_EQ(link->signers(login("h", "h", Deadline::in(1ms))).error().code, Errc::Timeout);
}

TEST_F(HungAppTest, AQueueThatIsFullIsNotWaitedForForever)
{
    fillQueue();
    auto const refused = connectTo(m_socket);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::AppNotRunning);
    EXPECT_THAT(refused.error().message, HasSubstr("takes no connection"));
    auto const link = AppLink::make(m_socket, {"agent", "1", ""}, asItIs);
    EXPECT_TRUE(link->signers(login("h"))->empty()) << "as without an app";
    // The link ends, although it may be connecting at this moment.
}

TEST(Signing, AHostWithoutAUserNameIsLoggedInToAsTheAccountThatSshWouldTake)
{
    Host const host;
    auto const key = ssh::WireWriter().string("ssh-ed25519").string("rest").bytes();
    auto own = termalin::test::run({"id", "-un"}).out;
    own.pop_back(); // the newline
    EXPECT_TRUE(checkSigning(host, key, "ssh-ed25519", userauth(own, key)));
    EXPECT_FALSE(checkSigning(host, key, "ssh-ed25519", userauth("", key)));
    EXPECT_FALSE(checkSigning(host, key, "ssh-ed25519", userauth(own + "x", key)));
}

TEST(Signing, TakesOnlyAUserauthRequestOfThisUserKeyAndAlgorithm)
{
    Host host;
    host.username = "deploy";
    auto const key = [](std::string_view type) {
        return ssh::WireWriter().string(type).string("rest").bytes();
    };
    auto const ed = key("ssh-ed25519");
    auto const rsa = key("ssh-rsa");
    auto const cert = key("ssh-rsa-cert-v01@openssh.com");
    EXPECT_TRUE(checkSigning(host, ed, "ssh-ed25519", userauth("deploy", ed)));
    EXPECT_TRUE(checkSigning(host, rsa, "rsa-sha2-512", userauth("deploy", rsa, "rsa-sha2-512")));
    EXPECT_TRUE(checkSigning(host, cert, "rsa-sha2-256",
                             userauth("deploy", cert, "rsa-sha2-256-cert-v01@openssh.com")));
    auto const bound =
        ssh::WireWriter()
            .raw(userauth("deploy", ed, "ssh-ed25519", 50, "publickey-hostbound-v00@openssh.com"))
            .string("host key")
            .bytes();
    EXPECT_TRUE(checkSigning(host, ed, "ssh-ed25519", bound));

    EXPECT_FALSE(checkSigning(host, rsa, "ssh-rsa", userauth("deploy", rsa, "ssh-rsa"))); // SHA-1
    EXPECT_FALSE(checkSigning(host, rsa, "rsa-sha2-256", userauth("deploy", rsa, "rsa-sha2-512")));
    EXPECT_FALSE(checkSigning(host, ed, "ssh-ed25519", userauth("deploy", ed, "rsa-sha2-512")));
    EXPECT_FALSE(checkSigning(host, cert, "rsa-sha2-256", userauth("deploy", cert, "rsa-sha2-256")));
    EXPECT_FALSE(checkSigning(host, ed, "ssh-ed25519", userauth("Deploy", ed)));
    EXPECT_FALSE(checkSigning(host, ed, "ssh-ed25519", userauth("deploy", ed, "ssh-ed25519", 51)));
    EXPECT_FALSE(
        checkSigning(host, ed, "ssh-ed25519", userauth("deploy", ed, "ssh-ed25519", 50, "hostbased")));
    EXPECT_FALSE(checkSigning(host, ed, "ssh-ed25519", bound + "x"));
    EXPECT_FALSE(checkSigning(host, ed, "ssh-ed25519", ""));
    auto const request = userauth("deploy", ed);
    for (std::size_t i = 0; i < request.size(); ++i)
        EXPECT_FALSE(checkSigning(host, ed, "ssh-ed25519", request.substr(0, i))) << i;
}

class ControlSocketTest : public AppLinkTest {
protected:
    static mode_t modeOf(std::filesystem::path const& path)
    {
        struct stat status{};
        EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
        return status.st_mode & 07777U;
    }
};

TEST_F(ControlSocketTest, IsPrivateRefusesASecondListenerAndReplacesAStaleOne)
{
    App app(m_dir.path());
    EXPECT_EQ(modeOf(app.socket), 0600U);
    EXPECT_EQ(modeOf(app.socket.parent_path()), 0700U);
    auto const second = Listener::open(app.socket, app.services, app.fake);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Errc::PortInUse);
    EXPECT_TRUE(connectTo(app.socket)); // the first was not disturbed
    app.listener.reset();
    EXPECT_FALSE(std::filesystem::exists(app.socket));

    UniqueFd const stale(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    app.socket.native().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address), 0);
    ::chmod(app.socket.c_str(), 0600);
    EXPECT_EQ(connectTo(app.socket).error().code, Errc::AppNotRunning);
    app.start();
    EXPECT_TRUE(connectTo(app.socket));
}

TEST_F(ControlSocketTest, RefusesWhatOthersCouldHaveMadeOrCouldOpen)
{
    App app(m_dir.path());
    auto const folder = app.socket.parent_path();
    for (auto const& [path, open, closed] :
         {std::tuple{app.socket, 0666U, 0600U}, std::tuple{app.socket, 0620U, 0600U},
          std::tuple{folder, 0755U, 0700U}, std::tuple{folder, 0710U, 0700U}}) {
        ASSERT_EQ(::chmod(path.c_str(), open), 0);
        EXPECT_EQ(connectTo(app.socket).error().code, Errc::PermissionDenied) << path << ' ' << open;
        ASSERT_EQ(::chmod(path.c_str(), closed), 0);
        EXPECT_TRUE(connectTo(app.socket));
    }
    std::filesystem::create_symlink(folder, m_dir / "linked");
    EXPECT_EQ(connectTo(m_dir / "linked/control").error().code, Errc::PermissionDenied);
    termalin::test::writeFile(m_dir / "run/file", "");
    ::chmod((m_dir / "run/file").c_str(), 0600);
    EXPECT_EQ(connectTo(m_dir / "run/file").error().code, Errc::PermissionDenied);
}

TEST_F(ControlSocketTest, SaysWhenItsPathIsTooLong)
{
    FakeApp fake;
    Services services;
    auto const base = m_dir.path().native();
    auto const ofLength = [&](std::size_t size) {
        return std::filesystem::path(base + '/' + std::string(size - base.size() - 1, 'x'));
    };
    EXPECT_EQ(connectTo(ofLength(107)).error().code, Errc::AppNotRunning);
    EXPECT_EQ(connectTo(ofLength(108)).error().code, Errc::InvalidArgument);
    auto const listener = Listener::open(ofLength(108), services, fake);
    ASSERT_FALSE(listener);
    EXPECT_EQ(listener.error().code, Errc::InvalidArgument);
    EXPECT_THAT(listener.error().message, HasSubstr("108 bytes"));
}

} // namespace
} // namespace termalin::mcp
