#include "mcp-stdio/cli/console.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <termios.h>
#include <unistd.h>

namespace termalin::cli {

namespace {

void writeAll(std::FILE* file, std::string_view text)
{
    // A reader that went away is not our failure; what matters is checked once, when the program ends.
    static_cast<void>(std::fwrite(text.data(), 1, text.size(), file));
}

/// A terminal that shows nothing and hands over every key, until the end of the scope.
class QuietTerminal {
public:
    explicit QuietTerminal(int fd) : m_fd(fd)
    {
        if (::tcgetattr(fd, &m_before) != 0)
            return;
        auto quiet = m_before;
        // Signals are off as well: Ctrl+C must not end us while the echo is off.
        quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | ISIG);
        quiet.c_cc[VMIN] = 1;
        quiet.c_cc[VTIME] = 0;
        m_set = ::tcsetattr(fd, TCSAFLUSH, &quiet) == 0;
    }
    ~QuietTerminal()
    {
        if (m_set)
            ::tcsetattr(m_fd, TCSAFLUSH, &m_before);
    }
    QuietTerminal(QuietTerminal const&) = delete;
    QuietTerminal& operator=(QuietTerminal const&) = delete;

    [[nodiscard]] bool set() const { return m_set; }

private:
    int m_fd;
    termios m_before{};
    bool m_set = false;
};

constexpr std::size_t kLongestSecret = 64U * 1024U;

/// Takes back the last character, however many bytes it has.
void backspace(std::string& line)
{
    while (!line.empty()) {
        auto const last = static_cast<unsigned char>(line.back());
        line.back() = '\0';
        line.pop_back();
        if ((last & 0xc0U) != 0x80)
            return;
    }
}

Result<std::string> readQuietLine(int fd)
{
    std::string line;
    line.reserve(kLongestSecret); // never moved, so that no copy of it is left behind
    while (line.size() < kLongestSecret) {
        char byte = 0;
        auto const got = ::read(fd, &byte, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || byte == '\x03' || (byte == '\x04' && line.empty())) {
            wipe(line);
            return fail(Errc::Cancelled, "Cancelled. Nothing was changed.");
        }
        if (byte == '\n' || byte == '\r' || byte == '\x04')
            return line;
        if (byte == '\x7f' || byte == '\b')
            backspace(line);
        else if (byte == '\x15') { // Ctrl+U
            wipe(line);
            line.reserve(kLongestSecret);
        } else
            line.push_back(byte);
    }
    wipe(line);
    return fail(Errc::InvalidArgument, "What was typed is longer than 64 KiB, which no password is.");
}

} // namespace

void print(std::string_view text)
{
    writeAll(stdout, text);
}

void remark(std::string_view text)
{
    (void)std::fflush(stdout); // the two streams often are one terminal: keep the order
    writeAll(stderr, fmt::format("termalin-mcp: {}\n", text));
}

int report(Error const& error)
{
    remark(error.source.empty() ? error.message : fmt::format("{} ({})", error.message, error.source));
    return error.code == Errc::InvalidArgument ? kWrongUse : kFailed;
}

bool canAsk()
{
    return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
}

bool askYes(std::string_view question)
{
    (void)std::fflush(stdout);
    writeAll(stderr, fmt::format("{} [y/N] ", question));
    std::string answer;
    for (;;) {
        char byte = 0;
        auto const got = ::read(STDIN_FILENO, &byte, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            writeAll(stderr, "\n");
            return false;
        }
        if (byte == '\n')
            break;
        if (answer.size() < 16)
            answer.push_back(byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte);
    }
    return answer == "y" || answer == "yes";
}

Result<Secret> askSecret(std::string_view prompt)
{
    if (!canAsk())
        return fail(
            Errc::InvalidArgument,
            "There is no terminal to ask on. Give the secret on a descriptor instead: --secret-fd N.");
    (void)std::fflush(stdout);
    QuietTerminal const quiet(STDIN_FILENO);
    if (!quiet.set())
        return fail(Errc::Internal, "The terminal cannot be set to show nothing while a secret is typed. Use "
                                    "--secret-fd N.");
    writeAll(stderr, fmt::format("{}: ", prompt));
    auto line = readQuietLine(STDIN_FILENO);
    writeAll(stderr, "\n");
    if (!line)
        return std::unexpected(std::move(line).error());
    return Secret(std::move(*line));
}

Result<Secret> askNewSecret(std::string_view prompt)
{
    TRY_LET(auto first, askSecret(prompt));
    TRY_LET(auto const second, askSecret("The same again"));
    if (first.reveal() != second.reveal())
        return fail(Errc::InvalidArgument, "The two were not the same. Nothing was changed; try again.");
    return first;
}

Result<Secret> readSecretFrom(int fd)
{
    std::string line;
    line.reserve(kLongestSecret);
    bool ended = false;
    while (!ended) {
        char byte = 0;
        auto const got = ::read(fd, &byte, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            auto const number = errno;
            wipe(line);
            return std::unexpected(systemError(
                Errc::InvalidArgument,
                fmt::format("The secret cannot be read from descriptor {} (--secret-fd)", fd), number));
        }
        if (got == 0 && line.empty())
            return fail(Errc::InvalidArgument,
                        fmt::format("Descriptor {} (--secret-fd) has nothing to read; a line "
                                    "with the secret was expected.",
                                    fd));
        ended = got == 0 || byte == '\n';
        if (ended)
            break;
        if (line.size() == kLongestSecret) {
            wipe(line);
            return fail(Errc::InvalidArgument, "The secret is longer than 64 KiB, which no password is.");
        }
        line.push_back(byte);
    }
    if (!line.empty() && line.back() == '\r')
        line.pop_back();
    return Secret(std::move(line));
}

} // namespace termalin::cli
