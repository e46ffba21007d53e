#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/e2e/cli_home.h"

namespace termalin::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Install : public ::testing::Test {
protected:
    /// A stand-in for a client's command line: writes down how it was called.
    void fakeClient(std::string const& name, int status) const
    {
        auto const file = m_home.bin() / name;
        writeFile(file, fmt::format("#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done >> {}\necho told "
                                    "by {} >&2\nexit {}\n",
                                    calls().string(), name, status));
        std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    }
    [[nodiscard]] std::filesystem::path calls() const { return m_home.folder() / "calls"; }
    std::string configured(std::string const& name, std::string_view before) const
    {
        auto const file = m_home.home() / name;
        std::filesystem::create_directories(file.parent_path());
        writeFile(file, before);
        return file.string();
    }

    CliHome m_home;
};

TEST_F(Install, GoesThroughTheClientsOwnCommandLine)
{
    fakeClient("claude", 0);
    m_home.must({"install", "claude"});
    EXPECT_EQ(readFile(calls()),
              fmt::format("mcp\nadd\n--scope\nuser\ntermalin\n--env\nTERMALIN_HOME={}\n--\n{}\n",
                          m_home.data().string(), TERMALIN_MCP));
    std::filesystem::remove(calls());
    fakeClient("codex", 0);
    m_home.must({"install", "codex"});
    EXPECT_EQ(readFile(calls()), fmt::format("mcp\nadd\ntermalin\n--env\nTERMALIN_HOME={}\n--\n{}\n",
                                             m_home.data().string(), TERMALIN_MCP));
    std::filesystem::remove(calls());
    fakeClient("code", 0);
    m_home.must({"install", "vscode"});
    auto const text = readFile(calls());
    ASSERT_TRUE(text.starts_with("--add-mcp\n"));
    auto const json = parseJson(text.substr(10));
    ASSERT_TRUE(json) << text;
    EXPECT_EQ(json->at("name"), "termalin");
    EXPECT_EQ(json->at("command"), TERMALIN_MCP);
}

TEST_F(Install, SaysWhatTheClientSaidWhenItFails)
{
    fakeClient("claude", 7);
    auto const ran = m_home.run({"install", "claude"});
    EXPECT_EQ(ran.status, 1);
    EXPECT_THAT(ran.out, HasSubstr("told by claude"));
}

TEST_F(Install, DoesNothingWhereTheClientHasItAlready)
{
    fakeClient("claude", 0);
    configured(
        ".claude.json",
        fmt::format(
            R"({{"mcpServers": {{"termalin": {{"command": "{}", "env": {{"TERMALIN_HOME": "{}"}}}}}}}})",
            TERMALIN_MCP, m_home.data().string()));
    EXPECT_THAT(m_home.must({"install", "claude"}), HasSubstr("already"));
    EXPECT_FALSE(std::filesystem::exists(calls()));
    // With another program in it, Claude Code must forget the old one first.
    configured(".claude.json", R"({"mcpServers": {"termalin": {"command": "/old"}}})");
    m_home.must({"install", "claude"});
    EXPECT_TRUE(readFile(calls()).starts_with("mcp\nremove\n--scope\nuser\ntermalin\nmcp\nadd\n"))
        << readFile(calls());
}

TEST_F(Install, EditsTheConfigurationOfAClientWithoutACommandLineAndKeepsTheRest)
{
    std::string const before =
        "{\n  // mine\n  \"mcpServers\": {\n    \"other\": {\"command\": \"npx\"}, // keep\n  },\n}\n";
    auto const file = configured(".cursor/mcp.json", before);
    ::chmod(file.c_str(), 0640);
    m_home.must({"install", "cursor"});
    auto const after = readFile(file);
    EXPECT_THAT(after, HasSubstr("\"other\": {\"command\": \"npx\"}, // keep\n"));
    EXPECT_TRUE(after.starts_with("{\n  // mine\n"));
    EXPECT_THAT(after, HasSubstr(TERMALIN_MCP));
    struct stat info{};
    ::stat(file.c_str(), &info);
    EXPECT_EQ(info.st_mode & 07777U, 0640U) << "its mode is the person's choice";
    EXPECT_THAT(m_home.must({"install", "cursor"}), HasSubstr("already"));
    EXPECT_EQ(readFile(file), after) << "a second time changes nothing";
}

TEST_F(Install, MakesAConfigurationWhereThereIsNone)
{
    for (auto const& [client, file] :
         {std::pair{"cursor", ".cursor/mcp.json"}, std::pair{"vscode", ".config/Code/User/mcp.json"},
          std::pair{"claude", ".claude.json"}}) {
        m_home.must({"install", client});
        auto const json = parseJson(readFile(m_home.home() / file));
        ASSERT_TRUE(json) << client;
        auto const* const servers = std::string_view(client) == "vscode" ? "servers" : "mcpServers";
        EXPECT_EQ(json->at(servers).at("termalin").at("command"), TERMALIN_MCP);
    }
    m_home.must({"install", "codex"});
    EXPECT_EQ(readFile(m_home.home() / ".codex/config.toml"),
              fmt::format("[mcp_servers.termalin]\ncommand = "
                          "\"{}\"\n\n[mcp_servers.termalin.env]\nTERMALIN_HOME = \"{}\"\n",
                          TERMALIN_MCP, m_home.data().string()));
}

TEST_F(Install, AFormerEntrysArgumentsAreNotGivenToTheServer)
{
    auto const codex =
        configured(".codex/config.toml",
                   "[mcp_servers.termalin]\nargs = [\"-y\", # how\n  \"old\"] # mine\ncommand = \"npx\"\n");
    m_home.must({"install", "codex"});
    EXPECT_THAT(readFile(codex),
                StartsWith(fmt::format("[mcp_servers.termalin]\nargs = [] # mine\ncommand = \"{}\"\n",
                                       TERMALIN_MCP)));
    auto const cursor = configured(".cursor/mcp.json",
                                   R"({"mcpServers":{"termalin":{"command":"npx","args":["-y","old"]}}})");
    m_home.must({"install", "cursor"});
    auto const json = parseJson(readFile(cursor));
    ASSERT_TRUE(json);
    EXPECT_EQ(json->at("mcpServers").at("termalin").at("args"), Json::array());
}

TEST_F(Install, ABrokenConfigurationIsRefusedAndLeftAsItIs)
{
    for (auto const& [client, name] :
         {std::pair{"cursor", ".cursor/mcp.json"}, std::pair{"codex", ".codex/config.toml"},
          std::pair{"vscode", ".config/Code/User/mcp.json"}, std::pair{"claude", ".claude.json"}}) {
        auto const file = configured(name, "{ \"broken\": [");
        auto const ran = m_home.run({"install", client});
        EXPECT_EQ(ran.status, 1) << client;
        EXPECT_THAT(ran.out, HasSubstr("line 1"));
        EXPECT_EQ(readFile(file), "{ \"broken\": [");
    }
}

TEST_F(Install, PrintChangesNothing)
{
    fakeClient("claude", 0);
    EXPECT_THAT(m_home.must({"install", "claude", "--print"}),
                HasSubstr("claude mcp add --scope user termalin"));
    EXPECT_THAT(m_home.must({"install", "cursor", "--print"}), HasSubstr("\"mcpServers\""));
    EXPECT_FALSE(std::filesystem::exists(calls()));
    EXPECT_TRUE(std::filesystem::is_empty(m_home.home()));
}

} // namespace
} // namespace termalin::test
