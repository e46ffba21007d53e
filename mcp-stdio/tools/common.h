#pragma once

#include "mcp-stdio/schema.h"
#include "mcp-stdio/tool.h"

/// What several families of tools share.
namespace termalin::mcp {

inline constexpr Limits kNameLimits{1, 255};
inline constexpr Limits kPathLimits{1, 4096};
inline constexpr Limits kCommandLimits{1, 100'000};
inline constexpr Limits kTimeoutLimits{1, 3600}; // seconds

inline Arg<std::string> const kHostArg{
    .name = "host", .meaning = "Id or name from hosts_list", .limits = kNameLimits};
inline Arg<std::string> const kSessionArg{
    .name = "session", .meaning = "sessionId from session_open", .limits = kNameLimits};

/// The result of ssh_exec and session_exec.
[[nodiscard]] inline Json execOutput()
{
    using schema::flag, schema::integer, schema::object, schema::oneOf, schema::text;
    return object({{"output", text()},
                   {"exitCode?", integer()},
                   {"signal?", text()},
                   {"completion", oneOf({"exit", "timeout", "cancelled", "disconnected"})},
                   {"truncated", flag()},
                   {"outputBytes", integer()},
                   {"omittedBytes", integer()},
                   {"durationMs", integer()},
                   {"encoding", oneOf({"utf-8", "lossy"})},
                   {"stopped?", oneOf({"confirmed", "unconfirmed"})},
                   {"note?", text()}});
}

} // namespace termalin::mcp
