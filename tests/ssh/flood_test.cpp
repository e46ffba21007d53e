// A server that has taken the login, and then sends what no server should: our memory must have an end.

#include <chrono>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "ssh/wire.h"
#include "tests/support/peer.h"
#include "tests/support/process.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using test::HostileServer;
using test::Peer;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kMiB = 1U << 20U;
/// More than a session may ever queue, less than a machine that builds this has.
constexpr std::size_t kFlood = 256 * kMiB;

std::shared_ptr<Connection> open(HostileServer const& server)
{
    auto opened = Connection::open(server.route(), server.context(), Deadline::in(30s), {});
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? *opened : nullptr;
}

/// What the program's heap holds now.
std::size_t heap()
{
    return ::mallinfo2().uordblks;
}

/// The play is over, or the connection has ended.
void expectEnd(HostileServer const& server, std::string_view reason)
{
    auto const before = heap();
    auto const connection = open(server);
    ASSERT_NE(connection, nullptr);
    std::size_t most = 0;
    EXPECT_TRUE(test::eventually(
        [&] {
            most = std::max(most, heap());
            return !connection->alive();
        },
        120s));
    EXPECT_THAT(connection->whyClosed(), AllOf(HasSubstr("hostile server"), HasSubstr(std::string(reason))));
    EXPECT_LT(most - std::min(most, before), 160 * kMiB);
}

/// Sends the same packet until kFlood bytes of memory would be taken, then waits for the end.
HostileServer::Play flood(std::string packet, std::size_t weight)
{
    return [packet = std::move(packet), weight](Peer& peer) {
        for (std::size_t sent = 0; sent < kFlood; sent += weight)
            peer.send(packet);
        for (;;)
            static_cast<void>(peer.receive());
    };
}

TEST(Flood, OfBigPacketsThatNobodyAsksForEndsTheSession)
{
    // SSH_MSG_USERAUTH_BANNER, after the login
    HostileServer const server(
        flood(WireWriter().byte(53).string(std::string(30'000, 'b')).string("").bytes(), 30'000));
    expectEnd(server, "64 MiB");
}

TEST(Flood, OfSmallPacketsThatNobodyAsksForEndsTheSession)
{
    // SSH_MSG_CHANNEL_SUCCESS for a channel that there is not
    HostileServer const server(flood(WireWriter().byte(99).u32(7).bytes(), 256));
    expectEnd(server, "64 MiB");
}

TEST(Flood, OfRequestsWhoseAnswersAreNotReadEndsTheSession)
{
    // SSH_MSG_CHANNEL_OPEN for a forward that nobody asked for, to be refused with a sentence
    HostileServer const server([](Peer& peer) {
        auto const packet = WireWriter()
                                .byte(90)
                                .string("forwarded-tcpip")
                                .u32(1)
                                .u32(1U << 20U)
                                .u32(32768)
                                .string("localhost")
                                .u32(1)
                                .string("localhost")
                                .u32(2)
                                .bytes();
        for (std::size_t sent = 0; sent < kFlood; sent += 80) // what the answer takes on the wire
            peer.send(packet);
    });
    expectEnd(server, "does not read");
}

TEST(Flood, OfRequestsWhoseAnswersAreReadIsOnlyWork)
{
    std::atomic<bool> answered = false;
    HostileServer const server([&](Peer& peer) {
        auto const packet = WireWriter().byte(80).string("keepalive@openssh.com").byte(1).bytes();
        for (int i = 0; i < 20'000; ++i) {
            peer.send(packet);
            if (static_cast<unsigned char>(peer.receive().front()) != 82) // SSH_MSG_REQUEST_FAILURE
                return;
        }
        answered = true;
        static_cast<void>(peer.receive());
    });
    auto const connection = open(server);
    ASSERT_NE(connection, nullptr);
    EXPECT_TRUE(test::eventually([&] { return answered.load(); }, 60s));
    EXPECT_TRUE(connection->alive()) << connection->whyClosed();
}

} // namespace
} // namespace termalin::ssh
