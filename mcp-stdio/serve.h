#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <stop_token>

#include "core/result.h"
#include "core/unique_fd.h"
#include "mcp-stdio/server.h"

namespace termalin::mcp {

/// How serve() came to its end.
enum class Ended : std::uint8_t {
    InputEnded,
    Stopped,    ///< The stop token.
    OutputLost, ///< Nobody can read the replies any more (EPIPE).
};

struct ServeOptions {
    ServerOptions server = {};
    /// After the end of input, for how long the calls in flight may go on and answer.
    std::chrono::milliseconds grace{0};
    /// How long after the end, the grace included, stopped calls may take before `abandon` is called, which
    /// does not return (a program that must end). Without it they are waited for.
    std::chrono::milliseconds patience{2400};
    std::function<void()> abandon = {};
    /// Gets the server before the first line is read, and null before it goes away.
    std::function<void(Server*)> serving = {};
    /// Told when the session ends, before anything is stopped.
    std::function<void()> ending = {};
};

/// While more than this waits to be taken by the client, nothing is read from it.
inline constexpr std::size_t kMaxWaitingBytes = 64U * 1024U * 1024U;

/// Serves one client until `in` ends, `stop` is requested or `out` breaks. Replies go to `out`, which may be
/// the same descriptor, and are written by a thread of their own. Both termalin-mcp and the app's control
/// socket come down to this one call. SIGPIPE must be ignored where `out` is a pipe.
Ended serve(int in, int out, std::span<Tool const> tools, Services& services, ServeOptions options,
            std::stop_token const& stop);

/// The protocol's own copies of stdin and stdout.
struct Stdio {
    UniqueFd in, out;
};

/// Takes stdin and stdout for the protocol: descriptor 1 then leads to stderr and 0 to /dev/null, so that no
/// stray print of a library breaks the stream and no child reads from it. To be called first in main().
/// Errors: InvalidArgument if one of them is closed; Internal without /dev/null.
Result<Stdio> claimStdio();

/// The program's main job: serves the agent that started it, with all tools, until its stdin ends, or
/// SIGTERM, SIGINT, SIGHUP or a broken stdout ends it. Returns the exit status, 0; the process ends by
/// itself, with 0, should it still be there 2.9 s after the end.
int serveStdio(Services& services, Stdio stdio);
/// The same with claimStdio(): 1 if that failed, which stderr says.
int serveStdio(Services& services);

} // namespace termalin::mcp
