#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/result.h"

namespace termalin::cli {

/// The name under which an MCP client knows us.
inline constexpr char const* kServerName = "termalin";

enum class ClientId : std::uint8_t { Claude, Cursor, Codex, VsCode };

/// What a client starts: our program, and TERMALIN_HOME where this command line has it.
struct ServerEntry {
    std::string command;
    std::string termalinHome; ///< Empty: not set.
};

/// One MCP client: where it keeps its configuration, and its own command line.
struct Client {
    ClientId id;
    std::string_view name;    ///< as on our command line: "vscode"
    std::string_view label;   ///< as shown to people: "VS Code"
    std::string_view program; ///< its command line; empty: none that can add a server
    bool toml = false;
    std::string_view servers; ///< the member of the configuration that holds the servers
};

[[nodiscard]] std::vector<Client> const& clients();
[[nodiscard]] Client const* findClient(std::string_view name);

/// The client's configuration for this user: HOME, XDG_CONFIG_HOME, CLAUDE_CONFIG_DIR and CODEX_HOME count as
/// they do for the client. Errors: NotFound without a home folder.
Result<std::filesystem::path> configurationOf(Client const& client);

/// The client's own command that adds the server.
[[nodiscard]] std::vector<std::string> addCommand(Client const& client, ServerEntry const& entry);

/// The configuration `text` with the server in it, all else byte for byte the same. The same text: it was
/// there already. Errors: Unsupported, as setJsonMember and setTomlString.
Result<std::string> withServer(Client const& client, std::string_view text, ServerEntry const& entry);

/// The command that the configuration `text` starts for us; empty if we are not in it.
/// Errors: Unsupported for a text that is broken.
Result<std::optional<std::string>> commandIn(Client const& client, std::string_view text);

} // namespace termalin::cli
