#include <csignal>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mcp-stdio/tunnel_ports.h"
#include "tests/support/temp_dir.h"

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
        EXPECT_EQ(codeOf(m_others.holdForLogin(routeTo(here, 4000))), Errc::PortInUse) << here;
    EXPECT_TRUE(m_others.holdForLogin(routeTo("127.0.0.1", 4001)));
    EXPECT_TRUE(m_others.holdForLogin(routeTo("192.0.2.1", 4000))); // RFC 5737: nobody's address
    EXPECT_TRUE(m_others.holdForLogin(routeTo("127.0.0.1", 4000, "nc elsewhere 22")));
}

TEST_F(TunnelPortsTest, WhileALoginToAPortIsUnderWayNoTunnelTakesIt)
{
    {
        auto const one = m_ports.holdForLogin(routeTo("127.0.0.1", 4000));
        auto const two = m_others.holdForLogin(routeTo("127.0.0.1", 4000));
        ASSERT_TRUE(one);
        ASSERT_TRUE(two) << "two logins to one port must not hinder each other";
        EXPECT_EQ(codeOf(m_ports.holdForTunnel(4000)), Errc::PortInUse);
    }
    auto const elsewhere = m_ports.holdForLogin(routeTo("192.0.2.1", 4000));
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
    EXPECT_EQ(codeOf(m_ports.holdForLogin(routeTo("localhost", 4000))), Errc::PortInUse);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(m_ports.holdForTunnel(4000));
    ::close(ready[0]);
    ::close(ready[1]);
}

TEST_F(TunnelPortsTest, APortThatASavedHostNamesOnThisComputerIsRefused)
{
    EXPECT_EQ(codeOf(refuseSavedPort({hostAt("127.0.0.1", 4000)}, 4000)), Errc::PortInUse);
    EXPECT_EQ(codeOf(refuseSavedPort({hostAt("x.example", 22), hostAt("localhost", 4000)}, 4000)),
              Errc::PortInUse);
    EXPECT_TRUE(refuseSavedPort({hostAt("127.0.0.1", 4001), hostAt("192.0.2.1", 4000)}, 4000));
}

TEST_F(TunnelPortsTest, AnAddressOfAnyInterfaceIsThisComputer)
{
    EXPECT_TRUE(isThisComputer("localhost"));
    EXPECT_TRUE(isThisComputer("0"));
    EXPECT_TRUE(isThisComputer("127.1"));
    EXPECT_FALSE(isThisComputer("192.0.2.7"));
    EXPECT_FALSE(isThisComputer("2001:db8::1"));
}

} // namespace
} // namespace termalin::mcp
