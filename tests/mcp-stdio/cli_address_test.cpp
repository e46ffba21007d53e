#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "mcp-stdio/cli/address.h"
#include "mcp-stdio/cli/console.h"
#include "mcp-stdio/cli/program.h"

namespace termalin::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Good {
    std::string_view text, user, address;
    std::uint16_t port;
};

TEST(Login, IsReadAsAPersonWritesIt)
{
    for (auto const& good : std::initializer_list<Good>{
             {"root@example.org", "root", "example.org", 22},
             {"root@example.org:2222", "root", "example.org", 2222},
             {"ann@192.0.2.7:1", "ann", "192.0.2.7", 1},
             {"ann@[2001:db8::1]", "ann", "2001:db8::1", 22},
             {"ann@[fe80::1%eth0]:65535", "ann", "fe80::1%eth0", 65535},
             {"ann@corp.example@jump", "ann@corp.example", "jump", 22},
             {"CORP\\ann@srv", "CORP\\ann", "srv", 22},
             {"_svc-1@my_host", "_svc-1", "my_host", 22},
         }) {
        SCOPED_TRACE(good.text);
        auto const login = parseLogin(good.text);
        ASSERT_TRUE(login) << login.error().message;
        EXPECT_EQ(login->user, good.user);
        EXPECT_EQ(login->address, good.address);
        EXPECT_EQ(login->port, good.port);
    }
}

TEST(Login, WhatIsUnclearOrWouldMeanSomethingToAShellIsRefused)
{
    for (auto const* const bad : {"example.org",
                                  "@example.org",
                                  "root@",
                                  "root@:22",
                                  "root@h:0",
                                  "root@h:65536",
                                  "root@h:",
                                  "root@h:22x",
                                  "root@h: 22",
                                  "root@2001:db8::1",
                                  "root@[2001:db8::1",
                                  "root@[example.org]",
                                  "root@[::1]22",
                                  "root@[::1%]",
                                  "-oProxyCommand=x@h",
                                  "root@-h",
                                  "root@h;id",
                                  "r`id`@h",
                                  "r$(id)@h",
                                  "r t@h",
                                  "root@h h",
                                  "root@h/x",
                                  "root@m\xc3\xbcller.de",
                                  "r'x@h",
                                  "root@.h",
                                  "ab\\@h",
                                  "\\ab@h",
                                  "ssh://root@h",
                                  "root:secret@h",
                                  ""}) {
        SCOPED_TRACE(bad);
        auto const login = parseLogin(bad);
        ASSERT_FALSE(login) << login->user << " " << login->address;
        EXPECT_EQ(login.error().code, Errc::InvalidArgument);
    }
}

TEST(Login, AnErrorSaysHowItIsWritten)
{
    EXPECT_THAT(parseLogin("root@2001:db8::1").error().message, HasSubstr("root@[2001:db8::1]:22"));
    EXPECT_THAT(parseLogin("root:secret@h").error().message,
                AllOf(HasSubstr("--ask-password"), Not(HasSubstr("secret"))));
    EXPECT_THAT(parseLogin("example.org").error().message, HasSubstr("USER@ADDRESS"));
}

TEST(ThisComputer, IsKnownByItsLoopbackAddressesAndByItsName)
{
    for (auto const* const own :
         {"localhost", "127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"})
        EXPECT_TRUE(isThisComputer(own)) << own;
    // RFC 5737 and RFC 3849: never an address of anybody.
    for (auto const* const other : {"192.0.2.1", "2001:db8::1", "host.invalid"})
        EXPECT_FALSE(isThisComputer(other)) << other;
}

TEST(SecretFromADescriptor, IsOneLineAndWhatFollowsIsLeftForTheNext)
{
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    ASSERT_EQ(::write(ends[1], "first\nsecond \r\n\nlast", 20), 20);
    ::close(ends[1]);
    for (auto const* const expected : {"first", "second ", "", "last"}) {
        auto const secret = readSecretFrom(ends[0]);
        ASSERT_TRUE(secret) << secret.error().message;
        EXPECT_EQ(secret->reveal(), expected);
    }
    EXPECT_FALSE(readSecretFrom(ends[0]));
    ::close(ends[0]);
    EXPECT_EQ(readSecretFrom(ends[0]).error().code, Errc::InvalidArgument);
}

TEST(ACommandAsTyped, IsReadByAShellAsTheSameWords)
{
    std::vector<std::string> const words{"printf", "%s|",  "a b", "it's",          "",
                                         "$HOME",  "x\\y", "*",   "plain-1_2./:=@"};
    auto const ran = runProgram({"/bin/sh", "-c", asTyped(words)}, std::chrono::seconds(60));
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_EQ(ran->output, "a b|it's||$HOME|x\\y|*|plain-1_2./:=@|");
}

TEST(AProgram, TellsItsExitCodeOrItsSignal)
{
    EXPECT_EQ(
        runProgram({"/bin/sh", "-c", "echo out; echo err >&2; exit 7"}, std::chrono::seconds(60))->status, 7);
    EXPECT_EQ(runProgram({"/bin/sh", "-c", "kill -9 $$"}, std::chrono::seconds(60))->status, 128 + 9);
    EXPECT_EQ(runProgram({"/no/such/program"}, std::chrono::seconds(60)).error().code, Errc::NotFound);
}

TEST(AProgram, ThatDoesNotEndIsStoppedWithWhatItStarted)
{
    auto const ran = runProgram({"/bin/sh", "-c", "sleep 1000 & sleep 1000"}, std::chrono::seconds(1));
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, Errc::Timeout);
}

} // namespace
} // namespace termalin::cli
