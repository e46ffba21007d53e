#include "tests/support/sshd.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <pwd.h>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/support/process.h"
#include "tests/support/program.h"

namespace termalin::test {
namespace {

constexpr auto kSshd = "/usr/sbin/sshd";

/// The pids of a process and of its children that are sshd too.
std::vector<pid_t> withChildren(pid_t pid)
{
    std::vector<pid_t> all{pid};
    std::istringstream lines(run({"ps", "-eo", "pid=,ppid=,comm="}).out);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        pid_t child = 0;
        pid_t parent = 0;
        std::string name;
        words >> child >> parent >> name;
        if (name.starts_with("sshd") && std::ranges::find(all, parent) != all.end())
            all.push_back(child);
    }
    return all;
}

} // namespace

bool Sshd::canBeOthers()
{
    return ::geteuid() == 0;
}

Sshd::Sshd(SshdOptions options) : m_options(std::move(options))
{
    if (!std::filesystem::exists(kSshd))
        throw std::runtime_error("these tests need openssh-server (its program only; none is started)");
    if (m_options.ordinaryUser && !canBeOthers())
        throw std::runtime_error("a server for another account needs root");
    m_uid = m_options.ordinaryUser ? 64'321 : ::getuid();
    m_gid = m_options.ordinaryUser ? 64'321 : ::getgid();
    auto const* const me = ::getpwuid(::getuid()); // NOLINT(concurrency-mt-unsafe): before any thread
    m_user = m_options.ordinaryUser || me == nullptr ? "tester" : me->pw_name;

    std::filesystem::permissions(m_dir.path(), std::filesystem::perms(0755));
    std::filesystem::create_directory(home());
    if (::chown(home().c_str(), m_uid, m_gid) != 0)
        throw std::runtime_error("cannot give the home folder away");
    if (::geteuid() == 0)
        ::mkdir("/run/sshd", 0755); // where sshd itself expects an empty folder; packages make it at boot
    listen();
    auto const dir = m_dir.path().string();
    mustRun({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", dir + "/user"});
    std::filesystem::copy_file(dir + "/user.pub", authorizedKeys());
    std::ofstream known(knownHosts());
    for (auto const& type : m_options.hostKeyTypes) {
        mustRun({"ssh-keygen", "-q", "-t", type, "-N", "", "-C", "test", "-f", dir + "/host_" + type});
        known << "[127.0.0.1]:" << m_port << ' ' << readFile(dir + "/host_" + type + ".pub");
    }
    known.close();
    writeAccounts();
    writeConfig();
    m_server = std::jthread([this](std::stop_token const& stop) { serve(stop); });
}

Sshd::~Sshd()
{
    m_server.request_stop();
    if (m_server.joinable())
        m_server.join();
    for (auto const pid : m_children)
        for (auto const each : withChildren(pid))
            ::kill(each, SIGKILL);
    for (auto const pid : m_children)
        ::waitpid(pid, nullptr, 0);
}

void Sshd::writeAccounts() const
{
    std::ofstream passwd(m_dir / "passwd");
    auto const line = [&](std::string const& name, uid_t uid, gid_t gid, std::string const& folder,
                          std::string const& shell) {
        auto const hash = name == m_user && !m_options.password.empty()
                              ? mustRun({"openssl", "passwd", "-6", "-stdin"}, {}, m_options.password)
                              : std::string("x");
        passwd << name << ':' << hash.substr(0, hash.find('\n')) << ':' << uid << ':' << gid << "::" << folder
               << ':' << shell << '\n';
    };
    line(m_user, m_uid, m_gid, home().string(), m_options.loginShell);
    if (m_user != "sshd")
        line("sshd", 64'322, 65'534, "/run/sshd", "/usr/sbin/nologin");
    std::ofstream(m_dir / "group") << "tester:x:" << m_gid << ":\nnogroup:x:65534:\n";
}

void Sshd::writeConfig() const
{
    auto const dir = m_dir.path().string();
    std::ofstream config(m_dir / "sshd_config");
    for (auto const& line : m_options.config)
        config << line << '\n';
    for (auto const& type : m_options.hostKeyTypes)
        config << "HostKey " << dir << "/host_" << type << '\n';
    if (m_options.acceptEnv)
        config << "AcceptEnv LANG LC_*\n";
    if (m_options.sftp)
        config << "Subsystem sftp internal-sftp\n";
    config << "MaxSessions " << m_options.maxSessions << "\nAuthorizedKeysFile " << dir
           << "/authorized_keys\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nUseDNS no\n"
           << "KbdInteractiveAuthentication no\nPermitRootLogin yes\nPrintMotd no\nPidFile none\n";
}

void Sshd::listen()
{
    m_listener = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(m_listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(m_listener.get(), 256) != 0 ||
        ::getsockname(m_listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw std::runtime_error("cannot listen on loopback");
    m_port = ::ntohs(address.sin_port);
}

void Sshd::serve(std::stop_token const& stop)
{
    while (!stop.stop_requested()) {
        pollfd ready{m_listener.get(), POLLIN, 0};
        auto const any = ::poll(&ready, 1, 20);
        reap();
        if (any <= 0)
            continue;
        UniqueFd const client(::accept4(m_listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (client)
            spawn(client.get());
    }
}

void Sshd::spawn(int client)
{
    auto const config = m_dir / "sshd_config";
    auto const log = m_dir / "log";
    std::array<char const*, 7> const argv{kSshd, "-i", "-f", config.c_str(), "-E", log.c_str(), nullptr};
    std::vector<std::string> variables{std::string("PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
                                       std::string("LD_PRELOAD=libnss_wrapper.so"),
                                       "NSS_WRAPPER_PASSWD=" + (m_dir / "passwd").string(),
                                       "NSS_WRAPPER_GROUP=" + (m_dir / "group").string()};
    for (auto const& given : m_options.environment) {
        std::erase_if(variables, [&](std::string const& had) {
            return had.starts_with(given.substr(0, given.find('=') + 1));
        });
        variables.push_back(given);
    }
    std::vector<char*> environment;
    for (auto const& variable : variables)
        environment.push_back(const_cast<char*>(variable.c_str()));
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (auto const fd : {0, 1})
        posix_spawn_file_actions_adddup2(&actions, client, fd);
    // What a wrapper has to say must not end up in the protocol.
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    pid_t pid = 0;
    auto const rc = ::posix_spawn(&pid, kSshd, &actions, nullptr, const_cast<char* const*>(argv.data()),
                                  environment.data());
    posix_spawn_file_actions_destroy(&actions);
    std::lock_guard const lock(m_mutex);
    ++m_accepted;
    if (rc == 0)
        m_children.push_back(pid);
}

void Sshd::reap()
{
    std::lock_guard const lock(m_mutex);
    std::erase_if(m_children, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) == pid; });
}

std::vector<pid_t> Sshd::sessions() const
{
    std::lock_guard const lock(m_mutex);
    return m_children;
}

std::size_t Sshd::accepted() const
{
    std::lock_guard const lock(m_mutex);
    return m_accepted;
}

void Sshd::killSessions()
{
    for (auto const pid : sessions())
        for (auto const each : withChildren(pid))
            ::kill(each, SIGKILL);
}

ssh::Target Sshd::target() const
{
    ssh::Target target;
    target.name = "test server";
    target.hostname = "127.0.0.1";
    target.port = m_port;
    target.user = m_user;
    target.keyFiles = {userKey().string()};
    return target;
}

ssh::LoginContext Sshd::context() const
{
    ssh::LoginContext context;
    context.ownKnownHosts = knownHosts();
    context.credentials = std::make_shared<ssh::NoCredentials>();
    return context;
}

ssh::LoginContext Sshd::contextAt(std::uint16_t port) const
{
    auto const from = "]:" + std::to_string(m_port) + ' ';
    auto const to = "]:" + std::to_string(port) + ' ';
    auto known = readFile(knownHosts());
    for (auto at = known.find(from); at != std::string::npos; at = known.find(from, at + to.size()))
        known.replace(at, from.size(), to);
    auto context = this->context();
    context.ownKnownHosts = folder() / ("known_hosts_" + std::to_string(port));
    writeFile(context.ownKnownHosts, known);
    return context;
}

std::shared_ptr<ssh::Connection> Sshd::connect() const
{
    auto opened = ssh::Connection::open(route(), context(), Deadline::in(std::chrono::seconds(30)), {});
    if (!opened)
        throw std::runtime_error("no connection: " + opened.error().message + " [" + opened.error().source +
                                 "]\n" + log());
    return *std::move(opened);
}

} // namespace termalin::test
