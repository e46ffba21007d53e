// Servers with addresses of both families, of which one may be dead.

#include <arpa/inet.h>
#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests/support/relay.h"
#include "tests/support/sshd.h"

/// In this program the name "both.test" (RFC 6761 6.2) has both addresses of the loopback, whatever the
/// machine knows of names. freeaddrinfo(3) of glibc frees each entry by itself.
extern "C" int getaddrinfo(char const* node, char const* service, addrinfo const* hints, addrinfo** result)
{
    static auto const real = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    if (node == nullptr || std::strcmp(node, "both.test") != 0)
        return real(node, service, hints, result);
    addrinfo** end = result;
    *result = nullptr;
    for (auto const& [family, address] : {std::pair(AF_INET, "127.0.0.1"), std::pair(AF_INET6, "::1")}) {
        if (hints != nullptr && hints->ai_family != AF_UNSPEC && hints->ai_family != family)
            continue;
        if (auto const rc = real(address, service, hints, end); rc != 0)
            return rc;
        while (*end != nullptr)
            end = &(*end)->ai_next;
    }
    return 0;
}

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using test::Relay;
using test::Sshd;

class Addresses : public ::testing::Test {
protected:
    /// What an `echo` over a connection to this place says, or why there is none.
    std::string reach(std::string const& hostname, std::uint16_t port,
                      AddressFamily family = AddressFamily::Any)
    {
        auto target = m_server.target();
        target.hostKeyAlias = "[127.0.0.1]:" + std::to_string(m_server.port());
        target.hostname = hostname;
        target.port = port;
        target.family = family;
        auto const connection = Connection::open({{target}}, m_server.context(), Deadline::in(30s), {});
        if (!connection)
            return connection.error().message;
        ExecRequest request;
        request.command = "echo here";
        auto const outcome = (*connection)->exec(std::move(request), Deadline::in(30s), {});
        return outcome ? outcome->output.text : outcome.error().message;
    }

    Sshd m_server;
};

TEST_F(Addresses, AnIpv6AddressIsConnectedTo)
{
    Relay const six(m_server.port(), AF_INET6);
    EXPECT_EQ(reach("::1", six.port()), "here\n");
    EXPECT_NE(reach("::1", six.port(), AddressFamily::Inet), "here\n");
}

TEST_F(Addresses, TheOtherFamilyIsTakenWhereOneIsRefused)
{
    EXPECT_EQ(reach("both.test", m_server.port()), "here\n"); // nothing listens on ::1
    EXPECT_EQ(reach("both.test", m_server.port(), AddressFamily::Inet), "here\n");
    EXPECT_NE(reach("both.test", m_server.port(), AddressFamily::Inet6), "here\n");
    Relay const six(m_server.port(), AF_INET6); // and nothing on 127.0.0.1
    EXPECT_EQ(reach("both.test", six.port()), "here\n");
    EXPECT_EQ(reach("both.test", six.port(), AddressFamily::Inet6), "here\n");
    EXPECT_NE(reach("both.test", six.port(), AddressFamily::Inet), "here\n");
}

TEST_F(Addresses, TheOtherFamilyIsTakenWhereOneNeverAnswers)
{
    // A listener whose queue is full drops what comes, as a firewall does; listen(2).
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    address.sin6_port = ::htons(m_server.port());
    auto* const place = reinterpret_cast<sockaddr*>(&address);
    UniqueFd const deaf(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(deaf.get(), place, sizeof address), 0);
    ASSERT_EQ(::listen(deaf.get(), 0), 0);
    std::vector<UniqueFd> waiting;
    auto full = false;
    while (!full && waiting.size() < 64) {
        auto& caller =
            waiting.emplace_back(::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        ::connect(caller.get(), place, sizeof address);
        pollfd connected{caller.get(), POLLOUT, 0};
        full = ::poll(&connected, 1, 300) == 0;
    }
    ASSERT_TRUE(full) << "this system takes every connection";
    EXPECT_EQ(reach("both.test", m_server.port()), "here\n");
}

} // namespace
} // namespace termalin::ssh
