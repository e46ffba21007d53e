#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ssh/sftp_codec.h"

namespace termalin::ssh::sftp {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::Pair;

// The bytes are written out by hand after draft-ietf-secsh-filexfer-02 and OpenSSH's PROTOCOL.

TEST(SftpEncoder, WritesAnOpenAsTheDraftHasIt)
{
    Attributes attributes;
    attributes.mode = 0600;
    Encoder open(Type::Open, 7);
    open.text("/a").number(kOpenWrite | kOpenCreate | kOpenExclusive).attributes(attributes);
    EXPECT_EQ(std::move(open).finish(),
              "\0\0\0\x17\x03\0\0\0\x07\0\0\0\x02/a\0\0\0\x2a\0\0\0\x04\0\0\x01\x80"s);
}

TEST(SftpEncoder, WritesEveryAttributeInTheDraftsOrder)
{
    Attributes all;
    all.size = 0x0102030405060708U;
    all.owner = {1000, 100};
    all.mode = 0100644;
    all.times = {1, 2};
    Encoder set(Type::Fsetstat, 1);
    set.attributes(all);
    EXPECT_EQ(std::move(set).finish(), "\0\0\0\x25\x0a\0\0\0\x01\0\0\0\x0f\x01\x02\x03\x04\x05\x06\x07\x08"
                                       "\0\0\x03\xe8\0\0\0\x64\0\0\x81\xa4\0\0\0\x01\0\0\0\x02"s);
}

TEST(SftpEncoder, ARoomThatWasNotFilledIsCutToWhatWas)
{
    Encoder write(Type::Write, 2);
    write.text("h").number64(5);
    std::string_view("xyz").copy(write.room(100), 3);
    write.shorten(3);
    EXPECT_EQ(std::move(write).finish(),
              "\0\0\0\x19\x06\0\0\0\x02\0\0\0\x01h\0\0\0\0\0\0\0\x05\0\0\0\x03xyz"s);
}

TEST(SftpReply, AStatusMayCarryATextOrNone)
{
    auto const full = parseReply("\x65\0\0\0\x09\0\0\0\x03\0\0\0\x02no\0\0\0\0"s);
    ASSERT_TRUE(full);
    EXPECT_EQ(full->id, 9U);
    EXPECT_EQ(std::get<Status>(full->body).code, Code::PermissionDenied);
    EXPECT_EQ(std::get<Status>(full->body).message, "no");
    auto const bare = parseReply("\x65\0\0\0\x09\0\0\0\x01"s);
    ASSERT_TRUE(bare);
    EXPECT_EQ(std::get<Status>(bare->body).code, Code::Eof);
}

TEST(SftpReply, NamesCarryAnyBytesAndExtendedAttributesAreSkipped)
{
    auto const message = "\x68\0\0\0\x01\0\0\0\x01\0\0\0\x03"
                         "a\n\xff"
                         "\0\0\0\x01l\x80\0\0\x04\0\0\x41\xed\0\0\0\x01\0\0\0\x01k\0\0\0\x01v"s;
    auto const reply = parseReply(message);
    ASSERT_TRUE(reply);
    auto const& names = std::get<NameReply>(reply->body);
    ASSERT_EQ(names.size(), 1U);
    EXPECT_EQ(names[0].name, "a\n\xff");
    EXPECT_EQ(names[0].longName, "l");
    EXPECT_TRUE(names[0].attributes.isDir());
}

TEST(SftpReply, DataPointsIntoTheMessage)
{
    auto const message = "\x67\0\0\0\x01\0\0\0\x03"
                         "abc"s;
    auto const reply = parseReply(message);
    ASSERT_TRUE(reply);
    EXPECT_EQ(std::get<DataReply>(reply->body).bytes, "abc");
    EXPECT_EQ(std::get<DataReply>(reply->body).bytes.data(), message.data() + 9);
}

TEST(SftpReply, EveryCutOfAMessageIsRefusedOrShorterButNeverReadBeyond)
{
    auto const whole =
        "\x68\0\0\0\x01\0\0\0\x02\0\0\0\x01"
        "a\0\0\0\x01l\0\0\0\x0f\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\x81\xa4\0\0\0\x01\0\0\0\x01"
        "\0\0\0\x01"
        "b\0\0\0\0\0\0\0\0"s;
    ASSERT_TRUE(parseReply(whole));
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_FALSE(parseReply(std::string(whole.data(), size))) << size;
}

TEST(SftpReply, LiesAboutLengthsAndCountsAreRefused)
{
    EXPECT_FALSE(parseReply("\x67\0\0\0\x01\xff\xff\xff\xff"
                            "abc"s));
    EXPECT_FALSE(parseReply("\x68\0\0\0\x01\xff\xff\xff\xff"s));
    EXPECT_FALSE(parseReply("\x69\0\0\0\x01\x80\0\0\0\xff\xff\xff\xff"s));
    EXPECT_FALSE(parseReply("\x66\0\0\0\x01\0\0\x01\x01"s + std::string(257, 'h')));
    EXPECT_FALSE(parseReply("\x01\0\0\0\x01"s));
    EXPECT_FALSE(parseReply(""));
}

TEST(SftpVersion, ExtensionsAreFoundByNameAndVersion)
{
    auto const server = parseVersion("\x02\0\0\0\x03\0\0\0\x11"
                                     "fsync@openssh.com\0\0\0\x01"
                                     "1\0\0\0\x01x\0\0\0\0"s);
    ASSERT_TRUE(server);
    EXPECT_EQ(server->version, 3U);
    EXPECT_THAT(server->extensions, ElementsAre(Pair("fsync@openssh.com", "1"), Pair("x", "")));
    EXPECT_TRUE(server->has("fsync@openssh.com", "1"));
    EXPECT_FALSE(server->has("fsync@openssh.com", "2"));
    EXPECT_FALSE(parseVersion("\x02\0\0\0\x03\0\0\0\x05x"s));
    EXPECT_FALSE(parseVersion("Welcome!"));
}

TEST(SftpExtensions, LimitsAndSpaceAreReadAndTooShortOnesAreNot)
{
    auto const number = [](std::uint64_t value) {
        std::string bytes;
        for (int shift = 56; shift >= 0; shift -= 8)
            bytes.push_back(static_cast<char>(value >> shift & 0xffU));
        return bytes;
    };
    auto const limits = parseLimits(number(262144) + number(261120) + number(261120) + number(1019));
    ASSERT_TRUE(limits);
    EXPECT_EQ(limits->read, 261120U);
    EXPECT_FALSE(parseLimits(number(1)));

    std::string space;
    for (std::uint64_t const value : {4096U, 512U, 100U, 30U, 20U, 50U, 40U, 39U, 1U, 1U, 255U})
        space += number(value);
    auto const parsed = parseSpace(space);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->bytesFree, 512U * 20U); // f_bavail of f_frsize
    EXPECT_EQ(parsed->filesFree, 39U);        // f_favail
    EXPECT_TRUE(parsed->readOnly);
    EXPECT_FALSE(parseSpace(space.substr(0, 72)));
}

TEST(SftpLongName, OwnerAndGroupAreTakenOnlyWhereItIsClearWhichTheyAre)
{
    // Made by ls(1) and by sftp-server(8).
    EXPECT_THAT(ownerAndGroup("-rw-r--r--    1 user     staff      348911 Mar 25 14:29 t-filexfer"),
                Pair("user", "staff"));
    EXPECT_THAT(ownerAndGroup("drwxrwxrwt+  ? 0        1000         4096 Mar 25  2001 a b  c"),
                Pair("0", "1000"));
    EXPECT_THAT(ownerAndGroup("lrwxrwxrwx 1 CORP\\ann CORP\\domain-users 11 Mar 25 14:29 a -> b"),
                Pair("CORP\\ann", "CORP\\domain-users"));
    EXPECT_THAT(ownerAndGroup("-rwsr-xr-x 1 CORP\\ann CORP\\domain users 11 Mar 25 14:29 a"), Pair("", ""));
    for (auto const* const odd :
         {"", "a", "notes.txt", "-rw-r--r-- 1 user", "-rw-r--r-- x user group 1 Mar 25 1:00 a"})
        EXPECT_THAT(ownerAndGroup(odd), Pair("", "")) << odd;
}

} // namespace
} // namespace termalin::ssh::sftp
