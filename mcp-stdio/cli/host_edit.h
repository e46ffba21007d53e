#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/hosts.h"
#include "core/result.h"
#include "mcp-stdio/cli/context.h"

namespace termalin::cli {

/// What `host add` and `host set` were given. An option that was not given is empty and changes nothing; of a
/// list that was given, empty values are left out, so that a single empty one clears it.
struct HostOptions {
    std::string name;
    std::optional<std::string> address; ///< USER@ADDRESS[:PORT]
    std::optional<std::string> newName;
    std::optional<std::vector<std::string>> keys, certificates, jumps, rules, reads, tags;
    std::optional<std::string> policy, agent, knownHosts, proxyCommand, note, hostKeyAlias, identitiesOnly;
    bool askPassword = false;
    bool askPassphrase = false;
    int secretFd = -1; ///< -1: ask on the terminal
    bool yes = false;
};

/// Puts the options into `host`; file names become absolute ones. Nothing is looked up but `home` and the
/// current folder. Errors: InvalidArgument names the option and what it takes.
Result<void> applyOptions(HostOptions const& options, std::filesystem::path const& home, Host& host);

/// What agents can do after the change and could not before, one sentence each; empty if it gives them
/// nothing. Pass a default-constructed Host as `before` for a new one.
[[nodiscard]] std::vector<std::string> widenings(Host const& before, Host const& after);

/// What is to be known before agents are let in: a server that is this computer, another entry for the same
/// server with another policy, what the rules admit beyond what they seem to say. `all`: every saved host.
[[nodiscard]] std::vector<std::string> cautions(Host const& host, std::vector<Host> const& all);
/// The linter's part of cautions().
[[nodiscard]] std::vector<std::string> ruleWarnings(Host const& host);

/// The fields of a host that a widening may have changed, for taking it back.
[[nodiscard]] Json widenableFields(Host const& host);

/// ADDRESS:PORT as a person writes it, an IPv6 address in brackets.
[[nodiscard]] std::string addressOf(Host const& host);

} // namespace termalin::cli
