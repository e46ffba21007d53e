#include <chrono>
#include <optional>
#include <string>

#include "mcp-stdio/agent_sessions.h"
#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {
namespace {

constexpr std::chrono::seconds kOpenTime{45}; // clients give up on a call after 60 s

Json describe(TunnelInfo const& tunnel)
{
    Json entry{{"tunnelId", tunnel.id},
               {"sessionId", tunnel.sessionId},
               {"kind", tunnel.kind == ssh::TunnelKind::Local ? "local" : "dynamic"},
               {"listenAddr", "127.0.0.1:" + std::to_string(tunnel.localPort)}};
    if (!tunnel.target.empty())
        entry["target"] = tunnel.target;
    return entry;
}

Result<Json> openTunnel(std::string const& sessionId, OneOf const& type,
                        std::optional<std::string> const& remoteHost,
                        std::optional<std::int64_t> const& remotePort, std::int64_t localPort,
                        Call const& call)
{
    auto const local = type == "local";
    if (local && (!remoteHost || !remotePort))
        return fail(Errc::InvalidArgument,
                    "A tunnel of type local needs both remoteHost (a name or address as the "
                    "server sees it) and remotePort (1 to 65535).");
    if (!local && (remoteHost || remotePort))
        return fail(Errc::InvalidArgument,
                    "remoteHost and remotePort are for type local; a dynamic tunnel takes "
                    "its targets from whoever connects. Leave them out.");
    TRY_LET(auto const opened, call.services.sessions->openTunnel(
                                   sessionId,
                                   {.kind = local ? ssh::TunnelKind::Local : ssh::TunnelKind::Dynamic,
                                    .remoteHost = remoteHost.value_or(""),
                                    .remotePort = static_cast<std::uint16_t>(remotePort.value_or(0)),
                                    .localPort = static_cast<std::uint16_t>(localPort)},
                                   Deadline::in(kOpenTime), call.stop));
    return describe(opened);
}

Result<Json> listTunnels(Call const& call)
{
    auto list = Json::array();
    for (auto const& tunnel : call.services.sessions->tunnels()) {
        auto entry = describe(tunnel);
        entry["connections"] = tunnel.counts.connections;
        entry["bytesIn"] = tunnel.counts.bytesIn;
        entry["bytesOut"] = tunnel.counts.bytesOut;
        list.push_back(std::move(entry));
    }
    return Json{{"tunnels", std::move(list)}};
}

Json tunnelOutput()
{
    using schema::object, schema::oneOf, schema::text;
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
        .args = {kSessionArg, type, remoteHost, remotePort, localPort},
        .outputSchema = tunnelOutput(),
        .run = [](Args const& args, Call const& call) -> Result<Json> {
            return openTunnel(args[kSessionArg], args[type], args[remoteHost], args[remotePort],
                              args[localPort], call);
        },
    };
}

Tool tunnelClose()
{
    using schema::flag, schema::object;
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
        .run = [](Args const& args, Call const& call) -> Result<Json> {
            TRY(call.services.sessions->closeTunnel(args[tunnel]));
            return Json{{"closed", true}};
        },
    };
}

Tool tunnelList()
{
    using schema::extended, schema::integer, schema::list, schema::object;
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
        .run = [](Args const&, Call const& call) { return listTunnels(call); },
    };
}

} // namespace termalin::mcp
