#include <atomic>
#include <csignal>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mcp-stdio/tunnel_ports.h"
#include "tests/support/temp_dir.h"

namespace termalin::mcp {
namespace {

using namespace std::chrono_literals;

// glibc's resolver cannot be made to hang from outside; this one does, for one name, and else is glibc's.
std::atomic<bool> released{false};

} // namespace
} // namespace termalin::mcp

extern "C" int getaddrinfo(char const* name, char const* service, addrinfo const* hints, addrinfo** result)
{
    if (name != nullptr && std::string_view(name) == "hangs.example" &&
        (hints == nullptr || (hints->ai_flags & AI_NUMERICHOST) == 0)) {
        termalin::mcp::released.wait(false);
        return EAI_AGAIN;
    }
    static auto* const real = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    return real(name, service, hints, result);
}

namespace termalin::mcp {
namespace {

ssh::Route routeTo(std::string hostname, std::uint16_t port, std::string proxyCommand = {})
{
    ssh::Target target;
    target.name = "saved";
    target.hostname = std::move(hostname);
    target.port = port;
    target.proxyCommand = std::move(proxyCommand);
    return {.hops = {target}};
}

Host hostAt(std::string hostname, std::uint16_t port)
{
    Host host;
    host.id = host.name = "saved";
    host.hostname = std::move(hostname);
    host.port = port;
    return host;
}

template <class T>
Errc codeOf(Result<T> const& result)
{
    return result ? Errc::Internal : result.error().code;
}

Result<TunnelPorts::Hold> login(TunnelPorts const& ports, ssh::Route const& route)
{
    return ports.holdForLogin(route, Deadline::in(60s), {});
}

Result<void> tunnelAt(std::vector<Host> const& hosts, std::uint16_t port)
{
    return refuseSavedPort(hosts, port, Deadline::in(60s), {});
}

bool endsHere(std::string const& hostname)
{
    return isThisComputer(hostname, Deadline::in(60s), {}).value();
}

class TunnelPortsTest : public ::testing::Test {
protected:
    test::TempDir m_dir;
    TunnelPorts m_ports{m_dir / "run"};
    TunnelPorts m_others{m_dir / "run"}; ///< Another agent's.
};

TEST_F(TunnelPortsTest, APortIsHeldOnceAndFreeAgainAfterwards)
{
    {
        auto const held = m_ports.holdForTunnel(4000);
        ASSERT_TRUE(held) << held.error().message;
        EXPECT_EQ(codeOf(m_others.holdForTunnel(4000)), Errc::PortInUse);
        EXPECT_TRUE(m_others.holdForTunnel(4001));
    }
    EXPECT_TRUE(m_others.holdForTunnel(4000));
}

TEST_F(TunnelPortsTest, NoLoginGoesToAPortOfThisComputerThatATunnelHolds)
{
    auto const held = m_ports.holdForTunnel(4000);
    ASSERT_TRUE(held);
    for (auto const* const here :
         {"127.0.0.1", "localhost", "127.9.9.9", "::1", "0.0.0.0", "::ffff:127.0.0.1"})
        EXPECT_EQ(codeOf(login(m_others, routeTo(here, 4000))), Errc::PortInUse) << here;
    EXPECT_TRUE(login(m_others, routeTo("127.0.0.1", 4001)));
    EXPECT_TRUE(login(m_others, routeTo("192.0.2.1", 4000))); // RFC 5737: nobody's address
    EXPECT_TRUE(login(m_others, routeTo("127.0.0.1", 4000, "nc elsewhere 22")));
}

TEST_F(TunnelPortsTest, WhileALoginToAPortIsUnderWayNoTunnelTakesIt)
{
    {
        auto const one = login(m_ports, routeTo("127.0.0.1", 4000));
        auto const two = login(m_others, routeTo("127.0.0.1", 4000));
        ASSERT_TRUE(one);
        ASSERT_TRUE(two) << "two logins to one port must not hinder each other";
        EXPECT_EQ(codeOf(m_ports.holdForTunnel(4000)), Errc::PortInUse);
    }
    auto const elsewhere = login(m_ports, routeTo("192.0.2.1", 4000));
    EXPECT_TRUE(m_others.holdForTunnel(4000));
}

TEST_F(TunnelPortsTest, WhatAnotherProcessHoldsCountsAndEndsWithThatProcess)
{
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    auto const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto const held = m_others.holdForTunnel(4000);
        char const answer = held ? 'y' : 'n';
        if (::write(ready[1], &answer, 1) == 1)
            ::pause();
        ::_exit(1);
    }
    char answer = 0;
    ASSERT_EQ(::read(ready[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    EXPECT_EQ(codeOf(m_ports.holdForTunnel(4000)), Errc::PortInUse);
    EXPECT_EQ(codeOf(login(m_ports, routeTo("localhost", 4000))), Errc::PortInUse);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(m_ports.holdForTunnel(4000));
    ::close(ready[0]);
    ::close(ready[1]);
}

TEST_F(TunnelPortsTest, APortThatASavedHostNamesOnThisComputerIsRefused)
{
    EXPECT_EQ(codeOf(tunnelAt({hostAt("127.0.0.1", 4000)}, 4000)), Errc::PortInUse);
    EXPECT_EQ(codeOf(tunnelAt({hostAt("x.example", 22), hostAt("localhost", 4000)}, 4000)), Errc::PortInUse);
    EXPECT_TRUE(tunnelAt({hostAt("127.0.0.1", 4001), hostAt("192.0.2.1", 4000)}, 4000));
}

TEST_F(TunnelPortsTest, AProxyCommandThatNamesATunnelsPortIsNotRun)
{
    auto const held = m_ports.holdForTunnel(4000);
    ASSERT_TRUE(held);
    for (auto const* const command :
         {"nc 127.0.0.1 4000", "nc localhost 4000 2>/dev/null", "ssh -p4000 -W db:22 localhost",
          "socat - TCP:localhost:4000", "ncat --proxy 127.0.0.1:4000 db 22"}) {
        auto const refused = login(m_others, routeTo("db.example", 22, command));
        EXPECT_EQ(codeOf(refused), Errc::PortInUse) << command;
        EXPECT_THAT(refused ? "" : refused.error().message, ::testing::HasSubstr("4000"));
    }
    for (auto const* const command :
         {"nc elsewhere 22", "nc elsewhere 40001", "nc elsewhere 14000", "nc e 99999999"})
        EXPECT_TRUE(login(m_others, routeTo("db.example", 22, command))) << command;
}

TEST_F(TunnelPortsTest, WhileAProxyCommandConnectsNoTunnelTakesAPortThatItNames)
{
    {
        auto const held = login(m_others, routeTo("db.example", 22, "ncat --proxy 127.0.0.1:4000 db 4001"));
        ASSERT_TRUE(held);
        EXPECT_EQ(codeOf(m_ports.holdForTunnel(4000)), Errc::PortInUse);
        EXPECT_EQ(codeOf(m_ports.holdForTunnel(4001)), Errc::PortInUse);
        EXPECT_TRUE(m_ports.holdForTunnel(4002));
    }
    EXPECT_TRUE(m_ports.holdForTunnel(4000));
}

TEST_F(TunnelPortsTest, APortThatASavedProxyCommandNamesIsRefused)
{
    auto host = hostAt("db.example", 22);
    host.proxyCommand = "nc 127.0.0.1 4000";
    EXPECT_EQ(codeOf(tunnelAt({host}, 4000)), Errc::PortInUse);
    EXPECT_TRUE(tunnelAt({host}, 4001));
}

/// Ends the lookups that hang, when a test is over.
class HangingNameTest : public TunnelPortsTest {
protected:
    HangingNameTest() { released = false; }
    ~HangingNameTest() override
    {
        released = true;
        released.notify_all();
    }
};

TEST_F(HangingNameTest, ALookUpEndsWithTheDeadlineAndTheStop)
{
    std::stop_source stopped;
    stopped.request_stop();
    auto const soon = [] { return Deadline::in(20ms); };
    auto const late = [] { return Deadline::in(1h); };
    auto const saved = std::vector{hostAt("hangs.example", 4000)};
    EXPECT_EQ(codeOf(refuseSavedPort(saved, 4000, soon(), {})), Errc::Timeout);
    EXPECT_EQ(codeOf(refuseSavedPort(saved, 4000, late(), stopped.get_token())), Errc::Cancelled);
    EXPECT_THAT(refuseSavedPort(saved, 4000, soon(), {}).error().message,
                ::testing::Not(::testing::HasSubstr("hangs")))
        << "it may be a host that agents do not see";
    EXPECT_TRUE(refuseSavedPort(saved, 4001, soon(), {})) << "no name has to be looked up for this";
    auto const held = m_ports.holdForTunnel(4000);
    ASSERT_TRUE(held);
    EXPECT_EQ(codeOf(m_others.holdForLogin(routeTo("hangs.example", 4000), soon(), {})), Errc::Timeout);
    EXPECT_EQ(codeOf(m_others.holdForLogin(routeTo("hangs.example", 4000), late(), stopped.get_token())),
              Errc::Cancelled);
}

TEST_F(TunnelPortsTest, AnAddressOfAnyInterfaceIsThisComputer)
{
    EXPECT_TRUE(endsHere("localhost"));
    EXPECT_TRUE(endsHere("0"));
    EXPECT_TRUE(endsHere("127.1"));
    EXPECT_FALSE(endsHere("192.0.2.7"));
    EXPECT_FALSE(endsHere("2001:db8::1"));
}

} // namespace
} // namespace termalin::mcp
