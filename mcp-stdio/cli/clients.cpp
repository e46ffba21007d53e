#include "mcp-stdio/cli/clients.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

#include "mcp-stdio/cli/json_edit.h"
#include "mcp-stdio/cli/toml_edit.h"

namespace termalin::cli {

namespace {

std::filesystem::path environmentPath(char const* name)
{
    auto const* const value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): nothing here sets any
    return value == nullptr ? std::filesystem::path() : std::filesystem::path(value);
}

Json asJson(Client const& client, ServerEntry const& entry)
{
    Json json{{"command", entry.command}, {"args", Json::array()}};
    if (client.id == ClientId::VsCode || client.id == ClientId::Claude)
        json["type"] = "stdio";
    if (!entry.termalinHome.empty())
        json["env"] = {{"TERMALIN_HOME", entry.termalinHome}};
    return json;
}

Result<std::string> withJsonServer(Client const& client, std::string_view text, ServerEntry const& entry)
{
    std::vector<std::string> const place{std::string(client.servers), kServerName};
    auto const present = jsonMember(text, place);
    if (!present && present.error().code == Errc::Unsupported)
        return std::unexpected(present.error());
    if (!present || !present->is_object())
        return setJsonMember(text, place, asJson(client, entry));
    // What the person has set beside these (disabled, other variables) stays.
    auto const member = [&](std::string_view in, std::string const& key, Json const& value) {
        auto path = place;
        path.push_back(key);
        return setJsonMember(in, path, value);
    };
    TRY_LET(auto result, member(text, "command", entry.command));
    if (present->contains("args") && present->at("args") != Json::array()) {
        TRY_LET(result, member(result, "args", Json::array()));
    }
    if (!entry.termalinHome.empty()) {
        TRY_LET(result,
                setJsonMember(result, {std::string(client.servers), kServerName, "env", "TERMALIN_HOME"},
                              entry.termalinHome));
    }
    return result;
}

} // namespace

std::vector<Client> const& clients()
{
    static std::vector<Client> const all{
        {ClientId::Claude, "claude", "Claude Code", "claude", false, "mcpServers"},
        {ClientId::Cursor, "cursor", "Cursor", "", false, "mcpServers"},
        {ClientId::Codex, "codex", "Codex", "codex", true, "mcp_servers"},
        {ClientId::VsCode, "vscode", "VS Code", "code", false, "servers"},
    };
    return all;
}

Client const* findClient(std::string_view name)
{
    auto const found = std::ranges::find(clients(), name, &Client::name);
    return found == clients().end() ? nullptr : &*found;
}

Result<std::filesystem::path> configurationOf(Client const& client)
{
    auto const home = environmentPath("HOME");
    if (!home.is_absolute())
        return fail(Errc::NotFound, "HOME is not set, so it is not known where your MCP clients keep their "
                                    "configuration. Set it, or use --print and add the server yourself.");
    auto const named = [](char const* variable, std::filesystem::path const& otherwise) {
        auto const folder = environmentPath(variable);
        return folder.is_absolute() ? folder : otherwise;
    };
    switch (client.id) {
    case ClientId::Claude: return named("CLAUDE_CONFIG_DIR", home) / ".claude.json";
    case ClientId::Cursor: return home / ".cursor/mcp.json";
    case ClientId::Codex: return named("CODEX_HOME", home / ".codex") / "config.toml";
    case ClientId::VsCode: return named("XDG_CONFIG_HOME", home / ".config") / "Code/User/mcp.json";
    }
    return fail(Errc::Internal, "no such client");
}

std::vector<std::string> addCommand(Client const& client, ServerEntry const& entry)
{
    auto const variable = "TERMALIN_HOME=" + entry.termalinHome;
    std::vector<std::string> words{std::string(client.program)};
    auto const add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
    switch (client.id) {
    case ClientId::Claude:
        add({"mcp", "add", "--scope", "user", kServerName});
        if (!entry.termalinHome.empty())
            add({"--env", variable});
        add({"--", entry.command});
        break;
    case ClientId::Codex:
        add({"mcp", "add", kServerName});
        if (!entry.termalinHome.empty())
            add({"--env", variable});
        add({"--", entry.command});
        break;
    case ClientId::VsCode: {
        auto json = asJson(client, entry);
        json["name"] = kServerName;
        add({"--add-mcp", toLine(json)});
        break;
    }
    case ClientId::Cursor: return {};
    }
    return words;
}

Result<std::string> withServer(Client const& client, std::string_view text, ServerEntry const& entry)
{
    if (!client.toml)
        return withJsonServer(client, text, entry);
    std::vector<std::string> table{std::string(client.servers), kServerName};
    TRY_LET(auto result, setTomlString(text, table, "command", entry.command));
    auto arguments = table;
    arguments.emplace_back("args"); // those of a former command; with any, ours is no server
    TRY_LET(result, emptyTomlArray(result, arguments));
    if (!entry.termalinHome.empty()) {
        table.emplace_back("env");
        TRY_LET(result, setTomlString(result, table, "TERMALIN_HOME", entry.termalinHome));
    }
    return result;
}

Result<std::optional<std::string>> commandIn(Client const& client, std::string_view text)
{
    std::vector<std::string> const path{std::string(client.servers), kServerName, "command"};
    if (client.toml) {
        auto value = tomlString(text, path);
        if (!value && value.error().code == Errc::Unsupported)
            return std::unexpected(std::move(value).error());
        return value ? std::optional(*std::move(value)) : std::nullopt;
    }
    auto const value = jsonMember(text, path);
    if (!value && value.error().code == Errc::Unsupported)
        return std::unexpected(value.error());
    return value && value->is_string() ? std::optional(value->get<std::string>()) : std::nullopt;
}

} // namespace termalin::cli
