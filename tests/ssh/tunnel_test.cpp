#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>

#include "ssh/tunnel.h"
#include "tests/support/process.h"
#include "tests/support/program.h"
#include "tests/support/relay.h"
#include "tests/support/sshd.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

sockaddr_in loopback(std::uint16_t port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

UniqueFd dial(std::uint16_t port)
{
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto const address = loopback(port);
    timeval const limit{.tv_sec = 60, .tv_usec = 0}; // a test that hangs fails instead
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        return {};
    return fd;
}

/// Everything up to the end of input; the errno of a failure in `number`.
std::string readAll(int fd, int* number = nullptr)
{
    std::string all;
    std::array<char, 65536> piece{};
    for (;;) {
        auto const got = ::recv(fd, piece.data(), piece.size(), 0);
        if (got < 0 && number != nullptr)
            *number = errno;
        if (got <= 0)
            return all;
        all.append(piece.data(), static_cast<std::size_t>(got));
    }
}

std::string readExactly(int fd, std::size_t size)
{
    std::string all(size, '\0');
    auto const got = ::recv(fd, all.data(), size, MSG_WAITALL);
    all.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return all;
}

void sendAll(int fd, std::string_view bytes)
{
    while (!bytes.empty()) {
        auto const put = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (put <= 0)
            return;
        bytes.remove_prefix(static_cast<std::size_t>(put));
    }
}

/// A server behind the tunnel: each connection is handed to `serve` on a thread of its own.
class Target {
public:
    explicit Target(std::function<void(int)> serve) : m_serve(std::move(serve))
    {
        m_listener = test::listenOnLoopback(m_port);
        m_thread = std::jthread([this](std::stop_token const& stop) { loop(stop); });
    }
    ~Target()
    {
        m_thread.request_stop();
        m_thread.join();
    }
    Target(Target const&) = delete;
    Target& operator=(Target const&) = delete;
    [[nodiscard]] std::uint16_t port() const { return m_port; }

private:
    void loop(std::stop_token const& stop)
    {
        std::vector<std::jthread> all;
        while (!stop.stop_requested()) {
            pollfd ready{m_listener.get(), POLLIN, 0};
            if (::poll(&ready, 1, 20) <= 0)
                continue;
            UniqueFd client(::accept4(m_listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (client)
                all.emplace_back([this, fd = std::move(client)] { m_serve(fd.get()); });
        }
    }

    std::function<void(int)> m_serve;
    std::uint16_t m_port = 0;
    UniqueFd m_listener;
    std::jthread m_thread;
};

/// Answers the end of the input with all of it.
void answerAtTheEnd(int fd)
{
    sendAll(fd, "got " + readAll(fd));
}

std::uint16_t closedPort()
{
    std::uint16_t port = 0;
    auto const listener = test::listenOnLoopback(port);
    return port;
}

class TunnelTest : public ::testing::Test {
protected:
    std::shared_ptr<Tunnel> local(std::uint16_t port, std::function<Result<void>()> admit = {})
    {
        auto opened = Tunnel::open(m_connection, {.kind = TunnelKind::Local,
                                                  .remoteHost = "127.0.0.1",
                                                  .remotePort = port,
                                                  .localPort = 0,
                                                  .admit = std::move(admit)});
        EXPECT_TRUE(opened) << opened.error().message;
        return *opened;
    }
    std::shared_ptr<Tunnel> socks(std::function<Result<void>()> admit = {})
    {
        auto opened = Tunnel::open(m_connection, {.kind = TunnelKind::Dynamic,
                                                  .remoteHost = {},
                                                  .remotePort = 0,
                                                  .localPort = 0,
                                                  .admit = std::move(admit)});
        EXPECT_TRUE(opened) << opened.error().message;
        return *opened;
    }

    test::Sshd m_server;
    std::shared_ptr<Connection> m_connection = m_server.connect();
};

std::string socksRequest(std::uint16_t port)
{
    return "\x05\x01\0\x05\x01\0\x01\x7f\0\0\x01"s + static_cast<char>(port >> 8U) +
           static_cast<char>(port & 0xffU);
}

TEST_F(TunnelTest, TheEndOfTheInputIsPassedOnAloneAndTheAnswerStillComes)
{
    Target const target(answerAtTheEnd);
    auto const tunnel = local(target.port());
    auto const client = dial(tunnel->localPort());
    sendAll(client.get(), "question");
    ::shutdown(client.get(), SHUT_WR);
    EXPECT_EQ(readAll(client.get()), "got question");
    EXPECT_EQ(tunnel->counts().connections, 1U);
    EXPECT_EQ(tunnel->counts().bytesOut, 8U);
    EXPECT_EQ(tunnel->counts().bytesIn, 12U);
    EXPECT_EQ(tunnel->lastProblem(), "");
}

TEST_F(TunnelTest, ATargetThatEndsFirstStillHearsTheClient)
{
    std::promise<std::string> heard;
    Target const target([&](int fd) {
        sendAll(fd, "bye");
        ::shutdown(fd, SHUT_WR);
        heard.set_value(readAll(fd));
    });
    auto const tunnel = local(target.port());
    auto const client = dial(tunnel->localPort());
    EXPECT_EQ(readAll(client.get()), "bye");
    sendAll(client.get(), "wait");
    ::shutdown(client.get(), SHUT_WR);
    EXPECT_EQ(heard.get_future().get(), "wait");
}

TEST_F(TunnelTest, NcAndCurlWorkThroughIt)
{
    Target const target(answerAtTheEnd);
    auto const tunnel = local(target.port());
    auto const nc = test::run({"nc", "-N", "127.0.0.1", std::to_string(tunnel->localPort())}, {}, "hello");
    EXPECT_EQ(nc.out, "got hello");

    Target const web([](int fd) {
        readExactly(fd, 4);
        sendAll(fd, "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nweb");
        ::shutdown(fd, SHUT_WR);
        readAll(fd);
    });
    auto const proxy = socks();
    for (auto const* const scheme : {"--socks5", "--socks5-hostname"}) {
        auto const curl = test::run({"curl", "-s", "--noproxy", "", scheme,
                                     "127.0.0.1:" + std::to_string(proxy->localPort()),
                                     "http://localhost:" + std::to_string(web.port()) + "/"});
        EXPECT_EQ(curl.out, "web") << scheme;
    }
}

TEST_F(TunnelTest, ABusyPortIsPortInUseAndNothingElseBreaks)
{
    Target const target(answerAtTheEnd);
    auto const first = local(target.port());
    auto const second = Tunnel::open(m_connection, {.kind = TunnelKind::Local,
                                                    .remoteHost = "127.0.0.1",
                                                    .remotePort = target.port(),
                                                    .localPort = first->localPort(),
                                                    .admit = {}});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Errc::PortInUse);
    EXPECT_NE(second.error().message.find(std::to_string(first->localPort())), std::string::npos);
    auto const client = dial(first->localPort());
    ::shutdown(client.get(), SHUT_WR);
    EXPECT_EQ(readAll(client.get()), "got ");
}

TEST_F(TunnelTest, AClosedTunnelGivesItsPortBackAndEndsItsConnections)
{
    Target const target([](int fd) { readAll(fd); });
    auto const tunnel = local(target.port());
    auto const port = tunnel->localPort();
    auto const client = dial(port);
    sendAll(client.get(), "x");
    EXPECT_TRUE(test::eventually([&] { return tunnel->counts().bytesOut == 1; }));
    tunnel->close();
    EXPECT_FALSE(tunnel->open());
    EXPECT_EQ(readAll(client.get()), "");
    EXPECT_FALSE(dial(port));
    auto const again = Tunnel::open(
        m_connection,
        {.kind = TunnelKind::Dynamic, .remoteHost = {}, .remotePort = 0, .localPort = port, .admit = {}});
    EXPECT_TRUE(again) << again.error().message;
}

TEST_F(TunnelTest, ItListensOnLoopbackOnly)
{
    auto const tunnel = socks();
    auto const listeners = test::run({"ss", "-Hltn", "sport = :" + std::to_string(tunnel->localPort())}).out;
    EXPECT_NE(listeners.find("127.0.0.1:"), std::string::npos) << listeners;
    EXPECT_EQ(listeners.find("0.0.0.0:" + std::to_string(tunnel->localPort())), std::string::npos)
        << listeners;
    EXPECT_EQ(listeners.find("[::]:" + std::to_string(tunnel->localPort())), std::string::npos) << listeners;
}

TEST_F(TunnelTest, ARefusingTargetResetsTheClientAndIsTold)
{
    auto const tunnel = local(closedPort());
    auto const client = dial(tunnel->localPort());
    ASSERT_TRUE(client);
    int number = 0;
    EXPECT_EQ(readAll(client.get(), &number), "");
    EXPECT_EQ(number, ECONNRESET);
    EXPECT_TRUE(test::eventually([&] { return !tunnel->lastProblem().empty(); }));
    EXPECT_NE(tunnel->lastProblem().find("127.0.0.1"), std::string::npos) << tunnel->lastProblem();
    EXPECT_EQ(tunnel->counts().connections, 0U);
    EXPECT_TRUE(tunnel->open());

    auto const proxy = socks();
    auto const asking = dial(proxy->localPort());
    sendAll(asking.get(), socksRequest(closedPort()));
    EXPECT_EQ(readAll(asking.get()), "\x05\0\x05\x05\0\x01\0\0\0\0\0\0"s); // connection refused
    EXPECT_EQ(test::run({"curl", "-s", "--noproxy", "", "--socks5-hostname",
                         "127.0.0.1:" + std::to_string(proxy->localPort()),
                         "http://127.0.0.1:" + std::to_string(closedPort()) + "/"})
                  .status,
              97); // curl(1): proxy handshake error
}

TEST_F(TunnelTest, AServerThatForbidsForwardingIsNotAllowed)
{
    test::Sshd const strict({.config = {"AllowTcpForwarding no"}});
    m_connection = strict.connect();
    auto const proxy = socks();
    auto const asking = dial(proxy->localPort());
    sendAll(asking.get(), socksRequest(closedPort()));
    EXPECT_EQ(readAll(asking.get()), "\x05\0\x05\x02\0\x01\0\0\0\0\0\0"s);
    EXPECT_NE(proxy->lastProblem(), "");
}

TEST_F(TunnelTest, BytesThatFollowTheSocksRequestAtOnceReachTheTarget)
{
    Target const target(answerAtTheEnd);
    auto const proxy = socks();
    auto const client = dial(proxy->localPort());
    sendAll(client.get(), socksRequest(target.port()) + "early");
    ::shutdown(client.get(), SHUT_WR);
    EXPECT_EQ(readAll(client.get()), "\x05\0\x05\0\0\x01\0\0\0\0\0\0got early"s);
}

TEST_F(TunnelTest, WhoeverSpeaksAnotherProtocolIsSentAwayAndTheProxyServesTheNext)
{
    Target const target(answerAtTheEnd);
    auto const proxy = socks();
    for (auto const& nonsense : {"GET / HTTP/1.0\r\n\r\n"s, "\x04\x01\0\x50\x7f\0\0\x01\0"s, "\0\0"s}) {
        auto const client = dial(proxy->localPort());
        sendAll(client.get(), nonsense);
        EXPECT_EQ(readAll(client.get()), "");
    }
    auto const silent = dial(proxy->localPort());
    auto const next = dial(proxy->localPort());
    sendAll(next.get(), socksRequest(target.port()));
    ::shutdown(next.get(), SHUT_WR);
    EXPECT_EQ(readAll(next.get()), "\x05\0\x05\0\0\x01\0\0\0\0\0\0got "s);
}

TEST_F(TunnelTest, EachNewConnectionIsAskedForAndARefusalIsNotMade)
{
    Target const target(answerAtTheEnd);
    std::atomic<bool> allowed = true;
    auto const ask = [&]() -> Result<void> {
        return allowed ? Result<void>{} : fail(Errc::NeedsFullAccess, "no longer allowed");
    };
    auto const tunnel = local(target.port(), ask);
    auto const proxy = socks(ask);
    auto const first = dial(tunnel->localPort());
    ::shutdown(first.get(), SHUT_WR);
    EXPECT_EQ(readAll(first.get()), "got ");
    allowed = false;
    auto const second = dial(tunnel->localPort());
    int number = 0;
    EXPECT_EQ(readAll(second.get(), &number), "");
    EXPECT_EQ(number, ECONNRESET);
    EXPECT_TRUE(test::eventually([&] { return tunnel->lastProblem() == "no longer allowed"; }));
    auto const third = dial(proxy->localPort());
    sendAll(third.get(), socksRequest(target.port()));
    EXPECT_EQ(readAll(third.get()), "\x05\0\x05\x02\0\x01\0\0\0\0\0\0"s);
    EXPECT_EQ(tunnel->counts().connections, 1U);
}

TEST_F(TunnelTest, AStuckReaderNeitherGrowsMemoryNorHoldsUpOthers)
{
    std::atomic<std::uint64_t> taken = 0;
    Target const flood([&](int fd) {
        std::string const piece(65536, 'x');
        while (taken < (200U << 20U)) {
            pollfd ready{fd, POLLOUT, 0};
            if (::poll(&ready, 1, 2000) <= 0)
                return; // back-pressure has reached us
            auto const put = ::send(fd, piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (put > 0)
                taken += static_cast<std::uint64_t>(put);
            else if (errno != EAGAIN)
                return;
        }
    });
    Target const echo(answerAtTheEnd);
    auto const stuck = local(flood.port());
    auto const fine = local(echo.port());
    auto const reader = dial(stuck->localPort()); // and never reads
    EXPECT_TRUE(test::eventually([&] { return taken > (1U << 20U); }));
    for (int i = 0; i < 20; ++i) {
        auto const client = dial(fine->localPort());
        sendAll(client.get(), "x");
        ::shutdown(client.get(), SHUT_WR);
        EXPECT_EQ(readAll(client.get()), "got x");
    }
    auto const before = taken.load();
    EXPECT_LT(before, 64U << 20U); // the channel's window and the sockets' buffers, not all of it
    EXPECT_EQ(
        m_connection->exec({.command = "echo here", .onOutput = {}}, Deadline::in(30s), {})->output.text,
        "here\n");
}

TEST_F(TunnelTest, ManyMegabytesGoBothWaysAtOnceWhileKeysAreExchangedAnew)
{
    test::Sshd const rekeying({.config = {"RekeyLimit 256K"}});
    m_connection = rekeying.connect();
    Target const echo([](int fd) {
        std::array<char, 65536> piece{};
        for (;;) {
            auto const got = ::recv(fd, piece.data(), piece.size(), 0);
            if (got <= 0)
                return;
            sendAll(fd, {piece.data(), static_cast<std::size_t>(got)});
        }
    });
    auto const tunnel = local(echo.port());
    auto const client = dial(tunnel->localPort());
    std::string bytes(2U << 20U, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<char>(i * 2'654'435'761U >> 13U);
    std::jthread const sender([&] {
        sendAll(client.get(), bytes);
        ::shutdown(client.get(), SHUT_WR);
    });
    EXPECT_TRUE(readAll(client.get()) == bytes);
}

TEST_F(TunnelTest, FromAFarServerEightMebibytesMayBeOnTheirWay)
{
    test::Relay relay(m_server.port());
    relay.beFar(10ms);
    auto route = m_server.route();
    route.hops[0].port = relay.port();
    auto opened = Connection::open(route, m_server.contextAt(relay.port()), Deadline::in(60s), {});
    ASSERT_TRUE(opened) << opened.error().message;
    m_connection = *std::move(opened);

    // What a target can send while nobody reads at the other end: the windows, and what the sockets hold.
    std::atomic<std::uint64_t> taken = 0;
    Target const flood([&](int fd) {
        std::string const piece(65536, 'x');
        for (;;) {
            pollfd ready{fd, POLLOUT, 0};
            if (::poll(&ready, 1, 20'000) <= 0)
                return;
            auto const put = ::send(fd, piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (put < 0 && errno != EAGAIN)
                return; // the test has seen enough
            taken += static_cast<std::uint64_t>(std::max<ssize_t>(put, 0));
        }
    });
    auto const tunnel = local(flood.port());
    auto const reader = dial(tunnel->localPort());
    std::array<char, 4096> first{}; // the window is widened with the first bytes
    EXPECT_GT(::recv(reader.get(), first.data(), first.size(), 0), 0);
    // With a window of 1 MiB it is 4 to 6 MiB.
    EXPECT_TRUE(test::eventually([&] { return taken > (8U << 20U); })) << taken;
    tunnel->close();
}

TEST_F(TunnelTest, AtMost256ConnectionsAtOnceAndRoomAgainWhenOneEnds)
{
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    auto const proxy = socks(); // its clients count from the first byte on
    std::vector<UniqueFd> clients;
    for (int i = 0; i < 256; ++i) {
        clients.push_back(dial(proxy->localPort()));
        sendAll(clients.back().get(), "\x05\x01\0"s);
        ASSERT_EQ(readExactly(clients.back().get(), 2), "\x05\0"s) << i;
    }
    auto const tooMany = dial(proxy->localPort());
    int number = 0;
    EXPECT_EQ(readAll(tooMany.get(), &number), "");
    EXPECT_EQ(number, ECONNRESET);
    EXPECT_NE(proxy->lastProblem().find("256"), std::string::npos);
    clients.pop_back();
    EXPECT_TRUE(test::eventually([&] {
        auto const again = dial(proxy->localPort());
        sendAll(again.get(), "\x05\x01\0"s);
        return readExactly(again.get(), 2) == "\x05\0"s;
    }));
}

TEST_F(TunnelTest, RunningOutOfDescriptorsStaysInTheTunnel)
{
    auto const proxy = socks();
    rlimit old{};
    ::getrlimit(RLIMIT_NOFILE, &old);
    UniqueFd waiting;
    {
        UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        rlimit const none{.rlim_cur = 3, .rlim_max = old.rlim_max}; // what is open stays open
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
        auto const address = loopback(proxy->localPort());
        EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address), 0);
        EXPECT_TRUE(test::eventually([&] { return !proxy->lastProblem().empty(); }));
        ::setrlimit(RLIMIT_NOFILE, &old);
        waiting = std::move(client);
    }
    sendAll(waiting.get(), "\x05\x01\0"s);
    EXPECT_EQ(readExactly(waiting.get(), 2), "\x05\0"s); // taken once there is room again
    EXPECT_TRUE(m_connection->alive());
}

TEST_F(TunnelTest, ItEndsWithTheConnection)
{
    Target const target([](int fd) { readAll(fd); });
    auto const tunnel = local(target.port());
    auto const client = dial(tunnel->localPort());
    sendAll(client.get(), "x");
    EXPECT_TRUE(test::eventually([&] { return tunnel->counts().bytesOut == 1; }));
    m_server.killSessions();
    EXPECT_EQ(readAll(client.get()), "");
    EXPECT_TRUE(test::eventually([&] { return !tunnel->open(); }));
    EXPECT_FALSE(dial(tunnel->localPort()));
    auto const later = Tunnel::open(
        m_connection,
        {.kind = TunnelKind::Dynamic, .remoteHost = {}, .remotePort = 0, .localPort = 0, .admit = {}});
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().code, Errc::NotConnected);
}

TEST_F(TunnelTest, ATargetThatCannotBeMeantIsInvalid)
{
    for (auto const& host : {""s, "a b"s, "a\nb"s, std::string(256, 'a'), "[::1]"s, "127.0.0.1:22"s, "-a"s,
                             "a\xe2\x80\xae"s, "::1%"s, "a\0b"s}) {
        auto const opened = Tunnel::open(
            m_connection,
            {.kind = TunnelKind::Local, .remoteHost = host, .remotePort = 80, .localPort = 0, .admit = {}});
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, Errc::InvalidArgument);
    }
    for (auto const& host : {"::1"s, "fe80::1%eth0"s, "127.0.0.1"s, "db_1.example.org."s})
        EXPECT_TRUE(Tunnel::open(
            m_connection,
            {.kind = TunnelKind::Local, .remoteHost = host, .remotePort = 80, .localPort = 0, .admit = {}}))
            << host;
    EXPECT_FALSE(Tunnel::open(
        m_connection,
        {.kind = TunnelKind::Local, .remoteHost = "a", .remotePort = 0, .localPort = 0, .admit = {}}));
}

} // namespace
} // namespace termalin::ssh
