// termalin-mcp itself, over pipes, against a real sshd: what an agent's client starts.
#include <array>
#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <set>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>

#include "core/audit.h"
#include "core/json.h"
#include "core/paths.h"
#include "core/store.h"
#include "core/unique_fd.h"
#include "tests/support/process.h"
#include "tests/support/sshd.h"
#include "tests/support/temp_dir.h"

namespace termalin::test {
namespace {

using ::testing::HasSubstr;

/// The program, started as a client starts it; ended by its own pid when the test is over.
class Program {
public:
    explicit Program(std::filesystem::path const& home)
    {
        std::array<int, 2> in{};
        std::array<int, 2> out{};
        if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0)
            throw std::runtime_error("no pipes");
        m_in.reset(in[1]);
        m_out.reset(out[0]);
        UniqueFd const theirIn(in[0]);
        UniqueFd const theirOut(out[1]);
        posix_spawn_file_actions_t actions{};
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, theirIn.get(), 0);
        ::posix_spawn_file_actions_adddup2(&actions, theirOut.get(), 1);
        std::string name = TERMALIN_MCP_PROGRAM;
        auto place = "TERMALIN_HOME=" + home.string();
        std::string path = "PATH=/usr/bin:/bin";
        std::array<char*, 2> const arguments{name.data(), nullptr};
        std::array<char*, 3> const environment{place.data(), path.data(), nullptr};
        auto const failed =
            ::posix_spawn(&m_pid, name.c_str(), &actions, nullptr, arguments.data(), environment.data());
        ::posix_spawn_file_actions_destroy(&actions);
        if (failed != 0)
            throw std::runtime_error("cannot start " + name);
        ::signal(SIGPIPE, SIG_IGN);
    }
    ~Program()
    {
        if (m_pid > 0) {
            ::kill(m_pid, SIGKILL);
            ::waitpid(m_pid, nullptr, 0);
        }
    }
    Program(Program const&) = delete;
    Program& operator=(Program const&) = delete;

    void initialize()
    {
        request("initialize", {{"protocolVersion", "2025-11-25"},
                               {"capabilities", Json::object()},
                               {"clientInfo", {{"name", "test"}, {"version", "1"}}}});
        send({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
    }
    int start(std::string const& method, Json const& params)
    {
        send({{"jsonrpc", "2.0"}, {"id", ++m_last}, {"method", method}, {"params", params}});
        return m_last;
    }
    Json request(std::string const& method, Json const& params) { return await(start(method, params)); }
    int startCall(std::string const& tool, Json const& arguments)
    {
        return start("tools/call", {{"name", tool}, {"arguments", arguments}});
    }
    /// structuredContent, or the text of a refusal.
    Json call(std::string const& tool, Json const& arguments)
    {
        return content(await(startCall(tool, arguments)));
    }
    static Json content(Json const& result)
    {
        return result.contains("structuredContent") ? result["structuredContent"]
                                                    : result["content"][0]["text"];
    }
    /// Every line has to be JSON; those that are not the answer are passed over.
    Json await(int id)
    {
        for (;;) {
            auto const message = Json::parse(line());
            if (message.contains("id") && message["id"] == id)
                return message.at("result");
        }
    }
    void endInput() { m_in.reset(); }
    [[nodiscard]] pid_t pid() const { return m_pid; }
    /// Its exit code, or minus the signal that ended it.
    int wait()
    {
        int status = 0;
        ::waitpid(m_pid, &status, 0);
        m_pid = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }

private:
    void send(Json const& message)
    {
        auto const text = message.dump() + "\n";
        if (::write(m_in.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
            throw std::runtime_error("the program does not read");
    }
    std::string line()
    {
        for (;;) {
            if (auto const end = m_buffer.find('\n'); end != std::string::npos) {
                auto text = m_buffer.substr(0, end);
                m_buffer.erase(0, end + 1);
                return text;
            }
            pollfd waiting{.fd = m_out.get(), .events = POLLIN, .revents = 0};
            std::array<char, 65536> bytes{};
            ssize_t got = 0;
            if (::poll(&waiting, 1, 120'000) != 1 ||
                (got = ::read(m_out.get(), bytes.data(), bytes.size())) <= 0)
                throw std::runtime_error("no answer came; so far: " + m_buffer);
            m_buffer.append(bytes.data(), static_cast<std::size_t>(got));
        }
    }

    UniqueFd m_in, m_out;
    pid_t m_pid = -1;
    std::string m_buffer;
    int m_last = 0;
};

class AgentTest : public ::testing::Test {
protected:
    void SetUp() override
    {
        ::setenv("TERMALIN_HOME", m_home.path().c_str(), 1); // NOLINT(concurrency-mt-unsafe)
        auto const paths = Paths::find();
        ASSERT_TRUE(paths) << paths.error().message;
        m_paths = *paths;
        auto opened = Store::open(m_paths.store);
        ASSERT_TRUE(opened) << opened.error().message;
        m_store = *std::move(opened);
    }

    Host save(std::string name, AgentPolicy policy)
    {
        auto const target = m_server.target();
        Host host;
        host.name = std::move(name);
        host.hostname = target.hostname;
        host.port = target.port;
        host.username = target.user;
        host.authType = AuthType::Key;
        host.policy = policy;
        host.keyFiles = target.keyFiles;
        host.knownHostsFiles = {m_server.knownHosts()};
        auto const added = m_store->addHost(host);
        EXPECT_TRUE(added) << added.error().message;
        return *added;
    }

    TempDir m_home;
    Sshd m_server;
    Paths m_paths;
    std::unique_ptr<Store> m_store;
};

TEST_F(AgentTest, AWholeConversationEndsCleanlyWithItsInput)
{
    save("web", AgentPolicy::Full);
    Program program(m_home.path());
    program.initialize();
    EXPECT_EQ(program.request("tools/list", Json::object())["tools"].size(), 22U);
    EXPECT_EQ(program.call("hosts_list", Json::object())["hosts"][0]["name"], "web");
    EXPECT_EQ(program.call("ssh_exec", {{"host", "web"}, {"command", "echo hello"}})["output"], "hello\n");
    auto const session = program.call("session_open", {{"host", "web"}})["sessionId"];
    EXPECT_EQ(program.call("session_exec", {{"session", session}, {"command", "exit 3"}})["exitCode"], 3);
    auto const file = (m_server.folder() / "file").string();
    EXPECT_EQ(program.call("sftp_put", {{"host", "web"}, {"path", file}, {"content", "text"}})["size"], 4);
    EXPECT_EQ(program.call("sftp_get", {{"host", "web"}, {"path", file}})["content"], "text");
    EXPECT_THAT(program.call("terminal_hosts", Json::object()).get<std::string>(),
                ::testing::StartsWith("app_not_running: "));
    program.endInput();
    EXPECT_EQ(program.wait(), 0);
    EXPECT_TRUE(eventually([&] { return m_server.sessions().empty(); }));
}

TEST_F(AgentTest, APersonsChangeReachesAProgramThatIsBusy)
{
    auto host = save("web", AgentPolicy::Full);
    Program program(m_home.path());
    program.initialize();
    auto const seconds = uniqueSeconds();
    auto const call = program.startCall(
        "ssh_exec", {{"host", "web"}, {"command", "sleep " + seconds}, {"timeoutSeconds", 3600}});
    ASSERT_TRUE(eventually([&] { return !processesWith("sleep " + seconds).empty(); }));
    host.policy = AgentPolicy::Blocked;
    ASSERT_TRUE(m_store->updateHost(host));
    EXPECT_EQ(Program::content(program.await(call))["completion"], "cancelled");
    EXPECT_TRUE(eventually([&] { return processesWith("sleep " + seconds).empty(); }));
    EXPECT_THAT(program.call("ssh_exec", {{"host", "web"}, {"command", "id"}}).get<std::string>(),
                ::testing::StartsWith("blocked_by_policy: "));
}

TEST_F(AgentTest, ASignalEndsTheProgramAndWhatItRuns)
{
    save("web", AgentPolicy::Full);
    Program program(m_home.path());
    program.initialize();
    auto const seconds = uniqueSeconds();
    program.startCall("ssh_exec",
                      {{"host", "web"}, {"command", "sleep " + seconds}, {"timeoutSeconds", 3600}});
    ASSERT_TRUE(eventually([&] { return !processesWith("sleep " + seconds).empty(); }));
    ASSERT_EQ(::kill(program.pid(), SIGTERM), 0);
    EXPECT_EQ(program.wait(), 0);
    EXPECT_TRUE(eventually([&] { return m_server.sessions().empty(); }));
}

TEST_F(AgentTest, TheEndOfEveryCallIsOnRecordHoweverTheProgramEnds)
{
    save("web", AgentPolicy::Full);
    for (auto const bySignal : {false, true}) {
        Program program(m_home.path());
        program.initialize();
        auto const seconds = uniqueSeconds();
        // Takes longer to be stopped than the program may take to end.
        program.startCall("ssh_exec",
                          {{"host", "web"},
                           {"command", "trap '' INT TERM; while :; do sleep " + seconds + "; done"},
                           {"timeoutSeconds", 3600}});
        ASSERT_TRUE(eventually([&] { return !processesWith("sleep " + seconds).empty(); }));
        if (bySignal)
            ASSERT_EQ(::kill(program.pid(), SIGTERM), 0);
        else
            program.endInput();
        EXPECT_EQ(program.wait(), 0);
        auto const lines = lastAuditLines(m_paths.audit, 100);
        ASSERT_TRUE(lines) << lines.error().message;
        std::set<std::int64_t> open;
        for (auto const& text : *lines) {
            auto const line = Json::parse(text);
            if (line["kind"] == "begin")
                open.insert(line["n"].get<std::int64_t>());
            else if (line["kind"] == "end")
                open.erase(line["of"].get<std::int64_t>());
        }
        EXPECT_TRUE(open.empty()) << open.size() << " calls have no end";
        EXPECT_TRUE(verifyAudit(m_paths.audit, *m_store)->intact);
        for (auto const pid : processesWith("sleep " + seconds)) // what the helper has not got to yet
            ::kill(pid, SIGKILL);
    }
}

TEST_F(AgentTest, AStoreThatCannotBeReadIsToldInEveryCall)
{
    m_store.reset();
    writeFile(m_paths.store, std::string(8192, 'x'));
    Program program(m_home.path());
    program.initialize();
    EXPECT_EQ(program.request("tools/list", Json::object())["tools"].size(), 22U);
    EXPECT_THAT(program.call("hosts_list", Json::object()).get<std::string>(),
                HasSubstr(m_paths.store.string()));
    EXPECT_EQ(readFile(m_paths.store), std::string(8192, 'x')) << "it is never replaced";
}

} // namespace
} // namespace termalin::test
