#include <array>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/log.h"
#include "core/unique_fd.h"

namespace termalin {
namespace {

/// What is written to stderr while it lives, up to the 64 KiB that a pipe holds.
class CapturedStderr {
public:
    CapturedStderr() : m_old(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3))
    {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0)
            m_read.reset(ends[0]);
        ::dup2(ends[1], STDERR_FILENO);
        ::close(ends[1]);
    }
    ~CapturedStderr() { ::dup2(m_old.get(), STDERR_FILENO); }
    CapturedStderr(CapturedStderr const&) = delete;
    CapturedStderr& operator=(CapturedStderr const&) = delete;

    /// What came since it was last asked.
    [[nodiscard]] std::string text() const
    {
        std::string bytes(64U << 10U, '\0');
        auto const count = ::read(m_read.get(), bytes.data(), bytes.size());
        bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
        return bytes;
    }

private:
    UniqueFd m_old;
    UniqueFd m_read;
};

class LogTest : public ::testing::Test {
protected:
    void TearDown() override
    {
        setLogListener(nullptr);
        setLogLevel(LogLevel::Warn);
    }
};

TEST_F(LogTest, LinesBelowTheLevelAreNotWritten)
{
    CapturedStderr const captured;
    setLogLevel(LogLevel::Warn);
    EXPECT_FALSE(logs(LogLevel::Info));
    EXPECT_TRUE(logs(LogLevel::Warn));
    log(LogLevel::Info, "test", "quiet {}", 1);
    EXPECT_EQ(captured.text(), "");
    log(LogLevel::Error, "test", "loud {}", 2);
    EXPECT_TRUE(captured.text().ends_with(" error test: loud 2\n")) << captured.text();
}

TEST_F(LogTest, ControlCharactersAreShownAndNeverMakeASecondLine)
{
    CapturedStderr const captured;
    log(LogLevel::Warn, "test", "name {}", "x\n2026-01-01 error forged\x1B[2J\xFF");
    auto const text = captured.text();
    EXPECT_EQ(text.find('\n'), text.size() - 1);
    EXPECT_NE(text.find("x\\x0A2026-01-01 error forged\\x1B[2J\\xFF"), std::string::npos) << text;
}

TEST_F(LogTest, TheListenerGetsTheLineAsItWasGiven)
{
    static std::string heard;
    heard.clear();
    CapturedStderr const captured;
    setLogListener([](LogLevel level, std::string_view category, std::string_view text) {
        heard += std::to_string(static_cast<int>(level)) + ' ' + std::string(category) + ' ' +
                 std::string(text) + '|';
    });
    log(LogLevel::Debug, "test", "unheard");
    log(LogLevel::Warn, "test", "two\nlines");
    setLogListener(nullptr);
    log(LogLevel::Warn, "test", "after");
    EXPECT_EQ(heard, "2 test two\nlines|");
}

TEST_F(LogTest, LinesOfManyThreadsDoNotMix)
{
    CapturedStderr const captured;
    {
        std::vector<std::jthread> threads;
        threads.reserve(8);
        for (int i = 0; i < 8; ++i)
            threads.emplace_back([i] {
                for (int j = 0; j < 40; ++j)
                    log(LogLevel::Warn, "test", "{}", std::string(100, static_cast<char>('a' + i)));
            });
    }
    auto const text = captured.text();
    int lines = 0;
    for (std::size_t at = 0; at < text.size(); ++lines) {
        auto const end = text.find('\n', at);
        ASSERT_NE(end, std::string::npos);
        auto const body = text.substr(end - 100, 100);
        ASSERT_EQ(body, std::string(100, body[0]));
        at = end + 1;
    }
    EXPECT_EQ(lines, 320);
}

} // namespace
} // namespace termalin
