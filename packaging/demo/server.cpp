#include "packaging/demo/server.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/account.h"

extern char** environ; // NOLINT(readability-redundant-declaration): unistd.h has it only as an extension

namespace termalin::demo {

namespace {

/// sshd insists on an absolute path of its own.
constexpr char const* kSshd = "/usr/sbin/sshd";

/// Starts a program with these three descriptors; a negative one is /dev/null.
Result<pid_t> spawn(std::vector<std::string> const& words, int in, int out, int err)
{
    posix_spawn_file_actions_t actions{};
    ::posix_spawn_file_actions_init(&actions);
    int target = 0;
    for (int const fd : {in, out, err}) {
        if (fd < 0)
            ::posix_spawn_file_actions_addopen(&actions, target, "/dev/null", O_RDWR, 0);
        else
            ::posix_spawn_file_actions_adddup2(&actions, fd, target);
        ++target;
    }
    std::vector<char*> arguments;
    for (auto const& word : words)
        arguments.push_back(
            const_cast<char*>(word.c_str())); // NOLINT(cppcoreguidelines-pro-type-const-cast): argv
    arguments.push_back(nullptr);
    pid_t pid = 0;
    auto const error = ::posix_spawnp(&pid, arguments.front(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return std::unexpected(
            systemError(Errc::NotFound, fmt::format("{} cannot be started", words.front()), error));
    return pid;
}

Result<void> waitFor(pid_t pid, std::string const& name)
{
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return {};
    return fail(Errc::Internal, fmt::format("{} failed.", name));
}

} // namespace

Result<Folder> Folder::make()
{
    auto pattern = (std::filesystem::temp_directory_path() / "termalin-demo-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
        return std::unexpected(systemError(Errc::Internal, "A temporary folder cannot be made", errno));
    return Folder(pattern);
}

Folder::~Folder()
{
    std::error_code ignored;
    if (!m_path.empty())
        std::filesystem::remove_all(m_path, ignored);
}

Result<void> run(std::vector<std::string> const& words, Output output)
{
    auto const shown = output == Output::Shown;
    TRY_LET(auto const pid, spawn(words, -1, shown ? STDOUT_FILENO : -1, STDERR_FILENO));
    return waitFor(pid, words.front());
}

Result<std::string> outputOf(std::vector<std::string> const& words)
{
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return std::unexpected(systemError(Errc::Internal, "A pipe cannot be made", errno));
    UniqueFd const reader(ends[0]);
    UniqueFd writer(ends[1]);
    TRY_LET(auto const pid, spawn(words, -1, writer.get(), STDERR_FILENO));
    writer.reset();
    std::string all;
    std::array<char, 4096> bytes{};
    for (;;) {
        auto const got = ::read(reader.get(), bytes.data(), bytes.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        all.append(bytes.data(), static_cast<std::size_t>(got));
    }
    TRY(waitFor(pid, words.front()));
    return all;
}

Result<std::unique_ptr<Server>> Server::start(std::filesystem::path const& folder)
{
    std::unique_ptr<Server> server(
        new Server(folder)); // NOLINT(modernize-make-unique): the constructor is private
    server->m_user = ownAccount();
    if (server->m_user.empty())
        return fail(Errc::NotFound, "The account that runs this has no name, and sshd needs one.");
    if (::access(kSshd, X_OK) != 0)
        return fail(Errc::NotFound,
                    fmt::format("There is no {}. Install it: apt-get install openssh-server", kSshd));
    TRY(server->makeKeys());
    TRY(server->writeConfiguration());
    TRY(server->listen());
    server->m_thread = std::jthread([raw = server.get()](std::stop_token const& stop) { raw->serve(stop); });
    return server;
}

Server::~Server()
{
    m_thread.request_stop();
    if (m_thread.joinable())
        m_thread.join();
    for (auto const pid : m_children) {
        ::kill(pid, SIGTERM);
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR)
            ;
    }
}

Result<void> Server::makeKeys()
{
    for (auto const* const name : {"host-key", "client-key"})
        TRY(run({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "termalin-demo", "-f",
                 (m_folder / name).string()},
                Output::Hidden));
    TRY_LET(auto const line,
            outputOf({"ssh-keygen", "-l", "-E", "sha256", "-f", (m_folder / "host-key.pub").string()}));
    std::istringstream words(line); // "256 SHA256:... comment (ED25519)"
    std::string bits;
    words >> bits >> m_fingerprint;
    return {};
}

Result<void> Server::writeConfiguration() const
{
    std::ofstream file(m_folder / "sshd_config");
    // Bash run by sshd reads ~/.bashrc, but not where it is a shell within a shell (bash(1), INVOCATION;
    // SHLVL): what somebody's start-up files do, and how long they take, is not what is shown here.
    file << "SetEnv SHLVL=2\n";
    file << "HostKey " << (m_folder / "host-key").string() << "\nAuthorizedKeysFile "
         << (m_folder / "client-key.pub").string()
         << "\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
            "PrintMotd no\nPrintLastLog no\nPidFile none\nSubsystem sftp internal-sftp\n";
    file.close();
    return file ? Result<void>()
                : fail(Errc::NoSpace, "The throw-away server's configuration cannot be written.");
}

Result<void> Server::listen()
{
    m_listener.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    if (!m_listener || ::bind(m_listener.get(), raw, length) != 0 || ::listen(m_listener.get(), 64) != 0 ||
        ::getsockname(m_listener.get(), raw, &length) != 0)
        return std::unexpected(systemError(Errc::Internal, "A loopback port cannot be had", errno));
    m_port = ntohs(address.sin_port);
    return {};
}

void Server::serve(std::stop_token const& stop)
{
    while (!stop.stop_requested()) {
        pollfd waiting{.fd = m_listener.get(), .events = POLLIN, .revents = 0};
        if (::poll(&waiting, 1, 100) <= 0)
            continue;
        UniqueFd const client(::accept4(m_listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!client)
            continue;
        auto const pid = spawn(
            {kSshd, "-i", "-f", (m_folder / "sshd_config").string(), "-E", (m_folder / "sshd.log").string()},
            client.get(), client.get(), -1);
        if (pid)
            m_children.push_back(*pid);
    }
}

} // namespace termalin::demo
