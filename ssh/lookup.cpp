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
#include <optional>
#include <system_error>
#include <thread>

namespace termalin::ssh {
namespace {

int familyOf(AddressFamily family)
{
    return family == AddressFamily::Inet ? AF_INET : family == AddressFamily::Inet6 ? AF_INET6 : AF_UNSPEC;
}

struct Answer {
    int rc = 0;     ///< of getaddrinfo(3)
    int number = 0; ///< errno, for EAI_SYSTEM
    std::vector<Address> found;
};

struct Lookup {
    std::mutex mutex;
    std::condition_variable_any done;
    std::optional<Answer> answer;
};

/// `flags`: of getaddrinfo(3). Blocks for as long as that does, unless they say AI_NUMERICHOST.
Answer ask(std::string const& hostname, std::uint16_t port, AddressFamily family, int flags)
{
    addrinfo hints{};
    hints.ai_flags = flags;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_family = familyOf(family);
    addrinfo* list = nullptr;
    Answer answer;
    answer.rc = ::getaddrinfo(hostname.c_str(), std::to_string(port).c_str(), &hints, &list);
    answer.number = errno;
    for (auto const* at = list; answer.rc == 0 && at != nullptr; at = at->ai_next) {
        auto& address = answer.found.emplace_back();
        address.family = at->ai_family;
        address.size = at->ai_addrlen;
        std::copy_n(reinterpret_cast<char const*>(at->ai_addr), at->ai_addrlen,
                    reinterpret_cast<char*>(&address.bytes));
    }
    if (list != nullptr)
        ::freeaddrinfo(list);
    return answer;
}

/// getaddrinfo(3) has no deadline. A lookup that hangs keeps its thread, which owns all that it uses.
void begin(std::shared_ptr<Lookup> const& state, std::string const& hostname, std::uint16_t port,
           AddressFamily family)
{
    std::thread([state, family, hostname, port] {
        auto answer = ask(hostname, port, family, 0);
        std::lock_guard const lock(state->mutex);
        state->answer = std::move(answer);
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
    auto const attempted = "Looking up the name " + hostname;
    if (auto numeric = ask(hostname, port, family, AI_NUMERICHOST); numeric.rc == 0)
        return std::move(numeric.found); // asks nobody, so it needs no thread
    auto const state = std::make_shared<Lookup>();
    begin(state, hostname, port, family);
    std::unique_lock lock(state->mutex);
    auto const until = std::min(deadline.at(), Deadline::Clock::now() + std::chrono::hours(24));
    if (!state->done.wait_until(lock, stop, until, [&] { return state->answer.has_value(); })) {
        if (stop.stop_requested())
            return std::unexpected(Error{Errc::Cancelled, attempted + " was cancelled.", {}, true});
        return std::unexpected(
            Error{Errc::Timeout,
                  attempted + " took too long: check the address, and that no firewall drops the packets.",
                  {},
                  true});
    }
    auto& [rc, number, found] = *state->answer;
    if (rc != 0) {
        auto const why =
            rc == EAI_SYSTEM ? std::generic_category().message(number) : std::string(::gai_strerror(rc));
        return fail(Errc::Unreachable, attempted + " failed: " + why + ". Check the host's address.",
                    "getaddrinfo " + std::to_string(rc));
    }
    return std::move(found);
}

} // namespace termalin::ssh
