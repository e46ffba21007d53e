#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/result.h"

namespace termalin {

enum class AgentsMayRun : std::uint8_t { No, Ask, Yes };

/// settings.json, as this program reads it. What cannot be read, or has an unknown value, means "off" for
/// everything that widens, and agents stopped for an unreadable `agents.stopped`.
struct Settings {
    bool agentsInTerminal = false;                ///< "agents.inTerminal"
    AgentsMayRun agentsMayRun = AgentsMayRun::No; ///< "agents.mayRun": "no", "ask", "yes"
    bool agentsStopped = false;                   ///< "agents.stopped"
    std::size_t outputCap = 64U * 1024U;          ///< "agents.outputCap": bytes, 4 KiB to 1 MiB

    /// A missing file is all defaults. Never fails: an unreadable or damaged one is the strictest reading,
    /// and `problem` says so.
    static Settings load(std::filesystem::path const& file);
    std::string problem; ///< Empty, or one sentence on what in the file could not be used.
};

/// Sets one key (dotted name, JSON value) in the file and leaves every other key as it is. Atomic; two
/// processes take turns by a lock file. Errors: InvalidArgument for an unknown key, a wrong value or a
/// damaged file (which is not overwritten); PermissionDenied, NoSpace.
Result<void> changeSetting(std::filesystem::path const& file, std::string_view key,
                           std::string_view jsonValue);

/// As changeSetting() of "agents.stopped" to true, also where another process does not give the lock back,
/// and on a full disk: there the file is written in place, which may leave it damaged; that stops agents, and
/// Settings::load() says so in `problem`. Errors: as changeSetting().
Result<void> stopAgents(std::filesystem::path const& file);

} // namespace termalin
