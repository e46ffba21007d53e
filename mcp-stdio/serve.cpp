#include "mcp-stdio/serve.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/account.h"
#include "mcp-stdio/app_link.h"
#include "mcp-stdio/authorize.h"
#include "mcp-stdio/client_program.h"
#include "mcp-stdio/line_writer.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {
namespace {

using namespace std::chrono_literals;

/// Reads lines into the server until something ends it.
class Reader {
public:
    Reader(int in, int out, Server& server, LineWriter const& writer, int wake)
        : m_in(in), m_out(out), m_server(server), m_writer(writer), m_wake(wake)
    {
    }

    Ended run(std::stop_token const& stop)
    {
        auto const onLine = [this](Line const& line) { m_server.receive(line); };
        while (true) {
            if (m_writer.broken())
                return Ended::OutputLost;
            if (stop.stop_requested())
                return Ended::Stopped;
            auto const reading = m_writer.waiting() <= kMaxWaitingBytes;
            std::array<pollfd, 3> fds{{{m_wake, POLLIN, 0}, {m_out, 0, 0}, {reading ? m_in : -1, POLLIN, 0}}};
            if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR)
                return Ended::InputEnded;
            eventfd_t ignored = 0;
            if (fds[0].revents != 0)
                (void)::eventfd_read(m_wake, &ignored);
            // A pipe whose reader has gone says POLLERR, a socket POLLHUP; poll(2) would not wait again on
            // either.
            if (m_in != m_out && (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
                return Ended::OutputLost;
            if (fds[2].revents == 0)
                continue;
            auto const count = ::read(m_in, m_buffer.data(), m_buffer.size());
            if (count > 0) {
                m_scanner.feed(std::string_view(m_buffer.data(), static_cast<std::size_t>(count)), onLine);
            } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
                m_scanner.finish(onLine);
                return Ended::InputEnded;
            }
        }
    }

private:
    int m_in;
    int m_out;
    Server& m_server;
    LineWriter const& m_writer;
    int m_wake;
    LineScanner m_scanner;
    std::vector<char> m_buffer = std::vector<char>(64U * 1024U);
};

} // namespace

Ended serve(int in, int out, std::span<Tool const> tools, Services& services, ServeOptions options,
            std::stop_token const& stop)
{
    UniqueFd const wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    std::stop_source hurry; // ends the grace: stopped, or nobody reads any more
    LineWriter* lines = nullptr;
    LineWriter writer(out, kMaxWaitingBytes, [&] {
        if (lines->broken())
            hurry.request_stop();
        (void)::eventfd_write(wake.get(), 1);
    });
    lines = &writer;
    std::stop_callback const onStop(stop, [&] {
        hurry.request_stop();
        (void)::eventfd_write(wake.get(), 1);
    });
    options.server.congested = [&] { return writer.waiting() > kMaxWaitingBytes; };
    Server server(
        tools, services, [&](std::string line) { writer.push(std::move(line)); }, std::move(options.server));
    if (options.serving)
        options.serving(&server);

    auto const ended = Reader(in, out, server, writer, wake.get()).run(stop);
    auto const last = Deadline::in(options.patience);
    if (options.ending)
        options.ending();
    if (ended == Ended::InputEnded && options.grace > 0ms)
        server.waitUntilIdle(Deadline::in(options.grace), hurry.get_token());
    server.stopAll(StopReason::Shutdown);
    auto const idle = server.waitUntilIdle(options.abandon ? last : Deadline::never(), {});
    writer.flush(Deadline::in(300ms));
    if (options.serving)
        options.serving(nullptr);
    if (!idle)
        options.abandon();
    return ended;
}

// -- standard input and output -----------------------------------------------------------------

namespace {

constexpr auto kGrace = 1000ms;
constexpr auto kPatience = 2400ms;             // a busy server takes its time to end a command
constexpr suseconds_t kLastMomentUs = 900'000; // with 2 s before it: all is over 3 s after the end

std::atomic<int> signalEvent = -1;

void onEndSignal(int)
{
    auto const saved = errno;
    (void)::eventfd_write(signalEvent.load(), 1);
    errno = saved;
}

void onLastMoment(int)
{
    ::_exit(0);
}

void handle(int signal, void (*handler)(int))
{
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
}

/// Turns the signals that end a program into a stop token, as long as it lives.
class EndSignals {
public:
    EndSignals() : m_event(::eventfd(0, EFD_CLOEXEC))
    {
        signalEvent = m_event.get();
        for (auto const signal : {SIGTERM, SIGINT, SIGHUP})
            handle(signal, onEndSignal);
        m_watcher = std::thread([this] {
            eventfd_t ignored = 0;
            while (::eventfd_read(m_event.get(), &ignored) != 0 && errno == EINTR) {
            }
            m_stop.request_stop();
        });
    }
    ~EndSignals()
    {
        for (auto const signal : {SIGTERM, SIGINT, SIGHUP})
            handle(signal, SIG_IGN); // the end has begun already
        (void)::eventfd_write(m_event.get(), 1);
        m_watcher.join();
    }
    EndSignals(EndSignals const&) = delete;
    EndSignals& operator=(EndSignals const&) = delete;

    [[nodiscard]] std::stop_token token() const { return m_stop.get_token(); }

private:
    UniqueFd m_event;
    std::stop_source m_stop;
    std::thread m_watcher;
};

/// The server that the log and the app's grants are told to, while there is one.
struct Audience {
    std::mutex mutex;
    Server* server = nullptr;
};

Audience& audience()
{
    static Audience instance;
    return instance;
}

} // namespace

Result<Stdio> claimStdio()
{
    Stdio stdio{UniqueFd(::fcntl(0, F_DUPFD_CLOEXEC, 3)), UniqueFd(::fcntl(1, F_DUPFD_CLOEXEC, 3))};
    if (!stdio.in || !stdio.out)
        return std::unexpected(
            systemError(Errc::InvalidArgument,
                        "The MCP server speaks over its standard input and output, and one "
                        "of them is closed; start it from an MCP client",
                        EBADF));
    UniqueFd const nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!nothing) // a stray print would break the stream
        return std::unexpected(systemError(
            Errc::Internal, "The MCP server could not put /dev/null in its standard input's place", errno));
    if (::fcntl(2, F_GETFD) < 0)
        ::dup2(nothing.get(), 2);
    ::dup2(nothing.get(), 0);
    ::dup2(2, 1);
    return stdio;
}

int serveStdio(Services& services, Stdio stdio)
{
    handle(SIGPIPE, SIG_IGN);
    EndSignals const signals;
    auto const told = [](Server* server) {
        std::lock_guard const lock(audience().mutex);
        audience().server = server;
    };
    if (services.app != nullptr)
        services.app->onGrantsChanged([] {
            std::lock_guard const lock(audience().mutex);
            if (audience().server != nullptr)
                audience().server->toolsChanged();
        });
    setLogListener([](LogLevel level, std::string_view category, std::string_view text) {
        std::lock_guard const lock(audience().mutex);
        if (audience().server != nullptr)
            audience().server->log(level, category, text);
    });

    ServeOptions options{.grace = kGrace,
                         .patience = kPatience,
                         .abandon =
                             [&services] {
                                 if (services.gatekeeper != nullptr)
                                     services.gatekeeper->abandoned();
                                 ::_exit(0);
                             },
                         .serving = told};
    options.server.clientProgram = programOfParent(::getpid());
    options.server.warmUp = [&services] {
        static_cast<void>(ownAccount());
        if (services.store != nullptr)
            static_cast<void>(findOpenHost(*services.store, services.paths, ""));
    };
    options.server.logLevel = [](LogLevel level) {
        if (!logs(level)) // what a client asks for must be made; what stderr wants is not taken from it
            setLogLevel(level);
    };
    options.ending = [] {
        handle(SIGALRM, onLastMoment);
        itimerval const limit{{0, 0}, {2, kLastMomentUs}};
        ::setitimer(ITIMER_REAL, &limit, nullptr);
    };
    serve(stdio.in.get(), stdio.out.get(), allTools(), services, std::move(options), signals.token());
    setLogListener(nullptr);
    return 0;
}

int serveStdio(Services& services)
{
    auto stdio = claimStdio();
    if (!stdio) {
        (void)std::fprintf(stderr, "termalin-mcp: %s\n", stdio.error().message.c_str());
        return 1;
    }
    return serveStdio(services, *std::move(stdio));
}

} // namespace termalin::mcp
