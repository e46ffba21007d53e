// The real program on real pipes.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "core/json.h"
#include "core/unique_fd.h"
#include "mcp-stdio/serve.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin {
namespace {

constexpr int kPatienceMs = 60'000;

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

/// termalin-mcp as a client starts it.
class Program {
public:
    explicit Program(std::filesystem::path const& home)
    {
        ::signal(SIGPIPE, SIG_IGN); // NOLINT(cert-err33-c)
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, m_in.reading.get(), 0);
        ::posix_spawn_file_actions_adddup2(&actions, m_out.writing.get(), 1);
        std::string path = TERMALIN_MCP;
        auto homeVariable = "TERMALIN_HOME=" + home.string();
        std::string pathVariable = "PATH=/usr/bin:/bin";
        std::array<char*, 2> argv{path.data(), nullptr};
        std::array<char*, 3> environment{homeVariable.data(), pathVariable.data(), nullptr};
        EXPECT_EQ(::posix_spawn(&m_pid, path.c_str(), &actions, nullptr, argv.data(), environment.data()), 0);
        ::posix_spawn_file_actions_destroy(&actions);
        m_in.reading.reset();
        m_out.writing.reset();
        EXPECT_EQ(::fcntl(m_in.writing.get(), F_SETFL, O_NONBLOCK), 0);
    }
    ~Program()
    {
        if (m_pid > 0) {
            ::kill(m_pid, SIGKILL);
            ::waitpid(m_pid, nullptr, 0);
        }
    }
    Program(Program const&) = delete;
    Program& operator=(Program const&) = delete;

    /// As much as it takes without `patience` milliseconds of waiting; returns how much.
    std::size_t send(std::string_view text, int patience = kPatienceMs) const
    {
        std::size_t sent = 0;
        while (sent < text.size()) {
            pollfd fd{m_in.writing.get(), POLLOUT, 0};
            if (::poll(&fd, 1, patience) != 1)
                return sent;
            auto const count = ::write(m_in.writing.get(), text.data() + sent, text.size() - sent);
            if (count < 0)
                return sent;
            sent += static_cast<std::size_t>(count);
        }
        return sent;
    }
    /// The next line, which must be JSON; null at the end.
    Json next()
    {
        while (m_received.find('\n', m_scanned) == std::string::npos) {
            m_scanned = m_received.size();
            std::array<char, 65'536> buffer{};
            pollfd fd{m_out.reading.get(), POLLIN, 0};
            if (::poll(&fd, 1, kPatienceMs) != 1) {
                ADD_FAILURE() << "nothing came";
                return nullptr;
            }
            auto const count = ::read(m_out.reading.get(), buffer.data(), buffer.size());
            if (count <= 0) {
                EXPECT_EQ(m_received, "") << "the last line was cut";
                return nullptr;
            }
            m_received.append(buffer.data(), static_cast<std::size_t>(count));
        }
        auto const end = m_received.find('\n', m_scanned);
        auto const line = parseJson(std::string_view(m_received).substr(0, end));
        EXPECT_TRUE(line) << m_received.substr(0, 200);
        m_received.erase(0, end + 1);
        m_scanned = 0;
        return line.value_or(nullptr);
    }
    void initialize()
    {
        send(
            R"({"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}})"
            "\n");
        EXPECT_EQ(next()["result"]["protocolVersion"], "2025-11-25");
    }
    void endInput() { m_in.writing.reset(); }
    void closeOutput() { m_out.reading.reset(); }
    void kill(int signal) const { ::kill(m_pid, signal); }
    /// The exit status; 128 and the signal if one ended it, -1 if it is still there.
    int wait()
    {
        auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
        int status = 0;
        while (::waitpid(m_pid, &status, WNOHANG) == 0) {
            if (std::chrono::steady_clock::now() > until)
                return -1;
            ::poll(nullptr, 0, 5);
        }
        m_pid = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

private:
    Pipe m_in, m_out;
    pid_t m_pid = -1;
    std::string m_received;
    std::size_t m_scanned = 0;
};

class StdioTest : public ::testing::Test {
protected:
    /// A host whose line never answers.
    void addSilentHost() const
    {
        test::mustRun({TERMALIN_MCP, "host", "add", "silent", "nobody@silent.invalid", "--policy", "full",
                       "--proxy-command", "cat >/dev/null", "--yes"},
                      {"TERMALIN_HOME=" + m_home.path().string()});
    }
    test::TempDir m_home;
};

constexpr auto kPing = R"({"jsonrpc":"2.0","id":"p","method":"ping"})"
                       "\n";
constexpr auto kSlowCall =
    R"({"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"ssh_exec","arguments":{"host":"silent","command":"true","timeoutSeconds":3600}}})"
    "\n";

TEST_F(StdioTest, AnswersAndEndsWithZeroAtTheEndOfItsInput)
{
    Program program(m_home.path());
    program.initialize();
    program.send(kPing);
    EXPECT_EQ(program.next()["result"], Json::object());
    program.endInput();
    EXPECT_EQ(program.next(), nullptr);
    EXPECT_EQ(program.wait(), 0);
}

TEST_F(StdioTest, StopsACallInFlightAtTheEndOfItsInputAndSaysSo)
{
    addSilentHost();
    Program program(m_home.path());
    program.initialize();
    program.send(std::string(kSlowCall) + kPing);
    EXPECT_EQ(program.next()["id"], "p");
    program.endInput();
    auto const stopped = program.next();
    EXPECT_EQ(stopped["id"], "slow");
    EXPECT_EQ(stopped["result"]["_meta"]["code"], "cancelled") << stopped;
    EXPECT_EQ(program.wait(), 0);
}

TEST_F(StdioTest, EndsWithZeroOnEachSignalThatEndsProgramsAlsoInTheMiddleOfACall)
{
    addSilentHost();
    for (auto const signal : {SIGTERM, SIGINT, SIGHUP}) {
        Program program(m_home.path());
        program.initialize();
        program.send(std::string(kSlowCall) + kPing);
        EXPECT_EQ(program.next()["id"], "p");
        program.kill(signal);
        EXPECT_EQ(program.wait(), 0) << signal;
    }
}

TEST_F(StdioTest, EndsWithZeroWhenNobodyReadsItsOutput)
{
    Program program(m_home.path());
    program.initialize();
    program.closeOutput();
    program.send(kPing);
    EXPECT_EQ(program.wait(), 0);
}

TEST_F(StdioTest, StopsReadingAClientThatDoesNotReadAndLosesNoReply)
{
    Program program(m_home.path());
    program.initialize();
    // An id comes back as it is: a long one makes an answer as long as the request. 64 MiB of them may wait.
    constexpr int count = 320;
    std::string requests;
    for (int i = 0; i < count; ++i)
        requests += fmt::format(R"({{"jsonrpc":"2.0","id":"{}{}","method":"ping"}})"
                                "\n",
                                1000 + i, std::string(256U * 1024U, 'x'));
    auto const sent = program.send(requests, 3000);
    EXPECT_LT(sent, requests.size()) << "everything was read though 64 MiB of replies waited";
    std::jthread const sender([&] { program.send(std::string_view(requests).substr(sent)); });
    for (int i = 0; i < count; ++i) { // answered in order, since no call is among them
        auto const reply = program.next();
        ASSERT_TRUE(reply.is_object());
        EXPECT_EQ(reply["id"].get<std::string>().substr(0, 4), std::to_string(1000 + i));
    }
}

TEST_F(StdioTest, SurvivesALineOfFortyMebibytesAndANestingBomb)
{
    Program program(m_home.path());
    program.initialize();
    program.send(R"({"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":")" + std::string(40U << 20U, 'x') +
                 "\"}}\n");
    auto const tooLong = program.next();
    EXPECT_EQ(tooLong["id"], 1);
    EXPECT_EQ(tooLong["error"]["code"], -32600);
    program.send(R"({"jsonrpc":"2.0","id":2,"method":"ping","params":{"a":)" + std::string(10U << 20U, '[') +
                 "\n");
    auto const tooDeep = program.next();
    EXPECT_EQ(tooDeep["error"]["code"], -32600);
    program.send("\r\n\xEF\xBB\xBF" + std::string(kPing));
    EXPECT_EQ(program.next()["id"], "p");
}

TEST(ClaimStdio, KeepsAStrayPrintOutOfTheStream)
{
    Pipe out;
    Pipe errors;
    auto const child = ::fork();
    if (child == 0) {
        ::dup2(out.writing.get(), 1);
        ::dup2(errors.writing.get(), 2);
        auto const stdio = mcp::claimStdio();
        (void)std::printf("stray");
        (void)std::fflush(stdout);
        auto const wrote = stdio && ::write(stdio->out.get(), "line", 4) == 4;
        char c = 0;
        ::_exit(wrote && ::read(0, &c, 1) == 0 ? 0 : 1);
    }
    out.writing.reset();
    errors.writing.reset();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    auto const all = [](int fd) {
        std::string text(100, '\0');
        text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(fd, text.data(), text.size()))));
        return text;
    };
    EXPECT_EQ(all(out.reading.get()), "line");
    EXPECT_EQ(all(errors.reading.get()), "stray");
}

TEST(ClaimStdio, FailsWhenNothingCanTakeThePlaceOfTheStreams)
{
    auto const child = ::fork();
    if (child == 0) {
        auto const first = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
        auto const second = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
        ::close(first);
        ::close(second);
        auto const most = static_cast<rlim_t>(second) + 1;
        rlimit const noneMore{most, most};
        (void)::setrlimit(RLIMIT_NOFILE, &noneMore);
        auto const stdio = mcp::claimStdio();
        ::_exit(!stdio && stdio.error().message.contains("/dev/null") ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

} // namespace
} // namespace termalin
