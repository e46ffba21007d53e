#include "tests/e2e/cli_home.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/deadline.h"
#include "core/unique_fd.h"

namespace termalin::test {

namespace {

using namespace std::chrono_literals;

int statusOf(pid_t pid)
{
    int raw = 0;
    while (::waitpid(pid, &raw, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

/// Reads more of the terminal; false at its end.
bool readMore(int terminal, std::string& shown, Deadline deadline)
{
    pollfd waiting{.fd = terminal, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, deadline.pollTimeout()) <= 0)
        return !deadline.passed();
    std::array<char, 4096> bytes{};
    auto const got = ::read(terminal, bytes.data(), bytes.size()); // EIO: the other side is closed
    if (got > 0)
        shown.append(bytes.data(), static_cast<std::size_t>(got));
    return got > 0;
}

} // namespace

CliHome::CliHome()
{
    for (auto const& folder : {home(), bin()})
        std::filesystem::create_directory(folder);
}

std::vector<std::string> CliHome::environment() const
{
    return {"TERMALIN_HOME=" + data().string(), "HOME=" + home().string(),
            "XDG_CONFIG_HOME=" + (home() / ".config").string(),
            // Neither the machine's own clients nor its keyring are part of a test.
            "PATH=" + bin().string() + ":/usr/bin:/bin", "DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent",
            "SSH_AUTH_SOCK="};
}

Ran CliHome::run(Words const& words, std::string_view input) const
{
    Words all{TERMALIN_MCP};
    all.insert(all.end(), words.begin(), words.end());
    return test::run(all, environment(), input);
}

std::string CliHome::must(Words const& words, std::string_view input) const
{
    auto const ran = run(words, input);
    if (!ran.ok())
        throw std::runtime_error(fmt::format("exit code {}: {}", ran.status, ran.out));
    return ran.out;
}

Ran CliHome::onTerminal(Words const& words, std::vector<Turn> const& turns) const
{
    Words all{TERMALIN_MCP};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (auto& word : all)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    auto const variables = environment();
    int raw = -1;
    auto const pid = ::forkpty(&raw, nullptr, nullptr, nullptr);
    if (pid < 0)
        throw std::runtime_error("no pseudo terminal");
    if (pid == 0) {
        for (auto const& variable : variables)
            ::putenv(const_cast<char*>(
                variable.c_str())); // NOLINT(concurrency-mt-unsafe): the child has one thread
        ::execv(arguments.front(), arguments.data());
        ::_exit(127);
    }
    UniqueFd const terminal(raw);
    auto const deadline = Deadline::in(90s);
    Ran ran;
    std::size_t seen = 0;
    for (auto const& turn : turns) {
        auto at = std::string::npos;
        while ((at = ran.out.find(turn.awaited, seen)) == std::string::npos)
            if (!readMore(terminal.get(), ran.out, deadline))
                break;
        if (at == std::string::npos)
            break;
        seen = at + turn.awaited.size();
        if (::write(terminal.get(), turn.typed.data(), turn.typed.size()) < 0)
            break;
    }
    while (readMore(terminal.get(), ran.out, deadline))
        ;
    if (deadline.passed())
        ::kill(pid, SIGKILL);
    ran.status = statusOf(pid);
    return ran;
}

Json CliHome::host(std::string const& name) const
{
    auto const list = parseJson(must({"host", "list", "--json"}));
    for (auto const& host : list->at("hosts"))
        if (host.at("name") == name)
            return host;
    return nullptr;
}

std::vector<Store::Widening> CliHome::widenings() const
{
    auto const store = Store::open(data() / "termalin.db");
    if (!store)
        throw std::runtime_error(store.error().message);
    return (*store)->widenings().value();
}

std::vector<Json> CliHome::notes() const
{
    std::vector<Json> found;
    std::istringstream lines(readFile(data() / "audit/audit.jsonl"));
    for (std::string line; std::getline(lines, line);)
        if (auto json = parseJson(line); json && json->value("kind", "") == "note")
            found.push_back(*std::move(json));
    return found;
}

void CliHome::addServer(std::string const& name, Sshd const& server) const
{
    must({"host", "add", name, loginOf(server), "--key", server.userKey().string()});
    must({"host", "trust", name, "--fingerprint", fingerprintOf(server)});
}

void CliHome::trustAnotherKey(Sshd const& server) const
{
    auto const key = folder() / "another";
    mustRun({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key.string()});
    std::istringstream words(readFile(key.string() + ".pub"));
    std::string type;
    std::string blob;
    words >> type >> blob;
    std::filesystem::create_directory(data());
    std::filesystem::permissions(data(), std::filesystem::perms::owner_all);
    writeFile(data() / "known_hosts", fmt::format("[127.0.0.1]:{} {} {}\n", server.port(), type, blob));
}

std::string loginOf(Sshd const& server)
{
    return fmt::format("{}@127.0.0.1:{}", server.user(), server.port());
}

std::string fingerprintOf(Sshd const& server)
{
    // The fixture's known_hosts has the server's key; ssh-keygen reads that format too.
    std::istringstream words(
        mustRun({"ssh-keygen", "-l", "-E", "sha256", "-f", server.knownHosts().string()}));
    std::string bits;
    std::string fingerprint;
    words >> bits >> fingerprint;
    return fingerprint;
}

void leaveStaleSocket(std::filesystem::path const& path)
{
    UniqueFd const fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    auto const text = path.string();
    if (text.size() >= sizeof address.sun_path)
        throw std::runtime_error("the socket's path is too long");
    std::memcpy(address.sun_path, text.data(), text.size());
    if (::bind(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        throw std::runtime_error("no socket");
    std::filesystem::permissions(path,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

} // namespace termalin::test
