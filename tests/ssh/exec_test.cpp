#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include "core/unique_fd.h"
#include "ssh/connection.h"
#include "ssh/sftp.h"
#include "tests/support/process.h"
#include "tests/support/sshd.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using test::Sshd;
using test::SshdOptions;
using ::testing::HasSubstr;

Result<ExecOutcome> run(Connection& connection, std::string command, std::size_t cap = 64 * 1024)
{
    ExecRequest request;
    request.command = std::move(command);
    request.outputCap = cap;
    return connection.exec(std::move(request), Deadline::in(60s), {});
}

class ExecTest : public ::testing::Test {
protected:
    Sshd m_server;
    std::shared_ptr<Connection> m_connection = m_server.connect();
};

TEST_F(ExecTest, GivesTheOutputOfBothStreamsInOrderAndTheExitCode)
{
    // sshd reads the two from pipes of their own, so each waits until the one before has come.
    auto const seen = [&](std::string_view word) { return (m_server.home() / word).string(); };
    ExecRequest request;
    request.command = "wait_for() { until [ -e \"$1\" ]; do sleep 0.02; done; }; echo one; wait_for '" +
                      seen("one") + "'; echo two >&2; wait_for '" + seen("two") + "'; echo three; exit 7";
    request.onOutput = [&](std::string_view bytes) {
        for (std::string_view const word : {"one", "two"})
            if (bytes.find(word) != std::string_view::npos)
                std::ofstream(seen(word)).flush();
    };
    auto const outcome = m_connection->exec(std::move(request), Deadline::in(60s), {});

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->output.text, "one\ntwo\nthree\n");
    EXPECT_EQ(outcome->exitCode, 7);
    EXPECT_EQ(outcome->signal, "");
    EXPECT_EQ(outcome->completion, Completion::Exit);
    EXPECT_EQ(outcome->stopped, Stopped::NotTried);
    EXPECT_EQ(outcome->note, "");
}

TEST_F(ExecTest, NamesTheSignalThatEndedACommandAndGivesNoExitCode)
{
    auto const outcome = run(*m_connection, "kill -s KILL $$");

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->signal, "KILL");
    EXPECT_EQ(outcome->exitCode, std::nullopt);
    EXPECT_EQ(outcome->completion, Completion::Exit);
}

TEST_F(ExecTest, HasAnEmptyClosedInput)
{
    auto const read = run(*m_connection, "read x; echo \"status $?\"");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->output.text, "status 1\n");

    auto const cat = run(*m_connection, "cat; echo done");
    ASSERT_TRUE(cat) << cat.error().message;
    EXPECT_EQ(cat->output.text, "done\n");
}

TEST_F(ExecTest, WaitsForAnExitCodeThatComesAfterTheEndOfTheOutput)
{
    auto const outcome = run(*m_connection, "echo out; exec >&- 2>&-; sleep 0.3; exit 9");

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->output.text, "out\n");
    EXPECT_EQ(outcome->exitCode, 9);
}

TEST_F(ExecTest, LeavesABackgroundProcessThatHoldsTheOutputAndSaysSo)
{
    auto const seconds = test::uniqueSeconds();
    auto const outcome = run(*m_connection, "sleep " + seconds + " & echo started; exit 7");

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->output.text, "started\n");
    EXPECT_EQ(outcome->exitCode, 7);
    EXPECT_EQ(outcome->completion, Completion::Exit);
    EXPECT_THAT(outcome->note, HasSubstr("holds its output"));
    auto const left = test::processesWith("sleep " + seconds);
    ASSERT_EQ(left.size(), 1U);
    ::kill(left.front(), SIGKILL);
    EXPECT_TRUE(run(*m_connection, "true"));
}

TEST_F(ExecTest, GivesTheWholeOutputThatComesSlowlyAfterTheExitStatus)
{
    // The shell ends at once; what it left behind goes on writing, more often than every 500 ms, and ends.
    auto const outcome = run(*m_connection, "(for i in 1 2 3; do sleep 0.2; echo $i; done) & exit 3");

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->output.text, "1\n2\n3\n");
    EXPECT_EQ(outcome->exitCode, 3);
    EXPECT_EQ(outcome->note, "");
}

TEST_F(ExecTest, GivesBytesThatAreNotUtf8AsReplacementsAndSaysSo)
{
    auto const outcome = run(*m_connection, R"(printf 'a\377b\303\251')");

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->output.text, "a\uFFFDbé");
    EXPECT_TRUE(outcome->output.lossy);
}

TEST_F(ExecTest, Counts50MegabytesAndKeepsTheirBeginningAndEnd)
{
    auto const outcome =
        run(*m_connection, "echo first; head -c 52428800 /dev/zero | tr '\\0' x; echo; echo last");

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->output.outputBytes, 52'428'800 + 6 + 1 + 5);
    EXPECT_TRUE(outcome->output.truncated);
    EXPECT_TRUE(outcome->output.text.starts_with("first\nxxx"));
    EXPECT_TRUE(outcome->output.text.ends_with("xxx\nlast\n"));
    EXPECT_LT(outcome->output.text.size(), 66'000U);
    EXPECT_EQ(outcome->exitCode, 0);
}

TEST_F(ExecTest, ShowsTheOutputAsItComes)
{
    std::atomic<bool> seen = false;
    auto const gate = m_server.home() / "gate";
    ExecRequest request;
    request.command = "echo ready; while [ ! -e " + gate.string() + " ]; do sleep 0.01; done; echo over";
    request.onOutput = [&](std::string_view bytes) {
        if (bytes.find("ready") != std::string_view::npos) {
            seen = true;
            test::writeFile(gate, "");
        }
    };
    auto const outcome = m_connection->exec(std::move(request), Deadline::in(60s), {});
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(seen);
    EXPECT_EQ(outcome->output.text, "ready\nover\n");
}

TEST_F(ExecTest, Answers200CallsAtOnceEachWithItsOwnOutput)
{
    std::atomic<int> right = 0;
    {
        std::vector<std::jthread> callers;
        for (int i = 0; i < 200; ++i)
            callers.emplace_back([&, i] {
                auto const outcome = run(*m_connection, "echo call " + std::to_string(i) + "; exit " +
                                                            std::to_string(i % 100));
                if (outcome && outcome->output.text == "call " + std::to_string(i) + "\n" &&
                    outcome->exitCode == i % 100)
                    ++right;
                else
                    ADD_FAILURE() << (outcome ? outcome->output.text : outcome.error().message);
            });
    }
    EXPECT_EQ(right, 200);
    EXPECT_EQ(m_server.accepted(), 1U);
}

TEST_F(ExecTest, EndsAsDisconnectedWhenTheServerIsKilledInTheMiddle)
{
    std::atomic<bool> killed = false;
    ExecRequest request;
    auto const seconds = test::uniqueSeconds();
    request.command = "echo half; exec sleep " + seconds;
    request.onOutput = [&](std::string_view) {
        if (!killed.exchange(true))
            std::thread([&] { m_server.killSessions(); }).detach();
    };
    auto const outcome = m_connection->exec(std::move(request), Deadline::in(60s), {});

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->completion, Completion::Disconnected);
    EXPECT_EQ(outcome->output.text, "half\n");
    EXPECT_EQ(outcome->exitCode, std::nullopt);
    EXPECT_THAT(outcome->note, HasSubstr("may or may not have finished"));
    EXPECT_TRUE(test::eventually([&] { return !m_connection->alive(); }));
    EXPECT_THAT(m_connection->whyClosed(), HasSubstr("lost"));
    auto const after = run(*m_connection, "true");
    ASSERT_FALSE(after);
    EXPECT_EQ(after.error().code, Errc::Unreachable);
    for (auto const pid : test::processesWith("sleep " + seconds))
        ::kill(pid, SIGKILL);
}

TEST(Exec, RunsNothingWhenTheTimeIsOverBeforeAChannelIsFree)
{
    Sshd const server({.maxSessions = 1});
    auto const connection = server.connect();
    auto const file = (server.home() / "ran").string();
    auto const gate = (server.home() / "gate").string();
    std::atomic<bool> running = false;
    std::jthread const holder([&] {
        ExecRequest request;
        request.command = "echo on; while [ ! -e " + gate + " ]; do sleep 0.01; done";
        request.onOutput = [&](std::string_view) { running = true; };
        EXPECT_TRUE(connection->exec(std::move(request), Deadline::in(60s), {}));
    });
    ASSERT_TRUE(test::eventually([&] { return running.load(); }));
    ExecRequest request;
    request.command = "touch " + file;
    auto const outcome = connection->exec(std::move(request), Deadline::in(300ms), {});
    test::writeFile(gate, "");

    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Errc::Timeout);
    EXPECT_TRUE(outcome.error().nothingWasSent);
    ASSERT_TRUE(run(*connection, "true")); // the given-up call would have had its turn before this one
    EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Exec, RunsOneCommandAfterAnotherWhereTheServerAllowsOneChannel)
{
    Sshd const server({.maxSessions = 1});
    auto const connection = server.connect();
    std::vector<std::jthread> callers;
    for (int i = 0; i < 12; ++i)
        callers.emplace_back([&, i] {
            auto const outcome = run(*connection, "echo " + std::to_string(i));
            ASSERT_TRUE(outcome) << outcome.error().message;
            EXPECT_EQ(outcome->output.text, std::to_string(i) + "\n");
        });
}

TEST(Exec, SaysThatNothingRanWhereTheServerOpensNoChannelAtAll)
{
    Sshd const server({.maxSessions = 0});
    auto const outcome = run(*server.connect(), "true");
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Errc::TooMany);
}

TEST(Exec, SurvivesNewKeysWhileThreeDownloadsRunAtOnce)
{
    Sshd const server({.config = {"RekeyLimit 256K"}});
    auto const connection = server.connect();
    std::vector<std::jthread> callers;
    for (int i = 0; i < 3; ++i)
        callers.emplace_back([&] {
            auto const outcome = run(*connection, "head -c 2000000 /dev/zero | tr '\\0' y", 3'000'000);
            ASSERT_TRUE(outcome) << outcome.error().message;
            EXPECT_EQ(outcome->completion, Completion::Exit);
            EXPECT_TRUE(outcome->output.text == std::string(2'000'000, 'y'))
                << outcome->output.text.size() << " bytes after " << outcome->duration.count() << " ms. "
                << outcome->note;
        });
}

TEST(Exec, KnowsWhichLoginShellsPassSingleQuotedWordsOn)
{
    for (auto const& [shell, expected] :
         std::vector<std::pair<std::string, LoginShell>>{{"/bin/dash", LoginShell::Posix},
                                                         {"/bin/bash", LoginShell::Posix},
                                                         {"/usr/bin/fish", LoginShell::Other},
                                                         {"/bin/csh", LoginShell::Other},
                                                         {"/usr/bin/tcsh", LoginShell::Other}}) {
        if (!std::filesystem::exists(shell))
            continue;
        Sshd const server({.loginShell = shell});
        auto const found = server.connect()->loginShell(Deadline::in(30s), {});
        ASSERT_TRUE(found) << shell << ": " << found.error().message;
        EXPECT_EQ(*found, expected) << shell;
    }
}

TEST(Exec, AsksForTheLoginShellOncePerConnection)
{
    Sshd const server({.loginShell = "/bin/bash"});
    test::writeFile(server.home() / ".bashrc",
                    "echo started >>" + (server.home() / "starts").string() + "\n");
    auto const connection = server.connect();
    std::vector<std::jthread> callers;
    for (int i = 0; i < 4; ++i)
        callers.emplace_back([&] { EXPECT_TRUE(connection->loginShell(Deadline::in(30s), {})); });
    callers.clear();
    EXPECT_EQ(test::readFile(server.home() / "starts"), "started\n");
}

TEST(Exec, WhoWaitsForAnotherToLearnTheLoginShellCanStopAndHasADeadline)
{
    Sshd const server({.loginShell = "/bin/bash"});
    auto const gate = server.home() / "gate";
    ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
    test::writeFile(server.home() / ".bashrc", "cat " + gate.string() + "\n");
    auto const connection = server.connect();
    Result<LoginShell> asked = fail(Errc::Internal, "not asked");
    std::jthread asking([&] { asked = connection->loginShell(Deadline::in(30s), {}); });
    UniqueFd shut(
        ::open(gate.c_str(), O_WRONLY | O_CLOEXEC)); // returns once the shell reads it: it is being asked
    ASSERT_TRUE(shut);
    std::stop_source stop;
    stop.request_stop();
    auto const stopped = connection->loginShell(Deadline::in(30s), stop.get_token());
    auto const late = connection->loginShell(Deadline::in(0ms), {});
    shut.reset();
    asking.join();
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code, Errc::Cancelled);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Errc::Timeout);
    ASSERT_TRUE(asked) << asked.error().message;
    EXPECT_EQ(*asked, LoginShell::Posix);
}

class ReadyChannelTest : public ::testing::Test {
protected:
    static std::size_t count(std::string const& text, std::string_view what)
    {
        std::size_t found = 0;
        for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
            ++found;
        return found;
    }
    /// What the server has noted: session channels opened, and commands started.
    static std::pair<std::size_t, std::size_t> openedAndStarted(Sshd const& server)
    {
        auto const log = server.log();
        return {count(log, "server_input_channel_open: ctype session "),
                count(log, "Starting session: command")};
    }
    static SshdOptions verbose(int maxSessions)
    {
        SshdOptions options;
        options.config = {"LogLevel DEBUG1"};
        options.maxSessions = maxSessions;
        return options;
    }
};

TEST_F(ReadyChannelTest, IsOpenedWhileNothingRunsAndTakenByTheNextCommand)
{
    Sshd const server(verbose(10));
    auto const connection = server.connect();
    connection->keepChannelReady();
    connection->keepChannelReady(); // once is enough
    for (std::size_t commands = 0; commands < 5; ++commands) {
        EXPECT_TRUE(test::eventually([&] { return openedAndStarted(server).first == commands + 1; }));
        EXPECT_EQ(openedAndStarted(server).second, commands);
        auto const outcome = run(*connection, "echo " + std::to_string(commands));
        ASSERT_TRUE(outcome) << outcome.error().message;
        EXPECT_EQ(outcome->output.text, std::to_string(commands) + "\n");
    }
}

TEST_F(ReadyChannelTest, TakesNothingFromAServerThatAllowsOneChannel)
{
    Sshd const server(verbose(1));
    auto const connection = server.connect();
    connection->keepChannelReady();
    for (int i = 0; i < 5; ++i) {
        auto const outcome = run(*connection, "echo word");
        ASSERT_TRUE(outcome) << outcome.error().message;
        EXPECT_EQ(outcome->output.text, "word\n");
        auto const sftp = Sftp::open(connection, Deadline::in(30s), {});
        ASSERT_TRUE(sftp) << sftp.error().message;
    }
}

TEST_F(ReadyChannelTest, LeavesTheStopOfACommandAsItIs)
{
    for (int const maxSessions : {2, 10}) {
        Sshd const server(verbose(maxSessions));
        auto const connection = server.connect();
        connection->keepChannelReady();
        ASSERT_TRUE(run(*connection, "true"));
        auto const seconds = test::uniqueSeconds();
        ExecRequest request;
        request.command = "sleep " + seconds;
        auto const outcome = connection->exec(std::move(request), Deadline::in(500ms), {});
        ASSERT_TRUE(outcome) << outcome.error().message;
        EXPECT_EQ(outcome->completion, Completion::Timeout);
        static_cast<void>(test::eventually([&] { return test::processesWith("sleep " + seconds).empty(); }));
        for (auto const pid : test::processesWith("sleep " + seconds)) {
            ADD_FAILURE() << "left running with MaxSessions " << maxSessions;
            ::kill(pid, SIGKILL);
        }
        EXPECT_TRUE(run(*connection, "true"));
    }
}

} // namespace
} // namespace termalin::ssh
