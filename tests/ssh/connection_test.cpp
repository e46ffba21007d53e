#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <thread>

#include "ssh/connection.h"
#include "ssh/detail_connection.h"
#include "ssh/detail_kexinit.h"
#include "tests/support/process.h"
#include "tests/support/program.h"
#include "tests/support/relay.h"
#include "tests/support/sshd.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using test::Relay;
using test::Sshd;
using ::testing::AllOf;
using ::testing::HasSubstr;

Result<std::shared_ptr<Connection>> open(Route const& route, LoginContext const& context,
                                         std::chrono::milliseconds budget = 30s)
{
    return Connection::open(route, context, Deadline::in(budget), {});
}

/// A server that takes one connection, says `text`, and closes it if told to.
class Speaker {
public:
    Speaker(std::string text, bool close, std::size_t times = 1, std::string first = {})
    {
        m_thread = std::jthread([this, text = std::move(text), close, times,
                                 first = std::move(first)](std::stop_token const& stop) {
            UniqueFd client(::accept4(m_listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
            ::send(client.get(), first.data(), first.size(), MSG_NOSIGNAL);
            for (std::size_t i = 0; i < times && !stop.stop_requested(); ++i)
                if (::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0)
                    break;
            if (close)
                return;
            m_kept = std::move(client);
        });
    }
    ~Speaker()
    {
        ::shutdown(m_listener.get(), SHUT_RDWR); // ends an accept that nobody came for
    }
    Speaker(Speaker const&) = delete;
    Speaker& operator=(Speaker const&) = delete;

    [[nodiscard]] Route route() const
    {
        Target target;
        target.name = "odd server";
        target.hostname = "127.0.0.1";
        target.port = m_port;
        target.user = "nobody";
        return {{target}};
    }

private:
    std::uint16_t m_port = 0;
    UniqueFd m_listener = test::listenOnLoopback(m_port);
    UniqueFd m_kept;
    std::jthread m_thread;
};

LoginContext nothingKnown()
{
    LoginContext context;
    context.credentials = std::make_shared<NoCredentials>();
    return context;
}

TEST(Open, ConnectsToServersWithOneKindOfHostKeyEach)
{
    for (auto const* const type : {"rsa", "ecdsa", "ed25519"}) {
        Sshd const server({.hostKeyTypes = {type}});
        auto const connection = open(server.route(), server.context());
        ASSERT_TRUE(connection) << type << ": " << connection.error().message;
        EXPECT_THAT((*connection)->serverKey().type, HasSubstr(type));
        EXPECT_THAT((*connection)->serverVersion(), HasSubstr("SSH-2.0-OpenSSH"));
        EXPECT_TRUE((*connection)->alive());
        EXPECT_EQ((*connection)->whyClosed(), "");
    }
}

TEST(Open, FetchesTheKeyThatSshKeygenNames)
{
    Sshd const server;
    auto const key = fetchServerKey(server.route(), nothingKnown(), Deadline::in(30s), {});
    ASSERT_TRUE(key) << key.error().message;
    auto const expected =
        test::mustRun({"ssh-keygen", "-lf", (server.folder() / "host_ed25519.pub").string()});
    EXPECT_THAT(expected, HasSubstr(fingerprint(key->blob)));
}

TEST(Open, SendsNoCredentialToAServerWhoseKeyIsNotKnown)
{
    Sshd const server;
    auto const refused = open(server.route(), nothingKnown());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::HostKeyUnknown);
    EXPECT_THAT(server.log(), ::testing::Not(HasSubstr("publickey")));
}

TEST(Open, NamesAddressAndPortOfAClosedPort)
{
    std::uint16_t port = 0;
    test::listenOnLoopback(port).reset();
    Target target;
    target.name = "gone";
    target.hostname = "127.0.0.1";
    target.port = port;
    auto const refused = open({{target}}, nothingKnown());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Unreachable);
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr("gone (127.0.0.1 port " + std::to_string(port)),
                                               HasSubstr("Connection refused"), HasSubstr("Check")));
}

TEST(Open, SaysWhichNameCouldNotBeLookedUp)
{
    Target target;
    target.name = "typo";
    target.hostname = "no-such-host.invalid"; // RFC 6761 6.4: never exists
    auto const refused = open({{target}}, nothingKnown(), 20s);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("no-such-host.invalid"));
}

TEST(Open, TriesTheOtherFamilyWhenOneDoesNotAnswer)
{
    // "localhost" has both addresses on most machines; the server listens on IPv4 alone.
    Sshd const server;
    auto route = server.route();
    route.hops[0].hostname = "localhost";
    // The alias stands for the whole name, the port included, as in ssh_config(5).
    route.hops[0].hostKeyAlias = "[127.0.0.1]:" + std::to_string(server.port());
    auto const connection = open(route, server.context());
    ASSERT_TRUE(connection) << connection.error().message;
    route.hops[0].family = AddressFamily::Inet6;
    EXPECT_FALSE(open(route, server.context()));
}

TEST(Open, GivesUpInTimeOnAServerThatSaysNothing)
{
    Speaker const silent("", false);
    auto const refused = open(silent.route(), nothingKnown(), 300ms);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Timeout);
    EXPECT_TRUE(refused.error().nothingWasSent);
    EXPECT_THAT(refused.error().message, HasSubstr("nothing at all"));
}

TEST(Open, GivesUpOnAServerThatSendsWithoutEnd)
{
    // SSH_MSG_IGNORE, RFC 4253 11.2: a packet of 16,388 bytes after its length, 8 of them padding
    constexpr std::size_t dataSize = 16'374;
    std::string packet("\x00\x00\x40\x04\x08\x02\x00\x00\x3f\xf6", 10);
    packet += std::string(dataSize + 8, 'x');
    Speaker const endless(packet, false, 10'000'000, "SSH-2.0-odd\r\n");
    auto const refused = open(endless.route(), nothingKnown(), 120s);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Unreachable);
    EXPECT_THAT(refused.error().message, HasSubstr("without end"));
}

TEST(Open, CanBeCancelledWhileAServerSaysNothing)
{
    Speaker const silent("", false);
    std::stop_source stop;
    std::jthread const canceller([&] { stop.request_stop(); });
    auto const refused =
        Connection::open(silent.route(), nothingKnown(), Deadline::in(60s), stop.get_token());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Cancelled);
}

TEST(Open, SaysThatSomethingElseAnswersAtThePort)
{
    Speaker const web("HTTP/1.1 400 Bad Request\r\n\r\n", true);
    auto const refused = open(web.route(), nothingKnown());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Unreachable);
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr("does not speak SSH"), HasSubstr("HTTP/1.1 400")));
}

TEST(Open, SaysThatTheServerClosedAtOnce)
{
    Speaker const closing("", true);
    auto const refused = open(closing.route(), nothingKnown());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Unreachable);
    EXPECT_THAT(refused.error().message, HasSubstr("sent nothing at all"));
}

TEST(Open, EndsAnEndlessPreamble)
{
    Speaker const endless(std::string(999, 'x') + "\n", false, 100'000);
    auto const refused = open(endless.route(), nothingKnown());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Unreachable);
}

TEST(Open, ListsBothSidesOffersWhenTheyHaveNothingInCommon)
{
    Sshd const server({.config = {"KexAlgorithms sntrup761x25519-sha512@openssh.com", "Ciphers aes128-cbc"}});
    auto const refused = open(server.route(), server.context());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Unreachable);
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr("No key exchange algorithm in common"),
                                               HasSubstr("sntrup761x25519-sha512@openssh.com"),
                                               HasSubstr("curve25519-sha256"), HasSubstr("sshd_config")));
}

TEST(KexInit, IsReadAsRfc4253Has)
{
    std::string packet(6, '\0');
    packet[5] = 20;
    packet += std::string(16, 'c');
    for (auto const* const list : {"kex-a,kex-b", "key", "c1", "c2", "m1", "m2"}) {
        std::string const text(list);
        packet += std::string("\0\0\0", 3) + static_cast<char>(text.size()) + text;
    }
    auto const lists = parseKexInit("hello\r\nSSH-2.0-x\r\n" + packet);
    ASSERT_TRUE(lists);
    EXPECT_THAT(*lists, ::testing::ElementsAre("kex-a,kex-b", "key", "c1", "c2", "m1", "m2"));
    for (std::size_t cut = 0; cut < packet.size(); ++cut) // no prefix is read beyond its end
        EXPECT_FALSE(parseKexInit("SSH-2.0-x\r\n" + packet.substr(0, cut)));
}

TEST(Keepalive, FindsALineDeadThatPassesNothingAnyMore)
{
    Sshd const server;
    Relay relay(server.port());
    auto route = server.route();
    route.hops[0].port = relay.port();
    route.hops[0].serverAliveInterval = 1s;
    route.hops[0].serverAliveCountMax = 2;
    auto const connection = open(route, server.contextAt(relay.port()));
    ASSERT_TRUE(connection) << connection.error().message;
    std::atomic<bool> closed = false;
    (*connection)->onClosed([&] { closed = true; });

    ExecRequest request;
    request.command = "echo begun; sleep 30";
    request.onOutput = [&](std::string_view) { relay.goSilent(); };
    auto const outcome = (*connection)->exec(std::move(request), Deadline::in(60s), {});

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->completion, Completion::Disconnected);
    EXPECT_EQ(outcome->output.text, "begun\n");
    EXPECT_THAT(outcome->note, HasSubstr("keepalive"));
    EXPECT_TRUE(test::eventually([&] { return closed.load(); }));
    EXPECT_FALSE((*connection)->alive());
}

TEST(Keepalive, KeepsAnIdleConnectionThatAnswers)
{
    // The server's own probes too must be answered while nobody uses the connection.
    Sshd const server({.config = {"ClientAliveInterval 1", "ClientAliveCountMax 2"}});
    auto route = server.route();
    route.hops[0].serverAliveInterval = 1s;
    route.hops[0].serverAliveCountMax = 1;
    auto const connection = open(route, server.context());
    ASSERT_TRUE(connection) << connection.error().message;
    auto const before = (*connection)->traffic().bytesIn;
    // Several rounds of both sides' probes, each of which brings bytes.
    EXPECT_TRUE(test::eventually([&] { return (*connection)->traffic().bytesIn > before + 300; }));
    EXPECT_TRUE((*connection)->alive()) << (*connection)->whyClosed();
}

/// What two tasks that want to open a channel have between them.
struct Opening {
    std::atomic<bool> held = false, letGo = false, had = false;
};

class Holder final : public Task {
public:
    explicit Holder(Opening& opening) : m_opening(opening) {}
    bool step(Session& session) override
    {
        m_opening.held = session.claimOpeningAtOnce(this);
        if (m_opening.letGo)
            session.releaseOpening(this);
        return m_opening.letGo;
    }
    void ended(Error const&) override {}

private:
    Opening& m_opening;
};

class NextInLine final : public Task {
public:
    explicit NextInLine(Opening& opening) : m_opening(opening) {}
    bool step(Session& session) override
    {
        m_opening.had = m_opening.held && session.claimOpeningAtOnce(this);
        if (m_opening.had)
            session.releaseOpening(this);
        return m_opening.had;
    }
    void ended(Error const&) override {}

private:
    Opening& m_opening;
};

TEST(Channels, AreOpenedByWhoeverWaitsThoughNothingComesFromTheServer)
{
    Opening opening;
    Sshd const server;
    auto route = server.route();
    route.hops[0].serverAliveInterval = 0s;
    auto const connection = open(route, server.context());
    ASSERT_TRUE(connection) << connection.error().message;
    auto& loop = impl(**connection);
    loop.post(std::make_shared<NextInLine>(opening)); // stepped before the one that it waits for
    loop.post(std::make_shared<Holder>(opening));
    ASSERT_TRUE(test::eventually([&] { return opening.held.load(); }));
    opening.letGo = true;
    loop.wake();
    EXPECT_TRUE(test::eventually([&] { return opening.had.load(); }));
}

TEST(Close, NoticesAtOnceThatAnIdleConnectionsServerIsGone)
{
    Sshd server;
    auto const connection = server.connect();
    server.killSessions();
    EXPECT_TRUE(test::eventually([&] { return !connection->alive(); }));
    EXPECT_THAT(connection->whyClosed(), HasSubstr("lost"));
}

TEST(Close, EndsRunningCallsAsDisconnectedAndTellsItsCallbacks)
{
    Sshd const server;
    auto const connection = server.connect();
    std::atomic<int> closed = 0;
    connection->onClosed([&] { ++closed; });
    auto const seconds = test::uniqueSeconds();
    ExecRequest request;
    request.command = "echo on; exec sleep " + seconds;
    request.onOutput = [&](std::string_view) { connection->close(); };
    auto const outcome = connection->exec(std::move(request), Deadline::in(60s), {});

    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->completion, Completion::Disconnected);
    EXPECT_TRUE(test::eventually([&] { return closed == 1; }));
    connection->onClosed([&] { ++closed; });
    EXPECT_EQ(closed, 2);
    ExecRequest late;
    late.command = "true";
    auto const after = connection->exec(std::move(late), Deadline::in(60s), {});
    ASSERT_FALSE(after);
    EXPECT_EQ(after.error().code, Errc::Cancelled);
    for (auto const pid : test::processesWith("sleep " + seconds))
        ::kill(pid, SIGKILL);
}

TEST(Close, CanHappenOnTheConnectionsOwnThread)
{
    Sshd const server;
    auto held = std::make_shared<std::shared_ptr<Connection>>(server.connect());
    std::atomic<bool> done = false;
    (*held)->onClosed([held, &done] {
        held->reset(); // the last owner
        done = true;
    });
    std::weak_ptr<Connection> const watched = *held;
    (*held)->close();
    held.reset();
    EXPECT_TRUE(test::eventually([&] { return done && watched.expired(); }));
}

} // namespace
} // namespace termalin::ssh
