#include "ssh/detail_open.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/socket.h>

#include "core/guarded.h"
#include "core/output_buffer.h"
#include "ssh/detail_crypto.h"
#include "ssh/detail_dial.h"
#include "ssh/detail_proxy_command.h"
#include "ssh/detail_pump.h"

namespace termalin::ssh {
namespace {

/// A stream through a jump host: one end of a socket pair, whose other end the jump host's connection passes
/// on to the next server.
class Jump final : public Carrier {
public:
    static Result<std::unique_ptr<Jump>> through(std::shared_ptr<ConnectionImpl> outer, Target const& next)
    {
        std::array<int, 2> sockets{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
            return std::unexpected(systemError(Errc::Internal, "Making a socket pair", errno));
        auto jump = std::make_unique<Jump>();
        jump->m_stream = UniqueFd(sockets[0]);
        PumpEvents events;
        events.onEnded = [told = jump->m_told](std::optional<Error> const& why) {
            if (why)
                *told->access() = why->message;
        };
        outer->post(
            std::make_shared<Pump>(UniqueFd(sockets[1]), next.hostname, next.port, std::move(events)));
        jump->m_outer = std::move(outer);
        return jump;
    }

    [[nodiscard]] UniqueFd takeStream() { return std::move(m_stream); }
    [[nodiscard]] std::string problem() override
    {
        std::string told = *m_told->access();
        while (told.ends_with('.'))
            told.pop_back();
        if (told.empty() && !m_outer->alive()) {
            told = m_outer->whyClosed();
            while (told.ends_with('.'))
                told.pop_back();
        }
        return told;
    }

private:
    std::shared_ptr<Guarded<std::string>> m_told = std::make_shared<Guarded<std::string>>();
    UniqueFd m_stream;
    std::shared_ptr<ConnectionImpl> m_outer;
};

Result<void> checkRoute(Route const& route)
{
    if (route.hops.empty())
        return fail(Errc::InvalidArgument, "The route to the server is empty.");
    if (route.hops.size() > kMaxHops)
        return fail(Errc::InvalidArgument, "The route to " + route.destination().name + " has " +
                                               std::to_string(route.hops.size()) + " hops; at most " +
                                               std::to_string(kMaxHops) + " are allowed.");
    for (auto at = route.hops.begin(); at != route.hops.end(); ++at) {
        auto const again = std::find_if(route.hops.begin(), at, [&](Target const& earlier) {
            return earlier.hostname == at->hostname && earlier.port == at->port;
        });
        if (again != at)
            return fail(Errc::InvalidArgument, "The route to " + route.destination().name +
                                                   " goes in a circle: it passes " + peerName(*at) +
                                                   " twice. Mend its jump hosts.");
        if (at != route.hops.begin() && !at->proxyCommand.empty())
            return fail(Errc::InvalidArgument, peerName(*at) +
                                                   " has a ProxyCommand and a jump host; only one "
                                                   "of the two can lead to it.");
    }
    return {};
}

struct Line {
    std::unique_ptr<Carrier> carrier;
    std::unique_ptr<Session> session;
};

/// A session whose server has shown a trusted key, if `check`.
Result<Line> openLine(Target const& target, std::shared_ptr<ConnectionImpl> outer,
                      LoginContext const& context, Deadline deadline, std::stop_token const& stop)
{
    Line line;
    UniqueFd stream;
    if (outer) {
        TRY_LET(auto jump, Jump::through(std::move(outer), target));
        stream = jump->takeStream();
        line.carrier = std::move(jump);
    } else if (!target.proxyCommand.empty()) {
        TRY_LET(auto proxy, ProxyCommand::start(target));
        stream = proxy->takeStream();
        line.carrier = std::move(proxy);
    } else {
        TRY_LET(stream, dial(target, deadline, stop));
    }
    warmUpCrypto(); // meanwhile the server makes ready for us
    TRY_LET(line.session, Session::create(std::move(stream)));
    auto shaken =
        line.session->handshake(peerName(target), preferredKeyTypes(target, context), deadline, stop);
    if (!shaken) {
        auto error = std::move(shaken).error();
        auto const more = line.carrier && error.code == Errc::Unreachable ? line.carrier->problem() : "";
        if (!more.empty())
            error.message = "Could not reach " + peerName(target) + ": " + more + ".";
        error.nothingWasSent = true;
        return std::unexpected(std::move(error));
    }
    return line;
}

struct Deleter {
    /// The last owner may be a task or a callback on the connection's own thread, which cannot wait for
    /// itself.
    void operator()(ConnectionImpl* connection) const
    {
        if (connection->onItsThread())
            std::thread([connection] { delete connection; }).detach();
        else
            delete connection;
    }
};

Result<std::shared_ptr<ConnectionImpl>> openHop(Route const& route, std::size_t hop,
                                                std::shared_ptr<ConnectionImpl> const& outer,
                                                LoginContext const& context, Deadline deadline,
                                                std::stop_token const& stop)
{
    auto const& target = route.hops[hop];
    ConnectionImpl::Parts parts;
    parts.neededPersonOnTheWay = outer && outer->neededPerson();
    parts.context = context;
    parts.route.hops.assign(route.hops.begin(), route.hops.begin() + static_cast<std::ptrdiff_t>(hop) + 1);
    for (LoginAttempts attempts;;) {
        TRY_LET(auto line, openLine(target, outer, context, deadline, stop));
        parts.carrier = std::move(line.carrier);
        parts.session = std::move(line.session);
        TRY(checkHostKey(*parts.session, target, context));
        auto login = logIn(*parts.session, target, context, deadline, stop, attempts);
        if (login) {
            parts.login = *std::move(login);
            break;
        }
        // A server that hung up over too many refused keys is asked once more, with the rest of them.
        if (!attempts.worthAnother())
            return std::unexpected(std::move(login).error());
        parts.session.reset();
        parts.carrier.reset();
    }
    TRY_LET(parts.serverKey, parts.session->serverKey());
    auto const* const banner = libssh2_session_banner_get(parts.session->raw());
    parts.serverVersion = visible(banner == nullptr ? "" : banner);
    char* greeting = nullptr;
    std::size_t size = 0;
    if (libssh2_userauth_banner(parts.session->raw(), &greeting) == 0 && greeting != nullptr) {
        std::string_view text(greeting);
        while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
            text.remove_suffix(1);
        size = text.size();
        if (size > 0)
            parts.serverVersion += "\n" + visible(text);
    }
    if (context.onLoggedIn)
        context.onLoggedIn(target.name, parts.login.what);
    return std::shared_ptr<ConnectionImpl>(new ConnectionImpl(std::move(parts)), Deleter());
}

/// The connection to the last jump host; null if there is none.
Result<std::shared_ptr<ConnectionImpl>> openJumps(Route const& route, LoginContext const& context,
                                                  Deadline deadline, std::stop_token const& stop)
{
    std::shared_ptr<ConnectionImpl> outer;
    for (std::size_t hop = 0; hop + 1 < route.hops.size(); ++hop) {
        auto next = openHop(route, hop, outer, context, deadline, stop);
        if (!next) {
            auto error = std::move(next).error();
            error.message = "On the way to " + route.destination().name + ", jump host " +
                            route.hops[hop].name + ": " + error.message;
            return std::unexpected(std::move(error));
        }
        outer = *std::move(next);
    }
    return outer;
}

} // namespace

Result<std::shared_ptr<ConnectionImpl>> openRoute(Route const& route, LoginContext const& context,
                                                  Deadline deadline, std::stop_token const& stop)
{
    TRY(checkRoute(route));
    TRY_LET(auto outer, openJumps(route, context, deadline, stop));
    return openHop(route, route.hops.size() - 1, outer, context, deadline, stop);
}

Result<std::shared_ptr<Connection>> Connection::open(Route const& route, LoginContext const& context,
                                                     Deadline deadline, std::stop_token const& stop)
{
    return openRoute(route, context, deadline, stop);
}

Result<ServerKey> fetchServerKey(Route const& route, LoginContext const& context, Deadline deadline,
                                 std::stop_token const& stop)
{
    TRY(checkRoute(route));
    TRY_LET(auto outer, openJumps(route, context, deadline, stop));
    TRY_LET(auto const line, openLine(route.destination(), std::move(outer), context, deadline, stop));
    return line.session->serverKey();
}

} // namespace termalin::ssh
