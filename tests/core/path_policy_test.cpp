#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/path_policy.h"

namespace termalin {
namespace {

using ::testing::HasSubstr;

bool matches(std::string_view pattern, std::string_view path)
{
    auto const parsed = PathPattern::parse(pattern);
    EXPECT_TRUE(parsed) << pattern << ": " << parsed.error().message;
    return parsed && parsed->matches(path);
}

TEST(PathPattern, ALiteralPathIsThatPath)
{
    EXPECT_TRUE(matches("/etc/hosts", "/etc/hosts"));
    EXPECT_TRUE(matches("/etc/hosts", "/etc/hosts/"));
    EXPECT_FALSE(matches("/etc/hosts", "/etc/hostname"));
    EXPECT_FALSE(matches("/etc/hosts", "/etc"));
    EXPECT_FALSE(matches("/etc/hosts", "/etc/hosts/x"));
    EXPECT_TRUE(matches("/", "/"));
    EXPECT_FALSE(matches("/", "/etc"));
}

TEST(PathPattern, AStarStaysWithinOneComponent)
{
    EXPECT_TRUE(matches("/var/log/*.log", "/var/log/apt.log"));
    EXPECT_TRUE(matches("/var/log/*.log", "/var/log/.log"));
    EXPECT_FALSE(matches("/var/log/*.log", "/var/log/apt/term.log"));
    EXPECT_TRUE(matches("/home/*/public/*", "/home/ada/public/.hidden"));
    EXPECT_FALSE(matches("/home/*/public/*", "/home/ada/x/public/y"));
    EXPECT_FALSE(matches("/home/*/public/*", "/home/ada/public"));
    EXPECT_FALSE(matches("/var/log/*", "/var/log"));
    EXPECT_FALSE(matches("/var/log/*", "/var/log/"));
}

TEST(PathPattern, TwoStarsAreTheFolderAndAllBelowIt)
{
    for (auto const* const path : {"/var/log", "/var/log/", "/var/log/syslog", "/var/log/a/b/c"})
        EXPECT_TRUE(matches("/var/log/**", path)) << path;
    for (auto const* const path : {"/var", "/var/logs", "/var/log2/x", "/", "/VAR/log/x"})
        EXPECT_FALSE(matches("/var/log/**", path)) << path;
    EXPECT_TRUE(matches("/**", "/"));
    EXPECT_TRUE(matches("/**", "/etc/passwd"));
    EXPECT_TRUE(matches("/home/*/logs/**", "/home/ada/logs/x/y"));
    EXPECT_FALSE(matches("/home/*/logs/**", "/home/logs/x"));
}

TEST(PathPattern, NothingElseIsSpecial)
{
    EXPECT_TRUE(matches("/a/[x]?{b}$c", "/a/[x]?{b}$c"));
    EXPECT_FALSE(matches("/a/[x]", "/a/x"));
    EXPECT_FALSE(matches("/a/?", "/a/b"));
    EXPECT_TRUE(matches("/a b/'c'", "/a b/'c'"));
    EXPECT_TRUE(matches("/~/x", "/~/x"));
}

TEST(PathPattern, APathThatDoesNotSayWhereItGoesNeverMatches)
{
    for (auto const* const path : {"", "etc/passwd", "/etc/../etc/passwd", "/./etc", "/etc/.", "/etc/..",
                                   "//etc", "/etc//passwd", "/etc//", "~/x", "../x"})
        EXPECT_FALSE(matches("/**", path)) << path;
    EXPECT_FALSE(matches("/**", std::string_view("/etc\0/x", 7)));
    EXPECT_TRUE(matches("/**", "/etc/..x/...")); // names, if odd ones
}

TEST(PathPattern, APatternThatCannotBeReadIsAnErrorThatSaysWhy)
{
    for (auto const* const text : {"", "var/log", "~/x", "/var/../etc", "/var/./log", "/var//log",
                                   "/var/log/", "/var/**/x", "/var/a**", "/var/***", "**", "/a/**b"}) {
        auto const pattern = PathPattern::parse(text);
        ASSERT_FALSE(pattern) << text;
        EXPECT_EQ(pattern.error().code, Errc::InvalidArgument);
        EXPECT_THAT(pattern.error().message, HasSubstr("cannot be used: it "));
    }
    EXPECT_FALSE(PathPattern::parse(std::string_view("/a\0b", 4)));
}

TEST(AdmitPath, GivesThePathOrSaysWhatThePersonCanDo)
{
    std::vector<PathPattern> patterns{PathPattern::parse("/etc/hosts").value(),
                                      PathPattern::parse("/var/log/**").value()};
    EXPECT_EQ(admitPath("/var/log/x", patterns).value(), "/var/log/x");
    EXPECT_EQ(admitPath("/var/log/", patterns).value(), "/var/log");
    auto const refused = admitPath("/etc/sha\ndow", patterns);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::NotInAllowlist);
    EXPECT_THAT(refused.error().message, HasSubstr("/etc/sha\\x0Adow"));
    EXPECT_THAT(refused.error().message, HasSubstr("--allow-read"));
    EXPECT_THAT(admitPath("log/x", patterns).error().message, HasSubstr("is not absolute"));
    EXPECT_THAT(admitPath("/var/log/../../etc/shadow", patterns).error().message, HasSubstr(". or .."));
    EXPECT_FALSE(admitPath("/var/log/x", {}));
}

} // namespace
} // namespace termalin
