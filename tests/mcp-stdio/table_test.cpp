#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "client.h"
#include "core/paths.h"
#include "core/settings.h"
#include "mcp-stdio/docs.h"
#include "tests/support/temp_dir.h"

namespace termalin::mcp {
namespace {

using ::testing::HasSubstr;

/// Name, parameters ('?': may be left out), result fields ('?': may be missing) and whether it only reads, as
/// the product's reference page lists them.
struct Expected {
    std::string name;
    std::set<std::string> takes, gives;
    bool reads;
};

std::vector<Expected> const& contract()
{
    static std::set<std::string> const exec{"output",    "exitCode?",   "signal?",      "completion",
                                            "truncated", "outputBytes", "omittedBytes", "durationMs",
                                            "encoding",  "stopped?",    "note?"};
    static std::vector<Expected> const rows{
        {"hosts_list", {}, {"hosts"}, true},
        {"generate_password", {"length?"}, {"password", "length"}, true},
        {"ssh_exec", {"host", "command", "timeoutSeconds?"}, exec, false},
        {"session_open", {"host"}, {"sessionId", "hostId", "host"}, false},
        {"session_exec", {"session", "command", "timeoutSeconds?"}, exec, false},
        {"session_close", {"session"}, {"closed"}, false},
        {"session_list", {}, {"sessions"}, true},
        {"tunnel_open",
         {"session", "type?", "remoteHost?", "remotePort?", "localPort?"},
         {"tunnelId", "sessionId", "kind", "listenAddr", "target?"},
         false},
        {"tunnel_close", {"tunnel"}, {"closed"}, false},
        {"tunnel_list", {}, {"tunnels"}, true},
        {"sftp_list", {"host", "path"}, {"path", "entries", "truncated"}, true},
        {"sftp_get", {"host", "path"}, {"path", "size", "encoding", "content"}, true},
        {"sftp_put", {"host", "path", "content", "base64?"}, {"path", "size", "created", "replaced?"}, false},
        {"terminal_hosts", {}, {"hosts"}, true},
        {"terminal_sessions", {}, {"tabs"}, true},
        {"terminal_open", {"hostId"}, {"tabId", "hostId", "title", "connected", "needsUser?"}, false},
        {"terminal_run",
         {"tabId", "command", "timeoutSeconds?"},
         {"tabId", "output", "exitCode?", "completion", "truncated", "outputBytes", "omittedBytes",
          "durationMs", "note?"},
         false},
        {"terminal_run_many", {"tabIds", "command", "timeoutSeconds?"}, {"results"}, false},
        {"data_list", {}, {"connections"}, true},
        {"data_tables", {"hostId", "database?"}, {"tables", "databases?", "truncated"}, true},
        {"data_schema",
         {"hostId", "table", "schema?", "database?"},
         {"table", "schema?", "columns", "indexes?", "foreignKeys?"},
         true},
        {"data_query",
         {"hostId", "query", "database?", "maxRows?", "timeoutSeconds?"},
         {"columns", "rows", "rowCount", "truncated", "affectedRows?", "durationMs"},
         true},
    };
    return rows;
}

std::set<std::string> fields(Json const& schema)
{
    std::set<std::string> names;
    std::set<std::string> const required = schema.value("required", std::set<std::string>());
    for (auto const& [name, ignored] : schema["properties"].items())
        names.insert(required.contains(name) ? name : name + '?');
    return names;
}

/// What of JSON Schema 2020-12 the table uses, checked for well-formedness.
void checkSchema(Json const& schema, std::string const& where)
{
    ASSERT_TRUE(schema.is_object()) << where;
    static std::set<std::string> const keywords{"type",     "properties", "required", "additionalProperties",
                                                "items",    "enum",       "minimum",  "maximum",
                                                "minItems", "maxItems",   "default",  "description"};
    for (auto const& [keyword, value] : schema.items())
        EXPECT_TRUE(keywords.contains(keyword)) << where << ": " << keyword;
    static std::set<std::string> const types{"string", "integer", "boolean", "array", "object"};
    EXPECT_TRUE(types.contains(schema.value("type", ""))) << where;
    for (auto const& name : schema.value("required", Json::array()))
        EXPECT_TRUE(schema["properties"].contains(name)) << where << ": " << name;
    if (schema.contains("properties"))
        for (auto const& [name, field] : schema["properties"].items())
            checkSchema(field, where + '.' + name);
    if (schema.contains("items"))
        checkSchema(schema["items"], where + "[]");
}

TEST(ToolTable, HoldsExactlyTheToolsParametersAndResultsOfTheReference)
{
    ASSERT_EQ(allTools().size(), contract().size());
    for (std::size_t i = 0; i < contract().size(); ++i) {
        auto const& row = allTools()[i];
        auto const& expected = contract()[i];
        EXPECT_EQ(row.name, expected.name);
        EXPECT_EQ(fields(row.inputSchema()), expected.takes) << row.name;
        EXPECT_EQ(fields(row.outputSchema), expected.gives) << row.name;
        Services const nothing; // in which no connection grants writes
        auto const listing = row.listing(row.currentEffect(nothing));
        EXPECT_EQ(listing["annotations"]["readOnlyHint"], expected.reads) << row.name;
    }
}

TEST(ToolTable, HasDefaultsAndLimitsAsTheReferenceSaysThem)
{
    auto const property = [](std::string_view tool, char const* name) {
        auto const row = std::ranges::find(allTools(), tool, &Tool::name);
        return row->inputSchema()["properties"][name];
    };
    for (auto const* tool : {"ssh_exec", "session_exec", "data_query"})
        EXPECT_EQ(property(tool, "timeoutSeconds")["default"], 50) << tool;
    for (auto const* tool : {"terminal_run", "terminal_run_many"})
        EXPECT_EQ(property(tool, "timeoutSeconds")["default"], 120) << tool;
    EXPECT_EQ(property("ssh_exec", "timeoutSeconds")["maximum"], 3600);
    EXPECT_EQ(property("generate_password", "length")["default"], 20);
    EXPECT_FALSE(property("generate_password", "length").contains("minimum")); // it is clamped, not refused
    EXPECT_EQ(property("tunnel_open", "type")["default"], "local");
    EXPECT_EQ(property("tunnel_open", "localPort")["default"], 0);
    EXPECT_EQ(property("data_query", "maxRows")["default"], 200);
    EXPECT_EQ(property("data_query", "maxRows")["maximum"], 10'000);
    EXPECT_EQ(property("terminal_run_many", "tabIds")["maxItems"], 64);
    EXPECT_EQ(property("sftp_put", "base64")["default"], false);
}

TEST(ToolTable, IsCompleteAndItsSchemasAreWellFormed)
{
    std::set<std::string> names;
    for (auto const& tool : allTools()) {
        EXPECT_TRUE(names.insert(tool.name).second) << tool.name;
        EXPECT_FALSE(tool.title.empty()) << tool.name;
        EXPECT_FALSE(tool.description.empty()) << tool.name;
        EXPECT_NE(bool(tool.run), bool(tool.runText)) << tool.name;
        EXPECT_NE(tool.gate, Gate::Never) << tool.name;
        EXPECT_EQ(tool.inputSchema()["additionalProperties"], false) << tool.name;
        EXPECT_EQ(tool.outputSchema["type"], "object") << tool.name;
        checkSchema(tool.inputSchema(), tool.name + " takes");
        checkSchema(tool.outputSchema, tool.name + " gives");
    }
    EXPECT_EQ(appTools().size(), 9U);
}

TEST(ToolTable, CostsAConversationAtMostTwentyKilobytes)
{
    test::Client client(allTools());
    client.initialize();
    client.send(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})");
    EXPECT_LE(client.nextLine().size(), 20'000U);
}

TEST(ToolTable, AnswersEachRowCalledWithNoWrongAndSuperfluousArguments)
{
    test::Client client(allTools());
    client.gate.refuse = Errc::ConsentRequired; // nothing is run here
    client.initialize();
    for (auto const& tool : allTools()) {
        client.call("1", tool.name);
        auto const none = client.next();
        auto const needs = std::ranges::any_of(tool.args, &ArgSpec::required);
        auto const fine = tool.needs == Needs::App ? "app_not_running" : "consent_required";
        EXPECT_EQ(none["result"]["_meta"]["code"], needs ? "invalid_argument" : fine) << none;
        EXPECT_EQ(none["result"]["isError"], true);
        EXPECT_FALSE(none["result"].contains("structuredContent"));
        Json wrong = Json::object();
        for (auto const& spec : tool.args)
            wrong[spec.name] = Json{{"not", "this"}};
        wrong["superfluous"] = 1;
        client.call("2", tool.name, wrong.dump());
        std::string const text = client.next()["result"]["content"][0]["text"];
        EXPECT_THAT(text, HasSubstr("invalid_argument: "));
        EXPECT_THAT(text, HasSubstr("\"superfluous\"")) << tool.name;
        for (auto const& spec : tool.args)
            EXPECT_THAT(text, HasSubstr(spec.name + " must be ")) << tool.name;
    }
}

TEST(ToolTable, TellsOfAStopOfAllAgentsInEachRowThatNeedsTheAppWhereNoneRuns)
{
    termalin::test::TempDir const dir;
    test::Client client(allTools());
    client.services.paths.settings = dir / "settings.json";
    ASSERT_TRUE(changeSetting(client.services.paths.settings, "agents.stopped", "true"));
    client.initialize();
    auto rows = 0;
    for (auto const& tool : allTools()) {
        if (tool.needs != Needs::App)
            continue;
        ++rows;
        Json fine = Json::object();
        for (auto const& spec : tool.args)
            if (spec.required)
                fine[spec.name] = spec.name == "tabIds" ? Json{"t"} : Json("x");
        client.call("1", tool.name, fine.dump());
        auto const reply = client.next();
        EXPECT_EQ(reply["result"]["_meta"], (Json{{"code", "consent_required"}, {"retryable", false}}))
            << reply;
    }
    EXPECT_EQ(rows, 9);
}

TEST(ToolTable, IsWhatTheDocumentationSays)
{
    auto const page = readFile(TERMALIN_SOURCE_DIR "/docs/TOOLS.md");
    ASSERT_TRUE(page) << page.error().message;
    EXPECT_EQ(*page, toolsAsMarkdown(allTools())) << "run: termalin-mcp --print-tools > docs/TOOLS.md";
}

} // namespace
} // namespace termalin::mcp
