#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "ssh/connection.h"
#include "tests/support/process.h"
#include "tests/support/sshd.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using test::processesWith;
using test::Sshd;
using test::SshdOptions;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Runs a command, waits until it has said "ready", and cancels it.
Result<ExecOutcome> cancelled(Connection& connection, std::string const& command)
{
    std::stop_source stop;
    ExecRequest request;
    request.command = command;
    request.onOutput = [&](std::string_view) { stop.request_stop(); };
    return connection.exec(std::move(request), Deadline::in(60s), stop.get_token());
}

/// A command that says "ready" once all of its processes run, in all the ways that outlive a plain kill.
std::string stubborn(std::string const& seconds)
{
    return "trap '' INT TERM; sleep " + seconds + " & nohup sleep " + seconds +
           " >/dev/null 2>&1 & setsid sleep " + seconds + " >/dev/null 2>&1 & (sleep " + seconds +
           " & sleep " + seconds + " | cat) & setsid -f sleep " + seconds +
           " >/dev/null 2>&1; while [ $(ps -eo args= | grep -c '^sleep " + seconds +
           "') -lt 6 ]; do /bin/sleep 0.02; done; echo ready; wait";
}

std::vector<SshdOptions> accounts()
{
    std::vector<SshdOptions> all;
    for (auto const* const shell : {"/bin/dash", "/bin/bash", "/usr/bin/fish", "/bin/csh"})
        for (auto const ordinary : {false, true})
            if (std::filesystem::exists(shell) && (!ordinary || Sshd::canBeOthers()))
                all.push_back({.loginShell = shell, .ordinaryUser = ordinary});
    return all;
}

std::string describe(SshdOptions const& options)
{
    return options.loginShell + (options.ordinaryUser ? " of an ordinary user" : " of ours");
}

TEST(Stop, LeavesNoProcessBehindWhateverTheAccountAndItsShell)
{
    for (auto const& options : accounts()) {
        SCOPED_TRACE(describe(options));
        Sshd const server(options);
        auto const connection = server.connect();
        auto const seconds = test::uniqueSeconds();
        auto const posix = options.loginShell == "/bin/dash" || options.loginShell == "/bin/bash";
        auto const script = server.folder() / "stubborn";
        test::writeFile(script, stubborn(seconds));
        auto const outcome = cancelled(*connection, posix ? stubborn(seconds) : "sh " + script.string());

        ASSERT_TRUE(outcome) << outcome.error().message;
        EXPECT_EQ(outcome->completion, Completion::Cancelled);
        EXPECT_EQ(outcome->stopped, Stopped::Confirmed) << outcome->note;
        EXPECT_EQ(outcome->note, "");
        EXPECT_THAT(outcome->output.text, HasSubstr("ready"));
        EXPECT_THAT(processesWith("sleep " + seconds), IsEmpty());
        EXPECT_TRUE(connection->alive());
        for (auto const pid : processesWith("sleep " + seconds))
            ::kill(pid, SIGKILL);
    }
}

Result<ExecOutcome> sleepTooLong(Connection& connection, std::string const& seconds)
{
    ExecRequest request;
    request.command = "echo begun; sleep " + seconds;
    return connection.exec(std::move(request), Deadline::in(1s), {});
}

TEST(Stop, StopsACommandWhoseTimeIsOver)
{
    Sshd const server;
    auto const connection = server.connect();
    auto const seconds = test::uniqueSeconds();
    auto const outcome = sleepTooLong(*connection, seconds);

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->completion, Completion::Timeout);
    EXPECT_EQ(outcome->stopped, Stopped::Confirmed) << outcome->note;
    EXPECT_EQ(outcome->output.text, "begun\n");
    EXPECT_THAT(processesWith("sleep " + seconds), IsEmpty());
}

TEST(Stop, ReachesTheProcessesAlsoWhereTheAccountsStartUpFilesTakeTheirTime)
{
    test::TempDir const folder;
    auto const shell = folder / "slow-for-helpers";
    test::writeFile(shell, "#!/bin/sh\ncase $2 in *TERMALIN-*) sleep 2.8;; esac\nexec /bin/sh \"$@\"\n");
    std::filesystem::permissions(shell, std::filesystem::perms(0755));
    Sshd const server({.loginShell = shell.string()});
    auto const connection = server.connect();
    auto const seconds = test::uniqueSeconds();
    auto const outcome = sleepTooLong(*connection, seconds);

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->completion, Completion::Timeout);
    // As root no signal of the protocol does it on OpenSSH 9.2; only the helper can.
    EXPECT_TRUE(test::eventually([&] { return processesWith("sleep " + seconds).empty(); })) << outcome->note;
    for (auto const pid : processesWith("sleep " + seconds))
        ::kill(pid, SIGKILL);
}

/// Neighbours on the same connection, as a set: the stopped command's, and the ones that must live on.
class Neighbours : public ::testing::TestWithParam<bool> {};

TEST_P(Neighbours, LiveOnWhenACommandOnTheSameConnectionIsStopped)
{
    for (auto const ordinary : {false, true}) {
        if (ordinary && !Sshd::canBeOthers())
            continue;
        Sshd const server({.acceptEnv = GetParam(), .ordinaryUser = ordinary});
        auto const connection = server.connect();
        auto const theirs = test::uniqueSeconds();
        auto const ours = test::uniqueSeconds();
        auto const gate = server.folder() / "gate";
        std::atomic<bool> running = false;
        std::jthread const neighbour([&] {
            ExecRequest request;
            request.command = "sleep " + theirs + " & echo on; while [ ! -e " + gate.string() +
                              " ]; do sleep 0.01; done; kill $!; echo well";
            request.onOutput = [&](std::string_view) { running = true; };
            auto const outcome = connection->exec(std::move(request), Deadline::in(60s), {});
            ASSERT_TRUE(outcome) << outcome.error().message;
            EXPECT_EQ(outcome->completion, Completion::Exit);
            EXPECT_EQ(outcome->output.text, "on\nwell\n");
        });
        ASSERT_TRUE(test::eventually([&] { return running.load(); }));
        auto const outcome =
            cancelled(*connection, "sleep " + ours + " & sleep " + ours + " & echo ready; wait");
        ASSERT_TRUE(outcome) << outcome.error().message;
        EXPECT_EQ(outcome->stopped, Stopped::Confirmed) << outcome->note;
        EXPECT_EQ(outcome->note.empty(), GetParam()) << outcome->note;
        EXPECT_THAT(processesWith("sleep " + ours), IsEmpty());
        EXPECT_EQ(processesWith("sleep " + theirs).empty(), false);
        test::writeFile(gate, "");
    }
}

INSTANTIATE_TEST_SUITE_P(MarkersTakenOrNot, Neighbours, ::testing::Bool());

TEST(Stop, TouchesNothingWhenItCannotTellACommandFromItsTwin)
{
    Sshd const server({.acceptEnv = false});
    auto const connection = server.connect();
    auto const seconds = test::uniqueSeconds();
    auto const command = "echo ready; exec sleep " + seconds;
    std::stop_source stopTwin;
    std::atomic<bool> running = false;
    std::jthread const twin([&] {
        ExecRequest request;
        request.command = command;
        request.onOutput = [&](std::string_view) { running = true; };
        static_cast<void>(connection->exec(std::move(request), Deadline::in(120s), stopTwin.get_token()));
    });
    ASSERT_TRUE(test::eventually([&] { return running.load(); }));
    auto const outcome = cancelled(*connection, command);

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->completion, Completion::Cancelled);
    EXPECT_EQ(outcome->stopped, Stopped::Unconfirmed);
    EXPECT_THAT(outcome->note, HasSubstr("proven"));
    // The channel's own signal may have ended ours (not for root before OpenSSH 10); the twin lives.
    EXPECT_GE(processesWith("sleep " + seconds).size(), 1U);
    for (auto const pid : processesWith("sleep " + seconds))
        ::kill(pid, SIGKILL);
}

TEST(Stop, UsesANewConnectionWhereTheServerAllowsOneChannel)
{
    for (auto const ordinary : {false, true}) {
        if (ordinary && !Sshd::canBeOthers())
            continue;
        Sshd const server({.maxSessions = 1, .ordinaryUser = ordinary});
        auto const connection = server.connect();
        auto const seconds = test::uniqueSeconds();
        auto const outcome =
            cancelled(*connection, "trap '' INT TERM; echo ready; sleep " + seconds + "; true");

        ASSERT_TRUE(outcome) << outcome.error().message;
        EXPECT_EQ(outcome->completion, Completion::Cancelled);
        EXPECT_EQ(outcome->stopped, Stopped::Confirmed) << outcome->note;
        EXPECT_THAT(processesWith("sleep " + seconds), IsEmpty());
        EXPECT_EQ(server.accepted(), 2U);
    }
}

TEST(Stop, SaysWhyNothingIsConfirmedWhereOneChannelIsAllowedAndNoMarkerTaken)
{
    Sshd const server({.acceptEnv = false, .maxSessions = 1});
    auto const connection = server.connect();
    auto const seconds = test::uniqueSeconds();
    auto const outcome = cancelled(*connection, "echo ready; exec sleep " + seconds);

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->stopped, Stopped::Unconfirmed);
    EXPECT_NE(outcome->note, "");
    for (auto const pid : processesWith("sleep " + seconds))
        ::kill(pid, SIGKILL);
}

TEST(Stop, NeverRunsAForcedCommandASecondTimeForTheHelper)
{
    Sshd const server;
    auto const runs = (server.home() / "runs").string();
    auto const seconds = test::uniqueSeconds();
    auto const key = test::readFile(server.userKey().string() + ".pub");
    test::writeFile(server.authorizedKeys(),
                    "command=\"echo run >>" + runs + "; echo ready; exec sleep " + seconds + "\" " + key);
    auto const outcome = cancelled(*server.connect(), "true");

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->stopped, Stopped::Unconfirmed);
    EXPECT_THAT(outcome->note, HasSubstr("fixed command"));
    EXPECT_EQ(test::readFile(runs), "run\n");
    for (auto const pid : processesWith("sleep " + seconds))
        ::kill(pid, SIGKILL);
}

TEST(Stop, ConfirmsNothingUnderForceCommandWhichRunsOnceMoreForTheHelper)
{
    auto const seconds = test::uniqueSeconds();
    test::TempDir const dir;
    auto const runs = (dir / "runs").string();
    Sshd const server(
        {.config = {"ForceCommand echo run >>" + runs + "; echo ready; exec sleep " + seconds}});
    auto const outcome = cancelled(*server.connect(), "true");

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->stopped, Stopped::Unconfirmed);
    EXPECT_NE(outcome->note, "");
    EXPECT_EQ(test::readFile(runs), "run\nrun\n"); // docs/SECURITY.md, "What does not hold"
    for (auto const pid : processesWith("sleep " + seconds))
        ::kill(pid, SIGKILL);
}

TEST(Stop, GoesOnToItsEndWhenTheLineIsLostBeforeTheHelperHasSpoken)
{
    test::TempDir const dir;
    auto const looking = dir / "looking";
    auto const gate = dir / "gate";
    std::filesystem::create_directory(dir / "bin");
    // The helper looks for the marker with it, after which it writes to the line that is no longer there.
    test::writeFile(dir / "bin/grep", "#!/bin/sh\n: >" + looking.string() + "\nwhile [ ! -e " +
                                          gate.string() +
                                          " ]; do /bin/sleep 0.02; done\nexec /bin/grep \"$@\"\n");
    std::filesystem::permissions(dir / "bin/grep", std::filesystem::perms(0755));
    Sshd server({.config = {"SetEnv PATH=" + (dir / "bin").string() + ":/usr/bin:/bin"}});
    auto const connection = server.connect();
    auto const seconds = test::uniqueSeconds();
    std::jthread const stopped([&] {
        static_cast<void>(
            cancelled(*connection, "trap '' INT TERM PIPE; echo ready; sleep " + seconds + "; true"));
    });
    EXPECT_TRUE(test::eventually([&] { return std::filesystem::exists(looking); }));
    server.killSessions();
    EXPECT_TRUE(test::eventually([&] { return server.sessions().empty(); }));
    EXPECT_THAT(processesWith("sleep " + seconds), ::testing::Not(IsEmpty()));
    test::writeFile(gate, "");
    EXPECT_TRUE(test::eventually([&] { return processesWith("sleep " + seconds).empty(); }));
    for (auto const pid : processesWith("sleep " + seconds))
        ::kill(pid, SIGKILL);
}

TEST(Stop, TellsTheAuditBeforeTheHelperRuns)
{
    Sshd const server;
    auto context = server.context();
    std::string told;
    context.onHelper = [&](std::string const& target, std::string const& what) {
        told = target + ": " + what;
    };
    auto const connection = Connection::open(server.route(), context, Deadline::in(30s), {});
    ASSERT_TRUE(connection) << connection.error().message;
    auto const outcome = cancelled(**connection, "echo ready; exec sleep " + test::uniqueSeconds());
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->stopped, Stopped::Confirmed) << outcome->note;
    EXPECT_THAT(told, HasSubstr("test server: ends the processes of one command"));
}

} // namespace
} // namespace termalin::ssh
