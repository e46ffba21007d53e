#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "mcp-stdio/client_program.h"
#include "mcp-stdio/line_writer.h"
#include "mcp-stdio/serve.h"

namespace termalin::mcp {
namespace {

using namespace std::chrono_literals;
using test::Waiter;

struct Pipe {
    Pipe()
    {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
        reading.reset(ends[0]);
        writing.reset(ends[1]);
    }
    UniqueFd reading, writing;
};

/// serve() on a thread of its own, and the client's ends.
class Served {
public:
    explicit Served(std::vector<Tool> tools, ServeOptions options = {}) : m_tools(std::move(tools))
    {
        ::signal(SIGPIPE, SIG_IGN); // NOLINT(cert-err33-c): as the programs do
        services.gatekeeper = &gate;
        m_thread = std::jthread([this, options = std::move(options)](std::stop_token const& stop) {
            ended = serve(m_in.reading.get(), m_out.writing.get(), m_tools, services, options, stop);
            m_out.writing.reset();
        });
    }
    void send(std::string_view text) const
    {
        while (!text.empty()) {
            auto const count = ::write(m_in.writing.get(), text.data(), text.size());
            if (count < 0)
                return;
            text.remove_prefix(static_cast<std::size_t>(count));
        }
    }
    std::string line()
    {
        while (m_received.find('\n') == std::string::npos) {
            std::array<char, 65'536> buffer{};
            pollfd fd{m_out.reading.get(), POLLIN, 0};
            if (::poll(&fd, 1, 30'000) != 1)
                return "nothing came";
            auto const count = ::read(m_out.reading.get(), buffer.data(), buffer.size());
            if (count <= 0)
                return "end";
            m_received.append(buffer.data(), static_cast<std::size_t>(count));
        }
        auto const end = m_received.find('\n');
        auto const text = m_received.substr(0, end);
        m_received.erase(0, end + 1);
        return text;
    }
    void initialize()
    {
        send(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}})"
             "\n");
        line();
    }
    void endInput() { m_in.writing.reset(); }
    void closeOutput() { m_out.reading.reset(); }
    void requestStop() { m_thread.request_stop(); }
    void join() { m_thread.join(); }
    int outputFd() const { return m_out.reading.get(); }

    test::OpenGate gate;
    Services services;
    Ended ended{};

private:
    std::vector<Tool> m_tools;
    Pipe m_in, m_out;
    std::string m_received;
    std::jthread m_thread;
};

std::string callLine(int id, std::string_view tool, std::string_view arguments = "{}")
{
    return fmt::format(
        R"({{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"name":"{}","arguments":{}}}}})"
        "\n",
        id, tool, arguments);
}

TEST(Serve, LetsCallsInFlightAnswerAfterTheEndOfInputAndStopsThemThen)
{
    Waiter waiter;
    Served served({waiter.tool(), test::echo()}, {.grace = 200ms});
    served.initialize();
    served.send(callLine(1, "wait") + callLine(2, "echo"));
    ASSERT_TRUE(waiter.waitForRunning(1));
    served.endInput();
    EXPECT_EQ(Json::parse(served.line())["id"], 2);
    auto const stopped = Json::parse(served.line());
    EXPECT_EQ(stopped["id"], 1);
    EXPECT_EQ(stopped["result"]["_meta"]["code"], "cancelled");
    served.join();
    EXPECT_EQ(served.ended, Ended::InputEnded);
    EXPECT_EQ(waiter.reasons, std::vector{StopReason::Shutdown});
    EXPECT_EQ(served.line(), "end");
}

TEST(Serve, TakesALastLineWithoutItsNewline)
{
    Served served({test::echo()}, {.grace = 30s});
    served.initialize();
    auto line = callLine(1, "echo");
    line.pop_back();
    served.send(line);
    served.endInput();
    EXPECT_EQ(Json::parse(served.line())["id"], 1);
}

TEST(Serve, StopsWithoutGraceWhenItIsToldTo)
{
    Waiter waiter;
    Served served({waiter.tool()}, {.grace = std::chrono::hours(1)});
    served.initialize();
    served.send(callLine(1, "wait"));
    ASSERT_TRUE(waiter.waitForRunning(1));
    served.requestStop();
    served.join();
    EXPECT_EQ(served.ended, Ended::Stopped);
}

TEST(Serve, CutsTheGraceShortWhenItIsToldToStopDuringIt)
{
    Waiter waiter;
    Served served({waiter.tool()}, {.grace = std::chrono::hours(1)});
    served.initialize();
    served.send(callLine(1, "wait"));
    ASSERT_TRUE(waiter.waitForRunning(1));
    served.endInput();
    served.requestStop();
    served.join();
    EXPECT_EQ(waiter.reasons, std::vector{StopReason::Shutdown});
}

TEST(Serve, EndsWhenNobodyReadsTheRepliesAnyMore)
{
    Waiter waiter;
    Served served({waiter.tool()}, {.grace = std::chrono::hours(1)});
    served.initialize();
    served.send(callLine(1, "wait"));
    ASSERT_TRUE(waiter.waitForRunning(1));
    served.closeOutput();
    served.send(R"({"jsonrpc":"2.0","id":2,"method":"ping"})"
                "\n");
    served.join();
    EXPECT_EQ(served.ended, Ended::OutputLost);
    EXPECT_EQ(waiter.reasons, std::vector{StopReason::Shutdown});
}

TEST(Serve, EndsWhenASocketForTheRepliesIsClosedThoughTheInputGoesOn)
{
    std::array<int, 2> ends{}; // what Node.js gives its children as standard output
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    UniqueFd const ours(ends[0]);
    UniqueFd theirs(ends[1]);
    Pipe const input;
    test::OpenGate gate;
    Services services;
    services.gatekeeper = &gate;
    std::jthread const closer([&] { theirs.reset(); });
    EXPECT_EQ(serve(input.reading.get(), ours.get(), {}, services, {}, {}), Ended::OutputLost);
}

TEST(Serve, ReadsNoMoreWhileRepliesWaitAndLosesNone)
{
    // Each answer has a quarter of a mebibyte, so that 256 of them are the limit. A request is as long as
    // what is read at once.
    auto big = test::echo();
    big.description = std::string(256U * 1024U, 'x');
    Served served({big});
    served.initialize();
    constexpr int count = 400;
    std::atomic<int> sent = 0;
    std::jthread const sender([&] {
        for (int i = 0; i < count; ++i, ++sent)
            served.send(
                fmt::format(R"({{"jsonrpc":"2.0","id":{},"method":"tools/list","params":{{"x":"{}"}}}})"
                            "\n",
                            i, std::string(65'536, 'y')));
    });
    for (int before = -1; before != sent.load();) { // until it stands still
        before = sent.load();
        ::poll(nullptr, 0, 500); // a machine that stalls here makes the test weaker, not fail
    }
    EXPECT_LT(sent.load(), 300);
    for (int i = 0; i < count; ++i) { // answered by the reading thread itself, so in order
        auto const line = served.line();
        ASSERT_TRUE(line.starts_with(fmt::format(R"({{"jsonrpc":"2.0","id":{},"result")", i)))
            << line.substr(0, 100);
        ASSERT_TRUE(line.ends_with("}"));
    }
}

TEST(LineWriter, WritesLinesWholeAndInOrderToAPipeThatIsSlow)
{
    Pipe pipe;
    LineWriter writer(pipe.writing.get(), 0, [] {});
    for (int i = 0; i < 100; ++i)
        writer.push(std::to_string(i) + ' ' + std::string(10'000, 'x'));
    std::string all;
    std::array<char, 997> buffer{};
    for (std::ptrdiff_t ended = 0; ended < 100;) {
        auto const count = ::read(pipe.reading.get(), buffer.data(), buffer.size());
        ASSERT_GT(count, 0);
        std::string_view const piece(buffer.data(), static_cast<std::size_t>(count));
        ended += std::ranges::count(piece, '\n');
        all += piece;
    }
    std::istringstream lines(all);
    std::string line;
    for (int i = 0; std::getline(lines, line); ++i)
        EXPECT_EQ(line, std::to_string(i) + ' ' + std::string(10'000, 'x'));
    EXPECT_EQ(writer.waiting(), 0U);
}

TEST(LineWriter, LeavesThePipeBlockingForWhoeverSharesIt)
{
    Pipe pipe;
    LineWriter writer(pipe.writing.get(), 0, [] {});
    writer.push("line");
    EXPECT_EQ(::fcntl(pipe.writing.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(LineWriter, GoesAwayThoughNobodyReads)
{
    Pipe pipe;
    LineWriter writer(pipe.writing.get(), 0, [] {});
    writer.push(std::string(10'000'000, 'x'));
    writer.flush(Deadline::in(1ms));
    EXPECT_GT(writer.waiting(), 0U);
} // the destructor returns

TEST(ProgramOfParent, IsTheExecutableThatStartedThisTest)
{
    auto const expected = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", ::getppid()));
    EXPECT_EQ(programOfParent(::getpid()), expected.string());
    EXPECT_EQ(programOfParent(0x7fffffff), "");
}

} // namespace
} // namespace termalin::mcp
