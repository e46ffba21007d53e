// Ends of commands that a server of our own plays, in an order and at a pace that sshd shows only when the
// machine is short of time.

#include <chrono>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ssh/wire.h"
#include "tests/support/peer.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using test::HostileServer;
using test::Peer;
using ::testing::HasSubstr;

// Message numbers of RFC 4254.
constexpr std::uint8_t kDisconnect = 1, kGlobalRequest = 80, kRequestFailure = 82, kOpen = 90, kOpened = 91,
                       kOpenFailed = 92, kData = 94, kEof = 96, kClose = 97, kRequest = 98, kSuccess = 99,
                       kFailure = 100;

/// Reads on until a packet with this number comes.
std::string await(Peer& peer, std::uint8_t number)
{
    for (;;)
        if (auto packet = peer.receive(); static_cast<std::uint8_t>(packet.front()) == number)
            return packet;
}

/// Opens a channel and takes the request for a command, without an answer to it. The client's channel.
std::uint32_t takeCommand(Peer& peer)
{
    auto const open = await(peer, kOpen);
    WireReader in(open);
    in.byte();
    in.string();
    auto const channel = in.u32().value_or(0);
    peer.send(WireWriter().byte(kOpened).u32(channel).u32(0).u32(1U << 20U).u32(32768).bytes());
    for (;;) {
        auto const request = await(peer, kRequest);
        if (request.find("exec") != std::string::npos)
            return channel;
    }
}

/// Lets a command begin, and tells that it has ended with 7, its output still to come. The client's channel.
std::uint32_t runCommand(Peer& peer)
{
    auto const channel = takeCommand(peer);
    peer.send(WireWriter().byte(kSuccess).u32(channel).bytes());
    peer.send(WireWriter().byte(kRequest).u32(channel).string("exit-status").byte(0).u32(7).bytes());
    return channel;
}

Result<ExecOutcome> run(HostileServer const& server)
{
    auto const connection = Connection::open(server.route(), server.context(), Deadline::in(30s), {});
    if (!connection)
        return std::unexpected(connection.error());
    ExecRequest request;
    request.command = "anything";
    return (*connection)->exec(std::move(request), Deadline::in(30s), {});
}

TEST(PlayedExec, OnlyTheServersRefusalOfACommandSaysThatNothingRan)
{
    HostileServer const refusing([](Peer& peer) {
        auto const channel = takeCommand(peer);
        peer.send(WireWriter().byte(kFailure).u32(channel).bytes());
        static_cast<void>(await(peer, kClose));
    });
    auto const refused = run(refusing);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Unsupported);
    EXPECT_THAT(refused.error().message, HasSubstr("Nothing ran"));

    // The command may run by now, whatever becomes of the answer.
    HostileServer const garbling([](Peer& peer) {
        static_cast<void>(takeCommand(peer));
        peer.send(std::string(60'000, 'x')); // longer than any packet may be (RFC 4253 6.1)
        static_cast<void>(peer.receive());
    });
    HostileServer const leaving([](Peer& peer) {
        static_cast<void>(takeCommand(peer));
        peer.send(WireWriter().byte(kDisconnect).u32(11).string("bye").string("").bytes());
    });
    HostileServer const dying([](Peer& peer) {
        static_cast<void>(takeCommand(peer));
        peer.hangUp();
    });
    for (auto const* const server : {&garbling, &leaving, &dying}) {
        auto const outcome = run(*server);
        ASSERT_TRUE(outcome) << outcome.error().message;
        EXPECT_EQ(outcome->completion, Completion::Disconnected);
        EXPECT_THAT(outcome->note, HasSubstr("may or may not have finished"));
        EXPECT_FALSE(outcome->exitCode);
    }
}

TEST(PlayedExec, AServerThatGaveNoChannelBeforehandIsAskedAgainLater)
{
    std::promise<void> again;
    HostileServer const server([&](Peer& peer) {
        auto const open = await(peer, kOpen);
        WireReader in(open);
        in.byte();
        in.string();
        auto const channel = in.u32().value_or(0);
        // SSH_OPEN_RESOURCE_SHORTAGE, RFC 4254 5.1
        peer.send(WireWriter().byte(kOpenFailed).u32(channel).u32(4).string("not now").string("").bytes());
        static_cast<void>(await(peer, kOpen));
        again.set_value();
        static_cast<void>(await(peer, kClose));
    });
    auto const connection = Connection::open(server.route(), server.context(), Deadline::in(30s), {});
    ASSERT_TRUE(connection) << connection.error().message;
    (*connection)->keepChannelReady();
    EXPECT_EQ(again.get_future().wait_for(30s), std::future_status::ready);
}

TEST(PlayedExec, TheOutputOfAServerThatHadNoTimeIsAwaited)
{
    HostileServer const server([](Peer& peer) {
        auto const channel = runCommand(peer);
        // It comes round only after it has been asked, so it was silent for longer than a holder of the
        // output may be; first in its turn is what its pipes held.
        await(peer, kGlobalRequest);
        peer.send(WireWriter().byte(kData).u32(channel).string("late but whole").bytes());
        peer.send(WireWriter().byte(kEof).u32(channel).bytes());
        peer.send(WireWriter().byte(kClose).u32(channel).bytes());
        peer.send(WireWriter().byte(kRequestFailure).bytes());
        static_cast<void>(await(peer, kClose));
        static_cast<void>(peer.receive());
    });
    auto const outcome = run(server);
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->output.text, "late but whole");
    EXPECT_EQ(outcome->exitCode, 7);
    EXPECT_EQ(outcome->note, "");
}

TEST(PlayedExec, OutputThatIsHeldOpenInSilenceEndsTheWaitOnceTheServerHasAnswered)
{
    HostileServer const server([](Peer& peer) {
        auto const channel = runCommand(peer);
        peer.send(WireWriter().byte(kData).u32(channel).string("all there is").bytes());
        for (int i = 0; i < 2; ++i) {
            await(peer, kGlobalRequest);
            peer.send(WireWriter().byte(kRequestFailure).bytes());
        }
        static_cast<void>(await(peer, kClose));
        static_cast<void>(peer.receive());
    });
    auto const begun = Deadline::Clock::now();
    auto const outcome = run(server);
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->output.text, "all there is");
    EXPECT_EQ(outcome->exitCode, 7);
    EXPECT_THAT(outcome->note, HasSubstr("holds its output"));
    EXPECT_GE(Deadline::Clock::now() - begun, 500ms);
}

} // namespace
} // namespace termalin::ssh
