#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/command_policy.h"
#include "core/deadline.h"
#include "core/paths.h"
#include "core/unique_fd.h"
#include "mcp-stdio/cli/clients.h"
#include "mcp-stdio/cli/doctor.h"
#include "mcp-stdio/cli/program.h"

namespace termalin::cli {

namespace {

using namespace std::chrono_literals;

/// Connects to a Unix socket; the system's number when it cannot.
std::expected<UniqueFd, int> connectTo(std::string const& path)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return std::unexpected(ENAMETOOLONG);
    std::memcpy(address.sun_path, path.data(), path.size());
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd || ::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        return std::unexpected(errno);
    return fd;
}

std::string textOf(int number)
{
    return std::generic_category().message(number);
}

/// Asks an ssh-agent for its keys (draft-ietf-sshm-ssh-agent, 3.5) and waits for the head of the answer.
/// Gives what is wrong, or nothing.
std::optional<std::string> agentProblem(std::string const& socket)
{
    auto const connected = connectTo(socket);
    if (!connected)
        return textOf(connected.error());
    constexpr std::array<char, 5> kRequestIdentities{0, 0, 0, 1, 11};
    if (::send(connected->get(), kRequestIdentities.data(), kRequestIdentities.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(kRequestIdentities.size()))
        return textOf(errno);
    auto const deadline = Deadline::in(3s);
    std::array<char, 5> head{};
    std::size_t have = 0;
    while (have < head.size()) {
        pollfd waiting{.fd = connected->get(), .events = POLLIN, .revents = 0};
        if (deadline.passed())
            return "it does not answer within 3 s";
        if (::poll(&waiting, 1, deadline.pollTimeout()) <= 0)
            continue;
        auto const got = ::read(connected->get(), head.data() + have, head.size() - have);
        if (got == 0)
            return "it closes the line without an answer";
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return textOf(errno);
        have += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    constexpr char kIdentitiesAnswer = 12;
    return head.back() == kIdentitiesAnswer ? std::nullopt
                                            : std::optional<std::string>("it refuses to list its keys");
}

Findings checkKeyFile(std::string const& where, std::string const& file)
{
    struct stat info{};
    auto const finding = [&](std::string what, std::string todo) {
        return Findings{{Fault::KeyFileMode, where, std::move(what), std::move(todo)}};
    };
    if (::stat(file.c_str(), &info) != 0)
        return finding(fmt::format("The key file {} cannot be looked at: {}.", file, textOf(errno)),
                       fmt::format("Put it there, or name another: termalin-mcp host set {} --key FILE",
                                   asArgument(where)));
    if (file.ends_with(".pub"))
        return {};
    if ((info.st_mode & 077U) != 0)
        return finding(
            fmt::format("The key file {} has mode {:04o}: others on this computer may use it, and ssh "
                        "refuses such a key.",
                        file, info.st_mode & 07777U),
            fmt::format("Close it to others: chmod 600 {}", asTyped({file})));
    if (info.st_uid != ::geteuid() && info.st_uid != 0)
        return finding(fmt::format("The key file {} belongs to another user.", file),
                       fmt::format("Take it over: chown $(id -u) {}", asTyped({file})));
    if (::access(file.c_str(), R_OK) != 0)
        return finding(fmt::format("The key file {} cannot be read: {}.", file, textOf(errno)),
                       fmt::format("Make it readable for you: chmod 600 {}", asTyped({file})));
    return {};
}

Findings checkClient(Client const& client)
{
    auto const file = configurationOf(client);
    if (!file)
        return {};
    auto const text = readFile(*file);
    if (!text && text.error().code == Errc::NotFound)
        return {};
    auto const finding = [&](std::string what, std::string todo) {
        return Findings{{Fault::ClientConfiguration, file->string(), std::move(what), std::move(todo)}};
    };
    if (!text)
        return finding(text.error().message,
                       fmt::format("Make it readable, so that {} can start us.", client.label));
    auto const command = commandIn(client, *text);
    if (!command)
        return finding(
            fmt::format("{}'s configuration is broken: {}.", client.label, command.error().message),
            "Repair it by hand; nothing of it was changed.");
    if (!*command)
        return {};
    auto const& program = **command;
    auto const there =
        program.contains('/') ? ::access(program.c_str(), X_OK) == 0 : findInPath(program).has_value();
    if (there)
        return {};
    return finding(
        fmt::format("{} is told to start '{}', which is not there or not a program.", client.label, program),
        fmt::format("Point it at this program: termalin-mcp install {}", client.name));
}

} // namespace

Findings checkAgent(std::string const& where, ssh::Target const& target, AuthType expected)
{
    if (target.agentSocket.empty()) {
        if (expected != AuthType::Agent || !target.keyFiles.empty())
            return {};
        return {{Fault::AgentDead, where,
                 "It is logged in to by ssh-agent, but there is none: SSH_AUTH_SOCK is not set or not "
                 "used, and the host names no socket.",
                 fmt::format("Start one (eval $(ssh-agent); ssh-add), or name it: termalin-mcp host set {} "
                             "--agent SOCKET. "
                             "Or name a key file with --key.",
                             asArgument(where))}};
    }
    auto const problem = agentProblem(target.agentSocket);
    if (!problem)
        return {};
    return {{Fault::AgentDead, where,
             fmt::format("The ssh-agent at {} does not work: {}.", target.agentSocket, *problem),
             fmt::format("Start it anew (eval $(ssh-agent); ssh-add) and the client with it, or name "
                         "another: termalin-mcp "
                         "host set {} --agent SOCKET, or none.",
                         asArgument(where))}};
}

Findings checkKeyFiles(std::string const& where, ssh::Target const& target)
{
    Findings found;
    for (auto const& file : target.keyFiles)
        for (auto& finding : checkKeyFile(where, file))
            found.push_back(std::move(finding));
    return found;
}

Findings checkVault(Host const& host, Vault& vault)
{
    auto needed = host.authType == AuthType::Password;
    for (auto const& file : host.keyFiles) {
        auto const has = vault.hasSecret(host.id, "passphrase:" + file);
        needed = needed || (has && *has);
    }
    if (!needed || vault.state() == Vault::State::Open)
        return {};
    if (vault.state() == Vault::State::Missing)
        return {
            {Fault::VaultLocked, host.name,
             "It is logged in to with a saved password, but there is no vault.",
             fmt::format("Make one (termalin-mcp vault init), then: termalin-mcp host set {} --ask-password",
                         asArgument(host.name))}};
    auto const opened = vault.unlockSilently();
    if (opened)
        return {};
    return {{Fault::VaultLocked, host.name, "Its login needs a secret from the vault, which is locked.",
             "Open it: termalin-mcp vault unlock"}};
}

Findings checkSocket(std::filesystem::path const& socket, std::string_view of)
{
    struct stat info{};
    if (::lstat(socket.c_str(), &info) != 0)
        return {};
    auto const finding = [&](std::string what) {
        return Findings{
            {Fault::StaleSocket, socket.string(), std::move(what),
             fmt::format("If {} does not run, remove it: rm {}", of, asTyped({socket.string()}))}};
    };
    if (!S_ISSOCK(info.st_mode))
        return finding(fmt::format("Where the socket of {} belongs lies something else.", of));
    if (info.st_uid != ::geteuid() || (info.st_mode & 077U) != 0)
        return finding(fmt::format(
            "The socket of {} belongs to another user or is open to others, so it is not used.", of));
    auto const connected = connectTo(socket.string());
    // A full queue means that somebody listens.
    if (connected || connected.error() == EAGAIN)
        return {};
    return finding(fmt::format("The socket of {} is a leftover: nothing listens there ({}).", of,
                               textOf(connected.error())));
}

Findings checkClients()
{
    Findings found;
    for (auto const& client : clients())
        for (auto& finding : checkClient(client))
            found.push_back(std::move(finding));
    return found;
}

} // namespace termalin::cli
