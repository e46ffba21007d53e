#include "mcp-stdio/app_requests.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "core/store.h"
#include "mcp-stdio/authorize.h"
#include "mcp-stdio/signing.h"
#include "ssh/route.h"
#include "ssh/wire.h"

namespace termalin::mcp {
namespace {

constexpr std::array<std::pair<std::string_view, Activity::Kind>, 3> kKinds{
    {{"session", Activity::Kind::Session},
     {"tunnel", Activity::Kind::Tunnel},
     {"call", Activity::Kind::Call}}};

std::string textOf(Json const& object, std::string_view field)
{
    auto const it = object.find(field);
    return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

/// A field that holds bytes as base64.
Result<std::string> bytesOf(Json const& object, std::string_view field)
{
    auto bytes = ssh::fromBase64(textOf(object, field));
    if (!bytes || bytes->empty())
        return fail(Errc::InvalidArgument, fmt::format("{} must be bytes in base64.", field));
    return *std::move(bytes);
}

/// The host that a login is to be signed for. A jump host's own policy is not asked, since agents only pass
/// through it: what counts is that agents may reach the host at the end, and that its way leads through here.
Result<Host> hostToSignFor(Services& services, std::string const& hostId, std::string const& leadsTo)
{
    TRY_LET(auto end, findOpenHost(*services.store, services.paths, leadsTo.empty() ? hostId : leadsTo));
    if (hostId == end.id || leadsTo.empty())
        return end;
    TRY_LET(auto const route, ssh::resolveRoute(end, *services.store, services.paths));
    if (std::ranges::find(route.hostIds, hostId) == route.hostIds.end())
        return fail(Errc::NotFound,
                    fmt::format("The way to {} does not lead through the host that a login was to be signed "
                                "for, so Termalin signed nothing. Look at the jump hosts of {}.",
                                end.name, end.name));
    return services.store->findHost(hostId);
}

} // namespace

std::string_view toString(Activity::Kind kind) noexcept
{
    return std::ranges::find(kKinds, kind, &decltype(kKinds)::value_type::second)->first;
}

std::optional<Activity::Kind> parseActivityKind(std::string_view text) noexcept
{
    auto const* const it = std::ranges::find(kKinds, text, &decltype(kKinds)::value_type::first);
    return it == kKinds.end() ? std::nullopt : std::optional(it->second);
}

Json toJson(Activity const& activity)
{
    return {{"kind", toString(activity.kind)}, {"id", activity.id},         {"tool", activity.tool},
            {"host", activity.host},           {"hostId", activity.hostId}, {"detail", activity.detail},
            {"since", activity.since}};
}

AppRequests::AppRequests(Services& services, AppDesk& desk, std::uint64_t client)
    : m_services(services), m_desk(desk), m_client(client)
{
}

AppRequests::~AppRequests()
{
    m_desk.left(m_client);
}

std::vector<std::string> AppRequests::methods()
{
    return {std::string(kKeysMethod), std::string(kSignMethod)};
}

Result<Json> AppRequests::request(std::string const& method, Json const& params, Call const& call)
{
    TRY_LET(auto const host, hostToSignFor(m_services, textOf(params, "hostId"), textOf(params, "leadsTo")));
    TRY_LET(auto const keys, m_desk.keys(host));
    if (method == kKeysMethod) {
        Json list = Json::array();
        for (auto const& key : keys)
            list.push_back({{"publicKey", ssh::base64(key.publicKey)}, {"name", key.name}});
        return Json{{"keys", std::move(list)}};
    }
    TRY_LET(auto const publicKey, bytesOf(params, "publicKey"));
    TRY_LET(auto const data, bytesOf(params, "data"));
    auto const algorithm = textOf(params, "algorithm");
    if (std::ranges::find(keys, publicKey, &AppDesk::Key::publicKey) == keys.end())
        return fail(Errc::NotFound, fmt::format("Termalin holds no such key for {}.", host.name));
    TRY(checkSigning(host, publicKey, algorithm, data));
    TRY_LET(auto const signature, m_desk.sign(host, publicKey, algorithm, data, call.stop));
    return Json{{"signature", ssh::base64(signature)}};
}

void AppRequests::notified(std::string const& method, Json const& params)
{
    auto const began = method == kBeganMethod;
    auto const& activity = began && params.contains("activity") ? params["activity"] : params;
    if ((!began && method != kEndedMethod) || !activity.is_object())
        return;
    auto const kind = parseActivityKind(textOf(activity, "kind"));
    auto const id = textOf(activity, "id");
    if (!kind || id.empty())
        return;
    if (!began)
        return m_desk.ended(m_client, *kind, id);
    auto const agent = params.value("client", Json::object());
    m_desk.began(m_client,
                 ClientInfo{textOf(agent, "name"), textOf(agent, "version"), textOf(agent, "program")},
                 Activity{*kind, id, textOf(activity, "tool"), textOf(activity, "host"),
                          textOf(activity, "hostId"), textOf(activity, "detail"), textOf(activity, "since")});
}

} // namespace termalin::mcp
