// Moves bytes through our SFTP or a tunnel of ours, for tests/bench/throughput.sh, and stands between as a
// relay that delays. Prints one number: seconds.
//
//   bench_throughput get|put HOST PORT USER KEY KNOWN_HOSTS LOCAL REMOTE
//   bench_throughput tunnel HOST PORT USER KEY KNOWN_HOSTS TARGET_PORT    serves until its input ends
//   bench_throughput relay TARGET_PORT DELAY_MS                            prints its port, then serves
//   bench_throughput source BYTES                                          prints its port, gives each client
//   BYTES bench_throughput drain PORT                                            reads all; how long it took

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fcntl.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include "core/memory.h"
#include "core/unique_fd.h"
#include "ssh/connection.h"
#include "ssh/sftp.h"
#include "ssh/tunnel.h"

namespace {

using namespace std::chrono_literals;
using namespace termalin; // NOLINT(google-build-using-namespace): a program of one file
using Clock = std::chrono::steady_clock;

[[noreturn]] void die(std::string const& why)
{
    std::fprintf(stderr, "bench_throughput: %s\n", why.c_str());
    std::exit(1); // NOLINT(concurrency-mt-unsafe)
}

template <class T>
T orDie(Result<T> result)
{
    if (!result)
        die(result.error().message + " [" + result.error().source + ']');
    return *std::move(result);
}

void print(Clock::time_point since)
{
    std::printf("%.4f\n", std::chrono::duration<double>(Clock::now() - since).count());
}

sockaddr_in loopback(std::uint16_t port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

void noDelay(int fd)
{
    int const on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

UniqueFd dial(std::uint16_t port)
{
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto const address = loopback(port);
    if (::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        die("cannot connect to port " + std::to_string(port));
    noDelay(fd.get());
    return fd;
}

/// Listens on a free port, which is printed, and gives each client to `serve` on a thread of its own.
[[noreturn]] void serve(auto const& each)
{
    UniqueFd const listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto address = loopback(0);
    socklen_t size = sizeof address;
    if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener.get(), 64) != 0 ||
        ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        die("cannot listen");
    std::printf("%d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    for (;;) {
        UniqueFd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (client)
            std::thread([&each, fd = std::move(client)]() mutable { each(std::move(fd)); }).detach();
    }
}

/// One way of the relay: what is read now is written `delay` later. A gigabit's worth of 50 ms fits.
void delayed(int from, int to, Clock::duration delay)
{
    struct Piece {
        Clock::time_point due;
        std::string bytes;
    };
    std::deque<Piece> waiting;
    std::size_t held = 0;
    auto ended = false;
    while (!ended || !waiting.empty()) {
        auto const room = !ended && held < (64U << 20U);
        auto const due = !waiting.empty() && waiting.front().due <= Clock::now();
        std::array<pollfd, 2> fds{{{room ? from : -1, POLLIN, 0}, {due ? to : -1, POLLOUT, 0}}};
        auto wait = timespec{.tv_sec = 1, .tv_nsec = 0};
        if (!waiting.empty() && !due)
            wait = {
                .tv_sec = 0,
                .tv_nsec = std::max<long>(
                    0, std::chrono::nanoseconds(waiting.front().due - Clock::now()).count() % 1'000'000'000)};
        ::ppoll(fds.data(), fds.size(), &wait, nullptr);
        if ((fds[0].revents & (POLLIN | POLLHUP)) != 0) {
            std::string piece(256U * 1024U, '\0');
            auto const got = ::recv(from, piece.data(), piece.size(), MSG_DONTWAIT);
            ended = got == 0 || (got < 0 && errno != EAGAIN);
            if (got > 0) {
                piece.resize(static_cast<std::size_t>(got));
                held += piece.size();
                waiting.push_back({Clock::now() + delay, std::move(piece)});
            }
        }
        if (fds[1].revents != 0) {
            auto& bytes = waiting.front().bytes;
            auto const put = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (put < 0 && errno != EAGAIN)
                break;
            held -= static_cast<std::size_t>(std::max<ssize_t>(put, 0));
            bytes.erase(0, static_cast<std::size_t>(std::max<ssize_t>(put, 0)));
            if (bytes.empty())
                waiting.pop_front();
        }
    }
    ::shutdown(to, SHUT_WR);
}

std::uint16_t portOf(char const* text)
{
    return static_cast<std::uint16_t>(std::strtoul(text, nullptr, 10));
}

std::shared_ptr<ssh::Connection> connect(char** argument)
{
    ssh::Target target;
    target.name = target.hostname = argument[0];
    target.port = portOf(argument[1]);
    target.user = argument[2];
    target.keyFiles = {argument[3]};
    target.knownHostsFiles = {argument[4]};
    ssh::LoginContext context;
    context.credentials = std::make_shared<ssh::NoCredentials>();
    return orDie(ssh::Connection::open({{target}}, context, Deadline::in(60s), {}));
}

int get(char** argument)
{
    auto const start = Clock::now();
    auto const connection = connect(argument);
    auto const sftp = orDie(ssh::Sftp::open(connection, Deadline::in(60s), {}));
    std::unique_ptr<FILE, int (*)(FILE*)> const file(std::fopen(argument[5], "wbe"), &std::fclose);
    std::setvbuf(file.get(), nullptr, _IONBF, 0);
    orDie(sftp->download(argument[6],
                         [&](std::string_view piece) -> Result<void> {
                             if (std::fwrite(piece.data(), 1, piece.size(), file.get()) != piece.size())
                                 die("cannot write");
                             return {};
                         },
                         Deadline::in(600s), {}));
    print(start);
    return 0;
}

int put(char** argument)
{
    auto const start = Clock::now();
    auto const connection = connect(argument);
    auto const sftp = orDie(ssh::Sftp::open(connection, Deadline::in(60s), {}));
    std::unique_ptr<FILE, int (*)(FILE*)> const file(std::fopen(argument[5], "rbe"), &std::fclose);
    std::setvbuf(file.get(), nullptr, _IONBF, 0);
    orDie(sftp->upload(argument[6],
                       [&](char* to, std::size_t size) -> Result<std::size_t> {
                           return std::fread(to, 1, size, file.get());
                       },
                       Deadline::in(600s), {}));
    print(start);
    return 0;
}

int tunnel(char** argument)
{
    auto const connection = connect(argument);
    auto const opened = orDie(ssh::Tunnel::open(connection, {.kind = ssh::TunnelKind::Local,
                                                             .remoteHost = "127.0.0.1",
                                                             .remotePort = portOf(argument[5]),
                                                             .localPort = 0,
                                                             .admit = {}}));
    std::printf("%d\n", opened->localPort());
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
}

int drain(char** argument)
{
    auto const start = Clock::now();
    auto const fd = dial(portOf(argument[0]));
    std::vector<char> piece(256U * 1024U);
    while (::recv(fd.get(), piece.data(), piece.size(), 0) > 0) {
    }
    print(start);
    return 0;
}

[[noreturn]] void relay(char** argument)
{
    auto const target = portOf(argument[0]);
    // Half of the round trip each way.
    auto const delay = std::chrono::microseconds(std::strtoul(argument[1], nullptr, 10) * 500);
    serve([&](UniqueFd client) {
        noDelay(client.get());
        auto const server = dial(target);
        std::thread up([&] { delayed(client.get(), server.get(), delay); });
        delayed(server.get(), client.get(), delay);
        up.join();
    });
}

[[noreturn]] void source(char** argument)
{
    auto const bytes = std::strtoull(argument[0], nullptr, 10);
    serve([&](UniqueFd client) {
        std::string const piece(256U * 1024U, 'x');
        for (auto left = bytes; left > 0;) {
            auto const put =
                ::send(client.get(), piece.data(), std::min<std::uint64_t>(left, piece.size()), MSG_NOSIGNAL);
            if (put <= 0)
                return;
            left -= static_cast<std::uint64_t>(put);
        }
    });
}

} // namespace

int main(int count, char** argument)
{
    keepFreedMemory(); // as termalin-mcp does
    std::string const what = count > 1 ? argument[1] : "";
    if (what == "get" && count == 9)
        return get(argument + 2);
    if (what == "put" && count == 9)
        return put(argument + 2);
    if (what == "tunnel" && count == 8)
        return tunnel(argument + 2);
    if (what == "relay" && count == 4)
        relay(argument + 2);
    if (what == "source" && count == 3)
        source(argument + 2);
    if (what == "drain" && count == 3)
        return drain(argument + 2);
    std::fprintf(stderr, "see the head of throughput.cpp\n");
    return 2;
}
