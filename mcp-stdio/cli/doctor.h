#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mcp-stdio/cli/login.h"

namespace termalin::cli {

/// What keeps agents from working, each found by a check of its own.
enum class Fault : std::uint8_t {
    AgentDead,
    KeyFileMode,
    VaultLocked,
    KeyUnknown,
    KeyChanged,
    NoSftp,
    MaxSessions,
    ShellNotPosix,
    StaleSocket,
    ClientConfiguration,
    Other, ///< What else stopped a check, such as a server that is not reached.
};
[[nodiscard]] std::string_view toString(Fault fault) noexcept; ///< "agent-dead", ...

/// One fault that was found.
struct Finding {
    Fault fault{};
    std::string where; ///< The host's name, or the file.
    std::string what;  ///< What is wrong, in plain words.
    std::string todo;  ///< What to do about it.
};
using Findings = std::vector<Finding>;

/// Whether an ssh-agent answers on `socket` within 3 s.
[[nodiscard]] Findings checkAgent(std::string const& where, ssh::Target const& target, AuthType expected);
/// Whether the key files are there, belong to this user and are closed to others, as ssh asks of them.
[[nodiscard]] Findings checkKeyFiles(std::string const& where, ssh::Target const& target);
/// Whether the vault opens without a person, where this host needs a secret from it.
[[nodiscard]] Findings checkVault(Host const& host, Vault& vault);
/// Whether something listens behind the socket, if there is one.
[[nodiscard]] Findings checkSocket(std::filesystem::path const& socket, std::string_view of);
/// Whether the MCP clients' configurations can be read and start a program that is there.
[[nodiscard]] Findings checkClients();
/// Logs in and tries what agents use: two channels at once, the login shell, SFTP.
[[nodiscard]] Findings checkServer(SavedLogin const& login);

} // namespace termalin::cli
