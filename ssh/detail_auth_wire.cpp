#include "ssh/detail_auth_wire.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/output_buffer.h"
#include "ssh/wire.h"

#ifndef LIBSSH2_TERMALIN_USERAUTH
#error "Logging in needs the libssh2 that packaging/libssh2/build.sh makes: this one lacks the patches"
#endif

namespace termalin::ssh::detail {
namespace {

/// libssh2 hands a callback the session's owner, which is not us; a login runs on one thread.
thread_local AuthWire* loggingIn = nullptr;

std::vector<std::string> split(std::string_view list)
{
    std::vector<std::string> names;
    while (!list.empty()) {
        auto const name = list.substr(0, list.find(','));
        list.remove_prefix(std::min(name.size() + 1, list.size()));
        if (!name.empty())
            names.emplace_back(name);
    }
    return names;
}

} // namespace

AuthWire::AuthWire(Session& session, Target const& target, Deadline deadline, std::stop_token stop)
    : m_session(session)
    , m_target(target)
    , m_deadline(deadline)
    , m_stop(std::move(stop))
    , m_attempted("Logging in to " + visible(target.name) + " as " + visible(target.user))
{
    loggingIn = this;
    libssh2_session_callback_set2(session.raw(), LIBSSH2_CALLBACK_DISCONNECT,
                                  reinterpret_cast<libssh2_cb_generic*>(&AuthWire::disconnected));
}

AuthWire::~AuthWire()
{
    libssh2_session_callback_set2(m_session.raw(), LIBSSH2_CALLBACK_DISCONNECT, nullptr);
    loggingIn = nullptr;
}

void AuthWire::disconnected(LIBSSH2_SESSION*, int, char const* message, int size, char const*, int, void**)
{
    if (loggingIn != nullptr && message != nullptr && size > 0)
        loggingIn->m_goodbye =
            visible(std::string_view(message, static_cast<std::size_t>(size)).substr(0, 200));
}

Result<bool> AuthWire::begin()
{
    char const* list = nullptr;
    TRY(m_session.run(m_attempted, Errc::Unreachable, m_deadline, m_stop, [&] {
        list = libssh2_userauth_list(m_session.raw(), m_target.user.c_str(),
                                     static_cast<unsigned>(m_target.user.size()));
        if (list != nullptr || libssh2_userauth_authenticated(m_session.raw()) == 1)
            return 0;
        return libssh2_session_last_errno(m_session.raw());
    }));
    if (list == nullptr)
        return false;
    m_methods = split(list);
    return true;
}

std::string AuthWire::request(std::string_view method) const
{
    return WireWriter()
        .byte(kAuthRequest)
        .string(m_target.user)
        .string("ssh-connection")
        .string(method)
        .bytes();
}

Result<std::string> AuthWire::exchange(std::string_view packet)
{
    static constexpr std::array<unsigned char, 4> kAnswers{kAuthFailure, kAuthSuccess, kAuthMethodSpecific,
                                                           0};
    TRY(m_session.run(m_attempted, Errc::Unreachable, m_deadline, m_stop, [&] {
        return termalin_libssh2_userauth_send(
            m_session.raw(), reinterpret_cast<unsigned char const*>(packet.data()), packet.size());
    }));
    unsigned char* data = nullptr;
    std::size_t size = 0;
    TRY(m_session.run(m_attempted, Errc::Unreachable, m_deadline, m_stop, [&] {
        return termalin_libssh2_userauth_receive(m_session.raw(), kAnswers.data(), &data, &size);
    }));
    std::string answer(reinterpret_cast<char const*>(data), size);
    libssh2_free(m_session.raw(), data);
    if (answer.empty())
        return fail(Errc::Unreachable, m_attempted + ": the server sent an empty answer.");
    return answer;
}

bool AuthWire::noteFailure(std::string_view packet)
{
    WireReader in(packet);
    in.byte();
    auto const list = in.string();
    auto const partial = in.byte();
    if (in.failed())
        return false;
    m_methods = split(*list);
    return *partial != 0;
}

bool AuthWire::takes(std::string_view method) const
{
    return std::ranges::find(m_methods, method) != m_methods.end();
}

std::string AuthWire::sessionId() const
{
    std::size_t size = 0;
    auto const* const id = termalin_libssh2_session_id(m_session.raw(), &size);
    return {reinterpret_cast<char const*>(id), id == nullptr ? 0 : size};
}

Result<void> AuthWire::hearServer()
{
#ifdef LIBSSH2_TERMALIN_SERVICE
    if (!std::exchange(m_heard, true))
        return m_session.run(m_attempted, Errc::Unreachable, m_deadline, m_stop, [&] {
            return libssh2_session_handshake(m_session.raw(), m_session.descriptor());
        });
#endif
    return {};
}

std::vector<std::string> AuthWire::serverSignatures() const
{
    auto const* const list = termalin_libssh2_server_sig_algs(m_session.raw());
    return split(list == nullptr ? "" : list);
}

} // namespace termalin::ssh::detail
