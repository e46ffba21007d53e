#include <algorithm>
#include <gtest/gtest.h>
#include <string>

#include "ssh/socks5.h"

namespace termalin::ssh {
namespace {

using namespace std::string_literals;

/// Gives a client's bytes as the tunnel does: never more than wanted. What was answered, and what was left.
struct Talk {
    Socks5 socks;
    std::string answered;
    std::string left;
};

Talk talk(std::string bytes, std::size_t atOnce = 512)
{
    Talk t;
    while (t.socks.state() == Socks5::State::Talking && !bytes.empty()) {
        auto const size = std::min({t.socks.wants(), atOnce, bytes.size()});
        t.answered += t.socks.take(bytes.substr(0, size));
        bytes.erase(0, size);
    }
    t.left = bytes;
    return t;
}

// RFC 1928, sections 3 to 6.

TEST(Socks5, AsksForAnIpv4AnIpv6AndANamedTarget)
{
    auto const four = talk("\x05\x01\0\x05\x01\0\x01\x7f\0\0\x01\0\x50"s);
    EXPECT_EQ(four.socks.state(), Socks5::State::Asked);
    EXPECT_EQ(four.answered, "\x05\0"s);
    EXPECT_EQ(four.socks.host(), "127.0.0.1");
    EXPECT_EQ(four.socks.port(), 80);

    auto const six = talk("\x05\x01\0\x05\x01\0\x04"s + std::string(15, '\0') + "\x01\x1f\x90"s);
    EXPECT_EQ(six.socks.host(), "::1");
    EXPECT_EQ(six.socks.port(), 8080);

    auto const name = talk("\x05\x02\x02\0\x05\x01\0\x03\x0b"
                           "example.org\x01\xbb"s);
    EXPECT_EQ(name.socks.host(), "example.org");
    EXPECT_EQ(name.socks.port(), 443);
}

TEST(Socks5, TheSameComesOutWhenEveryByteComesAlone)
{
    auto const name = talk("\x05\x01\0\x05\x01\0\x03\x0b"
                           "example.org\x01\xbb"s,
                           1);
    EXPECT_EQ(name.socks.state(), Socks5::State::Asked);
    EXPECT_EQ(name.socks.host(), "example.org");
    EXPECT_EQ(name.answered, "\x05\0"s);
}

TEST(Socks5, NothingThatFollowsTheRequestIsTaken)
{
    auto const eager = talk("\x05\x01\0\x05\x01\0\x01\x7f\0\0\x01\0\x50GET / HTTP/1.0\r\n"s);
    EXPECT_EQ(eager.socks.state(), Socks5::State::Asked);
    EXPECT_EQ(eager.left, "GET / HTTP/1.0\r\n");
}

TEST(Socks5, RefusesWithTheReplyOfTheRfc)
{
    auto const bind = talk("\x05\x01\0\x05\x02\0\x01\x7f\0\0\x01\0\x50"s);
    EXPECT_EQ(bind.socks.state(), Socks5::State::Refused);
    EXPECT_EQ(bind.answered, "\x05\0\x05\x07\0\x01\0\0\0\0\0\0"s);
    auto const type = talk("\x05\x01\0\x05\x01\0\x09"s);
    EXPECT_EQ(type.answered, "\x05\0\x05\x08\0\x01\0\0\0\0\0\0"s);
    auto const password = talk("\x05\x01\x02"s);
    EXPECT_EQ(password.answered, "\x05\xff"s);
    auto const none = talk("\x05\0"s);
    EXPECT_EQ(none.answered, "\x05\xff"s);
    auto const nameless = talk("\x05\x01\0\x05\x01\0\x03\0"s);
    EXPECT_EQ(nameless.answered, "\x05\0\x05\x01\0\x01\0\0\0\0\0\0"s);
    auto const portless = talk("\x05\x01\0\x05\x01\0\x01\x7f\0\0\x01\0\0"s);
    EXPECT_EQ(portless.socks.state(), Socks5::State::Refused);
    auto const split = talk("\x05\x01\0\x05\x01\0\x03\x03"
                            "a\nb\0\x50"s);
    EXPECT_EQ(split.socks.state(), Socks5::State::Refused);
}

TEST(Socks5, OtherProtocolsGetNoAnswerAndAreNamed)
{
    auto const four = talk("\x04\x01\0\x50\x7f\0\0\x01\0"s);
    EXPECT_EQ(four.socks.state(), Socks5::State::Refused);
    EXPECT_EQ(four.answered, "");
    EXPECT_NE(four.socks.problem().find("version 4"), std::string::npos);
    EXPECT_EQ(talk("GET / HTTP/1.0\r\n\r\n").socks.state(), Socks5::State::Refused);
    EXPECT_EQ(talk("\x16\x03\x01"s).socks.state(), Socks5::State::Refused);
}

} // namespace
} // namespace termalin::ssh
