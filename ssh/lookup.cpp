#include "ssh/lookup.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cctype>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <netdb.h>
#include <system_error>
#include <thread>

namespace termalin::ssh {
namespace {

struct Lookup {
    std::mutex mutex;
    std::condition_variable_any done;
    bool finished = false;
    int rc = 0;
    int number = 0;
    std::vector<Address> found;
};

int familyOf(AddressFamily family)
{
    return family == AddressFamily::Inet ? AF_INET : family == AddressFamily::Inet6 ? AF_INET6 : AF_UNSPEC;
}

/// getaddrinfo(3) has no deadline. A lookup that hangs keeps its thread, which owns all that it uses.
void begin(std::shared_ptr<Lookup> const& state, std::string const& hostname, std::uint16_t port, int family)
{
    std::thread([state, family, hostname, port = std::to_string(port)] {
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        hints.ai_family = family;
        addrinfo* list = nullptr;
        auto const rc = ::getaddrinfo(hostname.c_str(), port.c_str(), &hints, &list);
        auto const number = errno;
        std::lock_guard const lock(state->mutex);
        state->rc = rc;
        state->number = number;
        for (auto const* at = list; rc == 0 && at != nullptr; at = at->ai_next) {
            auto& address = state->found.emplace_back();
            address.family = at->ai_family;
            address.size = at->ai_addrlen;
            std::copy_n(reinterpret_cast<char const*>(at->ai_addr), at->ai_addrlen,
                        reinterpret_cast<char*>(&address.bytes));
        }
        if (list != nullptr)
            ::freeaddrinfo(list);
        state->finished = true;
        state->done.notify_all();
    }).detach();
}

} // namespace

std::string Address::text() const
{
    std::array<char, NI_MAXHOST> host{};
    if (::getnameinfo(reinterpret_cast<sockaddr const*>(&bytes), size, host.data(), host.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0)
        return "an address";
    return host.data();
}

bool isIpv6Address(std::string const& text)
{
    auto const zone = text.find('%');
    in6_addr out{};
    return ::inet_pton(AF_INET6, text.substr(0, zone).c_str(), &out) == 1 &&
           (zone == std::string::npos ||
            (zone + 1 < text.size() && std::ranges::all_of(text.substr(zone + 1), [](char c) {
                 return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
             })));
}

Result<std::vector<Address>> lookUp(std::string const& hostname, std::uint16_t port, AddressFamily family,
                                    Deadline deadline, std::stop_token const& stop)
{
    auto const state = std::make_shared<Lookup>();
    begin(state, hostname, port, familyOf(family));
    auto const attempted = "Looking up the name " + hostname;
    std::unique_lock lock(state->mutex);
    auto const until = std::min(deadline.at(), Deadline::Clock::now() + std::chrono::hours(24));
    if (!state->done.wait_until(lock, stop, until, [&] { return state->finished; })) {
        if (stop.stop_requested())
            return std::unexpected(Error{Errc::Cancelled, attempted + " was cancelled.", {}, true});
        return std::unexpected(
            Error{Errc::Timeout,
                  attempted + " took too long: check the address, and that no firewall drops the packets.",
                  {},
                  true});
    }
    if (state->rc != 0) {
        auto const why = state->rc == EAI_SYSTEM ? std::generic_category().message(state->number)
                                                 : std::string(::gai_strerror(state->rc));
        return fail(Errc::Unreachable, attempted + " failed: " + why + ". Check the host's address.",
                    "getaddrinfo " + std::to_string(state->rc));
    }
    return std::move(state->found);
}

} // namespace termalin::ssh
