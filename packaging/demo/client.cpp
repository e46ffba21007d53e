#include "packaging/demo/client.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "core/deadline.h"

extern char** environ; // NOLINT(readability-redundant-declaration): unistd.h has it only as an extension

namespace termalin::demo {

using namespace std::chrono_literals;

Result<Client> Client::start(std::string const& program)
{
    std::array<int, 2> toServer{};
    std::array<int, 2> fromServer{};
    if (::pipe2(toServer.data(), O_CLOEXEC) != 0)
        return std::unexpected(systemError(Errc::Internal, "A pipe cannot be made", errno));
    UniqueFd const theirIn(toServer[0]);
    UniqueFd in(toServer[1]);
    if (::pipe2(fromServer.data(), O_CLOEXEC) != 0)
        return std::unexpected(systemError(Errc::Internal, "A pipe cannot be made", errno));
    UniqueFd out(fromServer[0]);
    UniqueFd const theirOut(fromServer[1]);
    posix_spawn_file_actions_t actions{};
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, theirIn.get(), 0);
    ::posix_spawn_file_actions_adddup2(&actions, theirOut.get(), 1);
    std::string name = program;
    std::array<char*, 2> arguments{name.data(), nullptr};
    pid_t pid = 0;
    auto const error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return std::unexpected(
            systemError(Errc::NotFound, fmt::format("{} cannot be started", program), error));
    return Client(pid, std::move(in), std::move(out));
}

Client::Client(Client&& other) noexcept
    : m_pid(std::exchange(other.m_pid, -1))
    , m_in(std::move(other.m_in))
    , m_out(std::move(other.m_out))
    , m_buffer(std::move(other.m_buffer))
    , m_id(other.m_id)
{
}

Client::~Client()
{
    if (m_pid <= 0)
        return;
    ::kill(m_pid, SIGKILL);
    while (::waitpid(m_pid, nullptr, 0) < 0 && errno == EINTR)
        ;
}

Result<void> Client::send(Json const& message)
{
    auto const line = toLine(message) + "\n";
    std::size_t at = 0;
    while (at < line.size()) {
        auto const wrote = ::write(m_in.get(), line.data() + at, line.size() - at);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return std::unexpected(
                systemError(Errc::NotConnected, "termalin-mcp takes no more input", errno));
        at += static_cast<std::size_t>(wrote);
    }
    return {};
}

Result<std::string> Client::readLine()
{
    auto const deadline = Deadline::in(60s);
    for (;;) {
        if (auto const end = m_buffer.find('\n'); end != std::string::npos) {
            auto line = m_buffer.substr(0, end);
            m_buffer.erase(0, end + 1);
            return line;
        }
        pollfd waiting{.fd = m_out.get(), .events = POLLIN, .revents = 0};
        if (deadline.passed())
            return fail(Errc::Timeout, "termalin-mcp did not answer within 60 s.");
        if (::poll(&waiting, 1, deadline.pollTimeout()) <= 0)
            continue;
        std::array<char, 64UL * 1024> bytes{};
        auto const got = ::read(m_out.get(), bytes.data(), bytes.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail(Errc::NotConnected, "termalin-mcp ended in the middle of the conversation.");
        m_buffer.append(bytes.data(), static_cast<std::size_t>(got));
    }
}

Result<Json> Client::request(std::string const& method, Json const& params)
{
    auto const id = ++m_id;
    TRY(send({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}}));
    for (;;) {
        TRY_LET(auto const line, readLine());
        auto const message = parseJson(line);
        if (!message || !message->is_object())
            return fail(Errc::Internal,
                        fmt::format("termalin-mcp wrote something that is not a message: {}", line));
        if (message->value("id", 0) != id)
            continue; // a notification
        if (message->contains("error"))
            return fail(Errc::QueryFailed, message->at("error").value("message", "an error without a text"));
        return message->at("result");
    }
}

Result<void> Client::notify(std::string const& method)
{
    return send({{"jsonrpc", "2.0"}, {"method", method}});
}

Result<void> Client::finish()
{
    m_in.reset();
    int status = 0;
    while (::waitpid(m_pid, &status, 0) < 0 && errno == EINTR)
        ;
    m_pid = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return {};
    return fail(Errc::Internal, "termalin-mcp did not end well.");
}

} // namespace termalin::demo
