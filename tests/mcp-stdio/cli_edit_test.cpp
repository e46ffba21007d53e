#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mcp-stdio/cli/json_edit.h"
#include "mcp-stdio/cli/toml_edit.h"

namespace termalin::cli {
namespace {

using ::testing::HasSubstr;
using Path = std::vector<std::string>;

Path const kServer{"mcpServers", "termalin"};

/// Whether `after` is `before` with nothing taken away: every byte of it is still there, in order.
bool onlyGrew(std::string_view before, std::string_view after)
{
    std::size_t at = 0;
    for (char const c : before) {
        at = after.find(c, at);
        if (at == std::string_view::npos)
            return false;
        ++at;
    }
    return true;
}

/// The texts that people's files are made of: each way to lay JSON out, with an object to add to or without.
std::vector<std::string> const kLayouts{
    "{}",
    "{ }",
    "{\n}\n",
    R"({"mcpServers":{}})",
    R"({"mcpServers": {"other": {"command": "x"}}})",
    "{\n  \"a\": 1\n}\n",
    "{\n\t\"mcpServers\": {\n\t\t\"other\": {\n\t\t\t\"command\": \"x\"\n\t\t}\n\t}\n}",
    ("{\r\n    \"mcpServers\": {\r\n        \"other\": {\"command\": \"x\"}\r\n    },\r\n    \"z\": [1, "
     "2]\r\n}\r\n"),
    "\xef\xbb\xbf{\n  \"mcpServers\": {}\n}\n",
    "{\n  // servers of mine\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"} // keep\n  }\n}\n",
    "{\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"}, // keep\n    /* none yet */\n  },\n}\n",
    "/* head */ {\"mcpServers\": {/* empty */}} // tail\n",
    "{\"mcpServers\": {\n  // none\n}}",
    "{\"url\": \"http://a//b\", \"escaped\": \"\\\"}{\\u00e9\"}",
};

TEST(JsonEdit, EveryLayoutGetsTheMemberAndKeepsEveryOtherByte)
{
    Json const value{{"command", "/usr/bin/termalin-mcp"}, {"args", Json::array()}};
    for (auto const& before : kLayouts) {
        SCOPED_TRACE(before);
        auto const after = setJsonMember(before, kServer, value);
        ASSERT_TRUE(after) << after.error().message;
        auto const read = jsonMember(*after, kServer);
        ASSERT_TRUE(read) << *after;
        EXPECT_EQ(*read, value) << *after;
        if (before != "{ }" && before != "{\n}\n") { // blanks between empty braces are laid out anew
            EXPECT_TRUE(onlyGrew(before, *after)) << *after;
        }
        if (before.contains("\"other\"")) {
            EXPECT_EQ(jsonMember(*after, {"mcpServers", "other", "command"}), Json("x")) << *after;
        }
        EXPECT_EQ(before.contains("\r\n"), after->contains("\r\n"));
        // A strict reader agrees wherever the text was strict before.
        if (Json::accept(before)) {
            EXPECT_EQ(parseJson(*after)->at("mcpServers").at("termalin"), value);
        }
    }
}

TEST(JsonEdit, ASecondTimeChangesNothing)
{
    Json const value{{"command", "/x"}};
    for (auto const& before : kLayouts) {
        auto const once = setJsonMember(before, kServer, value);
        ASSERT_TRUE(once);
        EXPECT_EQ(setJsonMember(*once, kServer, value), *once);
    }
}

TEST(JsonEdit, TheNewMemberLooksLikeItsNeighbours)
{
    auto const after = setJsonMember("{\n    \"mcpServers\": {\n        \"a\": {}\n    }\n}\n", kServer,
                                     Json{{"command", "x"}});
    EXPECT_EQ(
        after,
        "{\n    \"mcpServers\": {\n        \"a\": {},\n        \"termalin\": {\n            \"command\": "
        "\"x\"\n        }\n    }\n}\n");
}

TEST(JsonEdit, ACommentBehindTheLastMemberStaysBehindIt)
{
    EXPECT_EQ(setJsonMember("{\n  \"a\": 1 // one\n}", {"b"}, 2), "{\n  \"a\": 1, // one\n  \"b\": 2\n}");
    EXPECT_EQ(setJsonMember("{\n  \"a\": 1, // one\n}", {"b"}, 2), "{\n  \"a\": 1, // one\n  \"b\": 2\n}");
    EXPECT_EQ(setJsonMember("{\"a\": 1 // one\n}", {"b"}, 2), "{\"a\": 1, // one\n \"b\": 2\n}");
}

TEST(JsonEdit, AnotherValueIsReplacedInItsPlace)
{
    EXPECT_EQ(setJsonMember(R"({"a": {"b": "old" /* why */}, "c": 1})", {"a", "b"}, "new"),
              R"({"a": {"b": "new" /* why */}, "c": 1})");
}

TEST(JsonEdit, OfTwoMembersWithOneNameTheLastCountsAsItDoesForReaders)
{
    EXPECT_EQ(setJsonMember(R"({"a": 1, "a": 2})", {"a"}, 3), R"({"a": 1, "a": 3})");
}

TEST(JsonEdit, ABrokenTextIsRefusedWithItsPlace)
{
    for (auto const* const text :
         {"{", "{\"a\"}", "{\"a\": }", "[1,", "{\"a\": 1 \"b\": 2}", "{} {}", "{\"a\": tru}", "/* open",
          "{\"a\": \"x}", "{'a': 1}", "nonsense", "{\"a\": 1,, }", "{\"a\": \"\\q\"}"}) {
        SCOPED_TRACE(text);
        auto const after = setJsonMember(text, {"mcpServers"}, 1);
        ASSERT_FALSE(after) << *after;
        EXPECT_EQ(after.error().code, Errc::Unsupported);
        EXPECT_THAT(after.error().message, HasSubstr("line 1"));
    }
    auto const after = setJsonMember("{\n  \"a\": 1\n  \"b\": 2\n}", {"x"}, 1);
    ASSERT_FALSE(after);
    EXPECT_THAT(after.error().message, HasSubstr("line 3, column 3"));
}

TEST(JsonEdit, SomethingElseThanAnObjectOnTheWayIsLeftAlone)
{
    EXPECT_FALSE(setJsonMember("[]", kServer, 1));
    EXPECT_FALSE(setJsonMember("{\"mcpServers\": null}", kServer, 1));
    EXPECT_FALSE(setJsonMember("{\"mcpServers\": \"x\"}", kServer, 1));
}

TEST(JsonEdit, DeepNestingIsRefusedAndNotFollowed)
{
    EXPECT_FALSE(setJsonMember(std::string(100'000, '['), {"a"}, 1));
}

Path const kTable{"mcp_servers", "termalin"};

std::vector<std::string> const kTomls{
    "",
    "model = \"gpt\" # mine\n",
    "model = 'x'",
    "[mcp_servers.other]\ncommand = \"npx\"\nargs = [\n  \"-y\", # yes\n  \"pkg\",\n]\n",
    ("[mcp_servers]\n\n[mcp_servers.other.env]\nA = \"1\"\n\n[zzz]\nd = 1979-05-27 07:32:00\nf = -1.5e3\nb = "
     "true\n"),
    "text = \"\"\"\n[mcp_servers.termalin]\ncommand = \"no\"\n\"\"\"\n",
    "lit = '''\n# [x\n'''\r\n[a.\"b.c\"]\r\nt = { x = 1, y = [ {z = 2} ] }\r\n",
    "[[list]]\nn = 1\n[[list]]\nn = 2\n",
};

TEST(TomlEdit, EveryLayoutGetsTheTableAndKeepsEveryOtherByte)
{
    for (auto const& before : kTomls) {
        SCOPED_TRACE(before);
        auto const after = setTomlString(before, kTable, "command", "/a \"b\"\\c");
        ASSERT_TRUE(after) << after.error().message;
        EXPECT_TRUE(after->starts_with(before));
        auto path = kTable;
        path.emplace_back("command");
        EXPECT_EQ(tomlString(*after, path), "/a \"b\"\\c") << *after;
        EXPECT_EQ(setTomlString(*after, kTable, "command", "/a \"b\"\\c"), *after);
    }
}

TEST(TomlEdit, AnotherValueIsReplacedInItsPlace)
{
    EXPECT_EQ(setTomlString("[mcp_servers.termalin]\n# mine\ncommand = 'old' # why\nenabled = false\n",
                            kTable, "command", "new"),
              "[mcp_servers.termalin]\n# mine\ncommand = \"new\" # why\nenabled = false\n");
    EXPECT_EQ(setTomlString("[\"mcp_servers\".'termalin']\nenabled = false\n", kTable, "command", "new"),
              "[\"mcp_servers\".'termalin']\ncommand = \"new\"\nenabled = false\n");
    EXPECT_EQ(setTomlString("mcp_servers.termalin.command = \"old\"\n", kTable, "command", "new"),
              "mcp_servers.termalin.command = \"new\"\n");
}

TEST(TomlEdit, AFormThatCannotBeAddedToIsRefused)
{
    for (auto const* const text : {"mcp_servers = { other = { command = \"x\" } }\n",
                                   "[mcp_servers]\ntermalin = { args = [] }\n", "[[mcp_servers]]\na = 1\n"}) {
        auto const after = setTomlString(text, kTable, "command", "x");
        ASSERT_FALSE(after) << text;
        EXPECT_THAT(after.error().message, HasSubstr("mcp_servers.termalin"));
    }
}

TEST(TomlEdit, ABrokenTextIsRefusedWithItsLine)
{
    for (auto const* const text : {"a", "a =", "a = \"x", "[a", "[a]]", "a = 1 2 x", "a = [1 2]", "a = {b}",
                                   "= 1", "a = '''x", "a = nope", "a = \"\\q\""}) {
        SCOPED_TRACE(text);
        auto const after = setTomlString(text, kTable, "command", "x");
        ASSERT_FALSE(after) << *after;
        EXPECT_EQ(after.error().code, Errc::Unsupported);
        EXPECT_THAT(after.error().message, HasSubstr("line 1"));
    }
}

} // namespace
} // namespace termalin::cli
