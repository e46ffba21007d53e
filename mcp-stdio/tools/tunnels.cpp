#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {
namespace {

Json tunnelOutput()
{
    using namespace schema;
    return object({{"tunnelId", text()},
                   {"sessionId", text()},
                   {"kind", oneOf({"local", "dynamic"})},
                   {"listenAddr", text()},
                   {"target?", text()}});
}

} // namespace

Tool tunnelOpen()
{
    static Arg<OneOf> const type{
        .name = "type", .meaning = "", .fallback = OneOf{"local"}, .words = {"local", "dynamic"}};
    static Arg<std::optional<std::string>> const remoteHost{
        .name = "remoteHost", .meaning = "As the server sees it; for local", .limits = kNameLimits};
    static Arg<std::optional<std::int64_t>> const remotePort{
        .name = "remotePort", .meaning = "For local", .limits = Limits{1, 65'535}};
    static Arg<std::int64_t> const localPort{
        .name = "localPort", .meaning = "0 picks a free one", .fallback = 0, .limits = Limits{0, 65'535}};
    return {
        .name = "tunnel_open",
        .title = "Open a port forward",
        .description =
            "Opens a port on this computer's loopback that leads through a session's server. local: to "
            "remoteHost:remotePort as the server sees it. dynamic: a SOCKS5 proxy. Only on servers with "
            "full policy. At most 64.",
        .effect = Effect::Additive,
        .needs = Needs::Nothing,
        .gate = Gate::FullAccessHost,
        .args = {sessionArg, type, remoteHost, remotePort, localPort},
        .outputSchema = tunnelOutput(),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "tunnel_open is not connected to its handler");
        },
    };
}

Tool tunnelClose()
{
    using namespace schema;
    static Arg<std::string> const tunnel{
        .name = "tunnel", .meaning = "tunnelId from tunnel_open", .limits = kNameLimits};
    return {
        .name = "tunnel_close",
        .title = "Close a port forward",
        .description = "Closes a tunnel of yours and its connections.",
        .effect = Effect::Additive,
        .needs = Needs::Nothing,
        .gate = Gate::Open,
        .args = {tunnel},
        .outputSchema = object({{"closed", flag()}}),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "tunnel_close is not connected to its handler");
        },
    };
}

Tool tunnelList()
{
    using namespace schema;
    return {
        .name = "tunnel_list",
        .title = "List port forwards",
        .description = "Lists the tunnels you have open, with connections made and bytes carried.",
        .effect = Effect::ReadOnly,
        .needs = Needs::Nothing,
        .gate = Gate::Open,
        .outputSchema = object({{"tunnels", list(extended(tunnelOutput(), {{"connections", integer()},
                                                                           {"bytesIn", integer()},
                                                                           {"bytesOut", integer()}}))}}),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "tunnel_list is not connected to its handler");
        },
    };
}

} // namespace termalin::mcp
