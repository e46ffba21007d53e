#include "ssh/detail_dial.h"

#include <algorithm>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <vector>

#include "ssh/lookup.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;

constexpr auto kNextAddressAfter = 250ms; // RFC 8305, 8: "Connection Attempt Delay"

Error outOfTime(std::string const& attempted, std::stop_token const& stop)
{
    if (stop.stop_requested())
        return {Errc::Cancelled, attempted + " was cancelled.", {}, true};
    return {Errc::Timeout,
            attempted + " took too long: check the address, and that no firewall drops the packets.",
            {},
            true};
}

/// IPv6 first, then in turn, each family in the resolver's order (RFC 8305, 4).
std::vector<Address> interleave(std::vector<Address> const& found)
{
    std::vector<Address> six;
    std::vector<Address> four;
    for (auto const& address : found)
        (address.family == AF_INET6 ? six : four).push_back(address);
    std::vector<Address> order;
    for (std::size_t i = 0; i < std::max(six.size(), four.size()); ++i) {
        if (i < six.size())
            order.push_back(six[i]);
        if (i < four.size())
            order.push_back(four[i]);
    }
    return order;
}

class Race {
public:
    explicit Race(std::vector<Address> addresses) : m_addresses(std::move(addresses)) {}

    Result<UniqueFd> run(Target const& target, Deadline deadline, std::stop_token const& stop)
    {
        auto nextAt = Deadline::in(0ms);
        for (;;) {
            if (m_next < m_addresses.size() && (m_running.empty() || nextAt.passed())) {
                if (auto connected = begin(m_addresses[m_next++]))
                    return *std::move(connected);
                nextAt = Deadline::in(kNextAddressAfter);
                continue;
            }
            if (m_running.empty())
                return fail(Errc::Unreachable,
                            "Could not connect to " + peerName(target) + ": " + m_failures +
                                ". Check the address and port, and that the server runs.",
                            "errno " + std::to_string(m_lastNumber));
            if (stop.stop_requested() || deadline.passed())
                return std::unexpected(outOfTime("Connecting to " + peerName(target), stop));
            std::vector<pollfd> fds;
            for (auto const& each : m_running)
                fds.push_back({each.fd.get(), POLLOUT, 0});
            auto const until = m_next < m_addresses.size() ? Deadline::earlier(deadline, nextAt) : deadline;
            ::poll(fds.data(), fds.size(), std::min(until.pollTimeout(), 50)); // short, for the stop token
            if (auto connected = collect(fds))
                return *std::move(connected);
            if (m_running.size() < fds.size())
                nextAt = Deadline::in(0ms);
        }
    }

private:
    struct Running {
        UniqueFd fd;
        std::string address;
    };

    std::optional<UniqueFd> begin(Address const& address)
    {
        UniqueFd fd(::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (!fd ||
            (::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address.bytes), address.size) != 0 &&
             errno != EINPROGRESS)) {
            failed(address.text(), errno);
            return std::nullopt;
        }
        m_running.push_back({std::move(fd), address.text()});
        return std::nullopt;
    }

    std::optional<UniqueFd> collect(std::vector<pollfd> const& fds)
    {
        for (std::size_t i = fds.size(); i-- > 0;) {
            if (fds[i].revents == 0)
                continue;
            int number = 0;
            socklen_t size = sizeof number;
            ::getsockopt(fds[i].fd, SOL_SOCKET, SO_ERROR, &number, &size);
            if (number == 0)
                return std::move(m_running[i].fd);
            failed(m_running[i].address, number);
            m_running.erase(m_running.begin() + static_cast<std::ptrdiff_t>(i));
        }
        return std::nullopt;
    }

    void failed(std::string const& address, int number)
    {
        m_lastNumber = number;
        m_failures +=
            (m_failures.empty() ? "" : "; ") + address + ": " + std::generic_category().message(number);
    }

    std::vector<Address> m_addresses;
    std::size_t m_next = 0;
    std::vector<Running> m_running;
    std::string m_failures;
    int m_lastNumber = 0;
};

} // namespace

std::string peerName(Target const& target)
{
    auto const place = target.proxyCommand.empty() ? target.hostname + " port " + std::to_string(target.port)
                                                   : target.hostname + " through its ProxyCommand";
    return target.name.empty() ? place : target.name + " (" + place + ")";
}

Result<UniqueFd> dial(Target const& target, Deadline deadline, std::stop_token const& stop)
{
    if (target.connectTimeout > 0s)
        deadline = Deadline::earlier(deadline, Deadline::in(target.connectTimeout));
    TRY_LET(auto const found, lookUp(target.hostname, target.port, target.family, deadline, stop));
    return Race(interleave(found)).run(target, deadline, stop);
}

} // namespace termalin::ssh
