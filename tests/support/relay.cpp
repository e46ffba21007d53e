#include "tests/support/relay.h"

#include <arpa/inet.h>
#include <list>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <vector>

namespace termalin::test {
namespace {

struct Pair {
    UniqueFd near, far;
};

bool pass(int from, int to)
{
    static thread_local std::vector<char> buffer(1U << 20U);
    auto const got = ::recv(from, buffer.data(), buffer.size(), 0);
    if (got <= 0)
        return false;
    for (ssize_t put = 0; put < got;) {
        auto const sent = ::send(to, buffer.data() + put, static_cast<std::size_t>(got - put), MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        put += sent;
    }
    return true;
}

sockaddr_in loopback(std::uint16_t port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    address.sin_port = ::htons(port);
    return address;
}

} // namespace

UniqueFd listenOnLoopback(std::uint16_t& port, int family)
{
    UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto four = loopback(0);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_loopback;
    auto* const address =
        family == AF_INET6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
    socklen_t size = family == AF_INET6 ? sizeof six : sizeof four;
    if (::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), 64) != 0 ||
        ::getsockname(fd.get(), address, &size) != 0)
        throw std::runtime_error("cannot listen on loopback");
    port = ::ntohs(family == AF_INET6 ? six.sin6_port : four.sin_port);
    return fd;
}

Relay::Relay(std::uint16_t to, int family) : m_to(to), m_listener(listenOnLoopback(m_port, family))
{
    m_thread = std::jthread([this](std::stop_token const& stop) { serve(stop); });
}

Relay::~Relay() = default;

void Relay::serve(std::stop_token const& stop)
{
    std::list<Pair> pairs;
    while (!stop.stop_requested()) {
        std::vector<pollfd> fds{{m_listener.get(), POLLIN, 0}};
        if (!m_silent)
            for (auto const& pair : pairs) {
                fds.push_back({pair.near.get(), POLLIN, 0});
                fds.push_back({pair.far.get(), POLLIN, 0});
            }
        if (::poll(fds.data(), fds.size(), 20) <= 0)
            continue;
        std::this_thread::sleep_for(m_each.load());
        std::size_t at = 1;
        for (auto pair = pairs.begin(); pair != pairs.end() && at < fds.size(); at += 2) {
            auto const alive = (fds[at].revents == 0 || pass(pair->near.get(), pair->far.get())) &&
                               (fds[at + 1].revents == 0 || pass(pair->far.get(), pair->near.get()));
            pair = alive ? std::next(pair) : pairs.erase(pair);
        }
        if (fds[0].revents == 0)
            continue;
        Pair pair{UniqueFd(::accept4(m_listener.get(), nullptr, nullptr, SOCK_CLOEXEC)),
                  UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
        auto const address = loopback(m_to);
        if (m_to == kNowhere)
            pair.far.reset();
        else if (::connect(pair.far.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
            continue;
        pairs.push_back(std::move(pair));
    }
}

} // namespace termalin::test
