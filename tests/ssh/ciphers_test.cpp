// What libssh2, with our patches, sends and takes, against OpenSSH's server: every cipher with every MAC and
// compression that both have, keys exchanged anew all the time, and every cipher against a flipped bit.

#include <algorithm>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <sstream>
#include <sys/socket.h>
#include <thread>

#include "ssh/session.h"
#include "tests/support/program.h"
#include "tests/support/sshd.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;

struct Suite {
    std::string cipher, mac, compression;
};

std::set<std::string> words(std::string const& text)
{
    std::istringstream in(text);
    return {std::istream_iterator<std::string>(in), {}};
}

/// What libssh2 and `ssh -Q` both know.
std::vector<std::string> common(int method, std::string const& query)
{
    auto* const session = libssh2_session_init_ex(nullptr, nullptr, nullptr, nullptr);
    char const** known = nullptr;
    auto const count = libssh2_session_supported_algs(session, method, &known);
    std::vector<std::string> const ours(known, known + std::max(count, 0));
    libssh2_free(session, static_cast<void*>(known));
    libssh2_session_free(session);
    auto const theirs = words(test::mustRun({"ssh", "-Q", query}));
    std::vector<std::string> both;
    std::ranges::copy_if(ours, std::back_inserter(both),
                         [&](auto const& each) { return theirs.contains(each); });
    return both;
}

bool isAead(std::string const& cipher)
{
    return cipher.contains("gcm") || cipher.contains("poly1305");
}

std::string randomBytes(std::size_t size)
{
    std::minstd_rand generator(42); // NOLINT: the same bytes in each run
    std::string bytes(size, '\0');
    for (auto& byte : bytes)
        byte = static_cast<char>(generator() >> 7U);
    return bytes;
}

UniqueFd connectTo(std::uint16_t port)
{
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        throw std::runtime_error("cannot connect to the test server");
    return fd;
}

/// A logged-in session that offers one suite only.
std::unique_ptr<Session> login(UniqueFd stream, test::Sshd const& server, Suite const& suite)
{
    auto session = *Session::create(std::move(stream));
    auto const only = [&](std::initializer_list<int> methods, std::string const& name) {
        for (auto const method : methods)
            EXPECT_EQ(libssh2_session_method_pref(session->raw(), method, name.c_str()), 0) << name;
    };
    only({LIBSSH2_METHOD_CRYPT_CS, LIBSSH2_METHOD_CRYPT_SC}, suite.cipher);
    if (!suite.mac.empty())
        only({LIBSSH2_METHOD_MAC_CS, LIBSSH2_METHOD_MAC_SC}, suite.mac);
    libssh2_session_flag(session->raw(), LIBSSH2_FLAG_COMPRESS, suite.compression == "none" ? 0 : 1);
    only({LIBSSH2_METHOD_COMP_CS, LIBSSH2_METHOD_COMP_SC}, suite.compression);
    auto const deadline = Deadline::in(60s);
    auto const shaken = session->handshake("the test server", {}, deadline, {});
    EXPECT_TRUE(shaken) << shaken.error().message;
    if (!shaken)
        return nullptr;
    EXPECT_EQ(suite.cipher, libssh2_session_methods(session->raw(), LIBSSH2_METHOD_CRYPT_CS));
    EXPECT_EQ(suite.compression, libssh2_session_methods(session->raw(), LIBSSH2_METHOD_COMP_SC));
    auto const in = session->run("login", Errc::AuthFailed, deadline, {}, [&] {
        return libssh2_userauth_publickey_fromfile_ex(session->raw(), server.user().c_str(),
                                                      static_cast<unsigned>(server.user().size()), nullptr,
                                                      server.userKey().c_str(), nullptr);
    });
    EXPECT_TRUE(in) << in.error().message;
    return in ? std::move(session) : nullptr;
}

LIBSSH2_CHANNEL* start(Session& session, std::string const& command)
{
    LIBSSH2_CHANNEL* channel = nullptr;
    auto const opened = session.run("open", Errc::Internal, Deadline::in(60s), {}, [&] {
        channel = libssh2_channel_open_ex(session.raw(), "session", 7, 2U << 20U, 32768, nullptr, 0);
        return channel != nullptr ? 0 : libssh2_session_last_errno(session.raw());
    });
    EXPECT_TRUE(opened) << opened.error().message;
    auto const running = session.run("exec", Errc::Internal, Deadline::in(60s), {}, [&] {
        return libssh2_channel_process_startup(channel, "exec", 4, command.data(),
                                               static_cast<unsigned>(command.size()));
    });
    EXPECT_TRUE(running) << running.error().message;
    return channel;
}

/// Sends `bytes` through the channel and gives what came back; both at once, as cat(1) has no patience.
std::string echo(Session& session, LIBSSH2_CHANNEL* channel, std::string const& bytes)
{
    std::string back;
    std::size_t sent = 0;
    std::vector<char> piece(256U * 1024U);
    auto const done = session.run("echo", Errc::Unreachable, Deadline::in(120s), {}, [&]() -> int {
        while (sent < bytes.size() && !session.congested()) {
            auto const put = libssh2_channel_write_ex(channel, 0, bytes.data() + sent, bytes.size() - sent);
            if (put <= 0 && put != LIBSSH2_ERROR_EAGAIN)
                return static_cast<int>(put);
            if (put <= 0)
                break;
            sent += static_cast<std::size_t>(put);
            session.flush();
        }
        for (;;) {
            auto const got = libssh2_channel_read_ex(channel, 0, piece.data(), piece.size());
            if (got == LIBSSH2_ERROR_EAGAIN || got == 0)
                break;
            if (got < 0)
                return static_cast<int>(got);
            back.append(piece.data(), static_cast<std::size_t>(got));
        }
        session.flush();
        return back.size() == bytes.size() ? 0 : LIBSSH2_ERROR_EAGAIN;
    });
    EXPECT_TRUE(done) << done.error().message << " after " << back.size() << " of " << bytes.size();
    return back;
}

test::SshdOptions everything()
{
    return {.config = {"Ciphers " + test::mustRun({"sh", "-c", "ssh -Q cipher | paste -sd, -"}),
                       "MACs " + test::mustRun({"sh", "-c", "ssh -Q mac | paste -sd, -"}), "Compression yes",
                       "RekeyLimit 256K"}};
}

std::vector<Suite> suites()
{
    std::vector<Suite> all;
    for (auto const& cipher : common(LIBSSH2_METHOD_CRYPT_CS, "cipher"))
        for (auto const* const compression : {"none", "zlib@openssh.com"}) {
            if (isAead(cipher))
                all.push_back({cipher, "", compression});
            else
                for (auto const& mac : common(LIBSSH2_METHOD_MAC_CS, "mac"))
                    all.push_back({cipher, mac, compression});
        }
    return all;
}

TEST(Ciphers, EveryOneWithEveryMacAndCompressionCarriesBothWaysWhileKeysAreExchangedAnew)
{
    test::Sshd const server(everything());
    auto const bytes = randomBytes(800U * 1024U + 12'345U);
    auto const all = suites();
    EXPECT_GE(all.size(), 30U); // both know the three AEADs and several of the others
    for (auto const& suite : all) {
        SCOPED_TRACE(suite.cipher + ' ' + suite.mac + ' ' + suite.compression);
        auto const session = login(connectTo(server.port()), server, suite);
        ASSERT_TRUE(session);
        auto* const channel = start(*session, "cat");
        ASSERT_TRUE(channel);
        auto const back = echo(*session, channel, bytes);
        ASSERT_TRUE(back == bytes); // not EXPECT_EQ, which would print megabytes
        session->retire(channel, false);
    }
}

/// Stands between, and flips one bit of what the server sends.
class FlippingRelay {
public:
    FlippingRelay(std::uint16_t port, std::size_t at) : m_at(at), m_server(connectTo(port))
    {
        std::array<int, 2> pair{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
            throw std::runtime_error("no socket pair");
        m_client.reset(pair[0]);
        m_near.reset(pair[1]);
        m_up = std::thread([this] { pass(m_near.get(), m_server.get(), false); });
        m_down = std::thread([this] { pass(m_server.get(), m_near.get(), true); });
    }
    ~FlippingRelay()
    {
        for (auto const& fd : {&m_near, &m_server})
            ::shutdown(fd->get(), SHUT_RDWR);
        m_up.join();
        m_down.join();
    }
    FlippingRelay(FlippingRelay const&) = delete;
    FlippingRelay& operator=(FlippingRelay const&) = delete;
    UniqueFd client() { return std::move(m_client); }

private:
    void pass(int from, int to, bool flip) const
    {
        std::vector<char> piece(64U * 1024U);
        std::size_t passed = 0;
        for (;;) {
            auto const got = ::recv(from, piece.data(), piece.size(), 0);
            if (got <= 0)
                break;
            auto const size = static_cast<std::size_t>(got);
            if (flip && m_at >= passed && m_at < passed + size)
                piece[m_at - passed] = static_cast<char>(piece[m_at - passed] ^ 0x10);
            passed += size;
            for (std::size_t sent = 0; sent < size;) {
                auto const put = ::send(to, piece.data() + sent, size - sent, MSG_NOSIGNAL);
                if (put <= 0)
                    return;
                sent += static_cast<std::size_t>(put);
            }
        }
        ::shutdown(to, SHUT_WR);
    }

    std::size_t m_at;
    UniqueFd m_server, m_client, m_near;
    std::thread m_up, m_down;
};

TEST(Ciphers, AFlippedBitEndsTheSessionBeforeAByteOfItsPacketIsGivenOut)
{
    test::Sshd const server(everything());
    auto const expected = randomBytes(4096);
    test::writeFile(server.home() / "bytes", expected);
    for (auto const& suite : suites()) {
        if (suite.compression != "none" || suite.mac.contains("md5") || suite.mac.contains("96"))
            continue; // a bit is a bit
        SCOPED_TRACE(suite.cipher + ' ' + suite.mac);
        FlippingRelay relay(server.port(), 150'000);
        auto const session = login(relay.client(), server, suite);
        ASSERT_TRUE(session);
        auto* const channel = start(*session, "while cat bytes; do :; done");
        ASSERT_TRUE(channel);
        std::string got;
        std::vector<char> piece(64U * 1024U);
        auto const done = session->run("read", Errc::Unreachable, Deadline::in(60s), {}, [&]() -> int {
            for (;;) {
                auto const size = libssh2_channel_read_ex(channel, 0, piece.data(), piece.size());
                if (size < 0)
                    return static_cast<int>(size);
                if (size == 0)
                    return LIBSSH2_ERROR_EAGAIN;
                got.append(piece.data(), static_cast<std::size_t>(size));
                if (got.size() > 16U << 20U)
                    return 0; // it was not noticed
            }
        });
        ASSERT_FALSE(done) << "read on past the flipped bit";
        EXPECT_NE(done.error().code, Errc::Timeout) << done.error().message;
        for (std::size_t at = 0; at < got.size(); at += expected.size())
            ASSERT_TRUE(got.compare(at, std::min(expected.size(), got.size() - at), expected, 0,
                                    std::min(expected.size(), got.size() - at)) == 0);
        session->retire(channel, false);
    }
}

} // namespace
} // namespace termalin::ssh
