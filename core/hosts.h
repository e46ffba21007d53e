#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace termalin {

/// What agents may do on a host. Zero is the strictest.
enum class AgentPolicy : std::uint8_t {
    Blocked,   ///< Not listed, not reached.
    Allowlist, ///< Only commands that a rule admits and files that a readable path admits.
    Full,
};

/// How a login is expected to go; what hosts_list shows.
enum class AuthType : std::uint8_t { Agent, Key, Certificate, Password, Interactive };

/// The kind of address to reach a host by. ssh_config(5) AddressFamily.
enum class AddressFamily : std::uint8_t { Any, Inet, Inet6 };

[[nodiscard]] std::string_view toString(AgentPolicy policy) noexcept;   ///< "blocked", "allowlist", "full"
[[nodiscard]] std::string_view toString(AuthType type) noexcept;        ///< "agent", "key", ...
[[nodiscard]] std::string_view toString(AddressFamily family) noexcept; ///< "any", "inet", "inet6"
[[nodiscard]] std::optional<AgentPolicy> parseAgentPolicy(std::string_view text) noexcept;
[[nodiscard]] std::optional<AuthType> parseAuthType(std::string_view text) noexcept;
[[nodiscard]] std::optional<AddressFamily> parseAddressFamily(std::string_view text) noexcept;

/// The id of this computer's own shell, which is a host too and blocked until the person says otherwise. It
/// is in every store, is never listed for agents and cannot be removed.
inline constexpr std::string_view kLocalHostId = "local";

/// A saved host, without its secrets (those are in the Vault under its id).
struct Host {
    std::string id;   ///< Chosen by the store, random, never used again.
    std::string name; ///< Unique; 1 to 255 bytes without control characters; does not look like an id.
    std::string hostname;
    std::uint16_t port = 22;
    std::string username;
    AuthType authType = AuthType::Agent;
    AgentPolicy policy = AgentPolicy::Blocked;
    std::vector<std::string> tags;
    std::string notes; ///< Written by the person for agents; shown to them.

    std::vector<std::string> keyFiles;
    std::vector<std::string> certificateFiles;
    bool identitiesOnly = false;
    std::string
        agentSocket; ///< An ssh-agent's socket; empty: SSH_AUTH_SOCK where it may be used; "none": no agent.
    std::vector<std::string>
        knownHostsFiles; ///< In place of the person's usual ones; empty: those; "none" alone: no file.
    std::string hostKeyAlias;
    std::vector<std::string> jump; ///< Names of saved hosts, in the order in which they are passed through.
    std::string proxyCommand;

    // As in ssh_config(5); empty: what a Target has of itself.
    AddressFamily addressFamily = AddressFamily::Any;
    std::optional<int> connectTimeout;      ///< Seconds; 0: only the call's own deadline.
    std::optional<int> serverAliveInterval; ///< Seconds; 0: no probes.
    std::optional<int> serverAliveCountMax;

    std::vector<std::string> rules; ///< Allowlist: commands, in the syntax of core/command_policy.h.
    std::vector<std::string> reads; ///< Allowlist: readable paths, in the syntax of core/path_policy.h.

    /// Grows with every change to this host or to a host that its jumps pass through. Everything that was
    /// opened for an agent belongs to the revision that it was opened under.
    std::int64_t revision = 0;
    /// Grows only when the way to the server changes: address and its family, port, user, jumps, proxy. What
    /// was opened under an older route is another server's and must be closed.
    std::int64_t routeRevision = 0;
};

/// Whether both are reached the same way; what Host::routeRevision counts the changes of.
[[nodiscard]] bool sameRoute(Host const& a, Host const& b);

/// What a list shows of a host, where it lies: ten thousand of them are looked at in turn, not kept. Valid as
/// long as the call that gives it.
struct HostView {
    std::string_view id, name, hostname;
    std::uint16_t port = 22;
    std::string_view username;
    AuthType authType = AuthType::Agent;
    AgentPolicy policy = AgentPolicy::Blocked;
    std::span<std::string_view const> tags;
    std::string_view notes;
};

} // namespace termalin
