// Shows the main job with real parts: an OpenSSH server, a saved host, and an MCP conversation with
// termalin-mcp as an agent's client holds it. Exit code 0 when every step did what it should.

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/output_buffer.h"
#include "packaging/demo/client.h"
#include "packaging/demo/server.h"

namespace termalin::demo {

namespace {

void say(std::string const& line)
{
    (void)std::puts(line.c_str());
    (void)std::fflush(stdout); // what the programs that we start print comes after it
}

void heading(std::string const& line)
{
    say("\n-- " + line);
}

/// The conversation, step by step. Each step shows what an agent sends and what it gets.
class Conversation {
public:
    Conversation(Client& client, Server const& server, std::filesystem::path folder, std::string program)
        : m_client(client), m_server(server), m_folder(std::move(folder)), m_program(std::move(program))
    {
    }

    Result<void> hold()
    {
        TRY(begin());
        TRY(lookAround());
        TRY(useSession());
        TRY(moveFile());
        return narrow();
    }

private:
    /// Calls a tool that must answer; gives its structured content.
    Result<Json> call(std::string const& tool, Json const& arguments)
    {
        TRY_LET(auto const result, send(tool, arguments));
        if (result.value("isError", false))
            return fail(Errc::QueryFailed, fmt::format("{} failed: {}", tool, textOf(result)));
        auto const& content = result.at("structuredContent");
        say("   <- " + cut(toLine(content)));
        return content;
    }

    Result<Json> send(std::string const& tool, Json const& arguments)
    {
        say(fmt::format("   -> {} {}", tool, cut(toLine(arguments))));
        return m_client.request("tools/call", {{"name", tool}, {"arguments", arguments}});
    }

    static std::string textOf(Json const& result) { return result.at("content").at(0).value("text", ""); }

    static std::string cut(std::string const& line)
    {
        constexpr std::size_t kMost = 300;
        return visible(line.size() > kMost ? line.substr(0, kMost) + "..." : line);
    }

    static Result<void> expect(bool holds, std::string const& what)
    {
        return holds ? Result<void>() : fail(Errc::QueryFailed, "Not as expected: " + what);
    }

    Result<void> begin()
    {
        heading("The agent's client starts termalin-mcp and greets it");
        TRY_LET(
            auto const hello,
            m_client.request("initialize", {{"protocolVersion", "2025-11-25"},
                                            {"capabilities", Json::object()},
                                            {"clientInfo", {{"name", "termalin-demo"}, {"version", "1"}}}}));
        say(fmt::format("   <- {} {}, protocol {}", hello.at("serverInfo").value("name", ""),
                        hello.at("serverInfo").value("version", ""), hello.value("protocolVersion", "")));
        TRY(m_client.notify("notifications/initialized"));
        TRY_LET(auto const list, m_client.request("tools/list", Json::object()));
        say(fmt::format("   <- {} tools", list.at("tools").size()));
        return expect(list.at("tools").size() == 22, "22 tools");
    }

    Result<void> lookAround()
    {
        heading("It looks which hosts it may use, and runs a command");
        TRY_LET(auto const hosts, call("hosts_list", Json::object()));
        TRY(expect(hosts.at("hosts").size() == 1 && hosts.at("hosts").at(0).value("name", "") == "demo",
                   "one host, demo"));
        TRY_LET(auto const ran,
                call("ssh_exec", {{"host", "demo"}, {"command", "echo \"hello from $(uname -s)\"; exit 3"}}));
        return expect(ran.value("output", "").starts_with("hello from ") && ran.value("exitCode", -1) == 3,
                      "the command's output and its exit code 3");
    }

    Result<void> useSession()
    {
        heading("It keeps a session, and forwards a port through it");
        TRY_LET(auto const opened, call("session_open", {{"host", "demo"}}));
        auto const session = opened.value("sessionId", "");
        TRY_LET(auto const ran, call("session_exec", {{"session", session}, {"command", "id -un"}}));
        TRY(expect(ran.value("output", "") == m_server.user() + "\n", "the account's name"));
        TRY_LET(auto const tunnel,
                call("tunnel_open",
                     {{"session", session}, {"remoteHost", "127.0.0.1"}, {"remotePort", m_server.port()}}));
        TRY_LET(auto const banner, firstLineFrom(tunnel.value("listenAddr", "")));
        say("   through the tunnel: " + visible(banner));
        TRY(expect(banner.starts_with("SSH-2.0-"), "the server's greeting through the tunnel"));
        TRY(call("tunnel_list", Json::object()));
        TRY(call("tunnel_close", {{"tunnel", tunnel.value("tunnelId", "")}}));
        TRY(call("session_close", {{"session", session}}));
        return {};
    }

    Result<void> moveFile()
    {
        heading("It puts a file there and gets it back");
        auto const path = (m_folder / "from-the-agent.txt").string();
        std::string const content = "Written by an agent, with its person's leave.\n";
        TRY_LET(auto const put, call("sftp_put", {{"host", "demo"}, {"path", path}, {"content", content}}));
        TRY(expect(put.value("created", false), "a new file"));
        TRY_LET(auto const got, call("sftp_get", {{"host", "demo"}, {"path", path}}));
        return expect(got.value("content", "") == content, "the same content back");
    }

    Result<void> narrow()
    {
        heading("Meanwhile its person narrows what it may do: only `uname -s`");
        say("   $ termalin-mcp host set demo --policy allowlist --allow 'uname -s'");
        TRY(run({m_program, "host", "set", "demo", "--policy", "allowlist", "--allow", "uname -s"},
                Output::Hidden));
        TRY_LET(auto const admitted, call("ssh_exec", {{"host", "demo"}, {"command", "uname -s"}}));
        TRY(expect(admitted.value("exitCode", -1) == 0, "the admitted command runs"));
        TRY_LET(auto const refused, send("ssh_exec", {{"host", "demo"}, {"command", "uname -s; id"}}));
        say("   <- refused: " + visible(textOf(refused)));
        return expect(refused.value("isError", false) && textOf(refused).starts_with("not_in_allowlist"),
                      "the other command is refused");
    }

    static Result<std::string> firstLineFrom(std::string const& listenAddr)
    {
        auto const colon = listenAddr.rfind(':');
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(listenAddr.c_str() + colon + 1)));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        UniqueFd const fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (colon == std::string::npos ||
            ::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
            return std::unexpected(systemError(Errc::Unreachable, "The tunnel cannot be used", errno));
        std::string line;
        while (line.find('\n') == std::string::npos && line.size() < 256) {
            pollfd waiting{.fd = fd.get(), .events = POLLIN, .revents = 0};
            char byte = 0;
            if (::poll(&waiting, 1, 30'000) <= 0 || ::read(fd.get(), &byte, 1) != 1)
                return fail(Errc::Unreachable, "Nothing came through the tunnel.");
            line += byte;
        }
        return line.substr(0, line.find_first_of("\r\n"));
    }

    Client& m_client;
    Server const& m_server;
    std::filesystem::path m_folder;
    std::string m_program;
};

Result<void> demonstrate(std::string const& program)
{
    TRY_LET(auto const folder, Folder::make());
    auto const home = folder.path() / "home";
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread yet, and the server's will hand it on
    ::setenv("TERMALIN_HOME", home.c_str(), 1);
    TRY_LET(auto const server, Server::start(folder.path()));

    auto const login = fmt::format("{}@127.0.0.1:{}", server->user(), server->port());
    heading("A person saves a server, and says what agents may do there");
    say(fmt::format("   (a throw-away OpenSSH server on 127.0.0.1:{}, for the account {})", server->port(),
                    server->user()));
    say(fmt::format("   $ termalin-mcp host add demo {} --key {} --policy full --yes", login,
                    server->clientKey().string()));
    TRY(run({program, "host", "add", "demo", login, "--key", server->clientKey().string(), "--policy", "full",
             "--yes"},
            Output::Hidden));
    say(fmt::format("   $ termalin-mcp host trust demo --fingerprint {}", server->fingerprint()));
    TRY(run({program, "host", "trust", "demo", "--fingerprint", server->fingerprint()}, Output::Shown));

    TRY_LET(auto client, Client::start(program));
    TRY(Conversation(client, *server, folder.path(), program).hold());
    TRY(client.finish());
    heading("All of it is on record: termalin-mcp audit verify");
    return run({program, "audit", "verify"}, Output::Shown);
}

} // namespace

} // namespace termalin::demo

// NOLINTNEXTLINE(bugprone-exception-escape): one of the JSON library ends the demo with its text
int main(int argc, char** argv)
{
    if (argc != 2) {
        (void)std::fputs("usage: termalin-demo TERMALIN-MCP\n", stderr);
        return 2;
    }
    (void)std::signal(SIGPIPE, SIG_IGN);
    std::error_code error;
    auto const program = std::filesystem::absolute(argv[1], error);
    auto const done = termalin::demo::demonstrate(program.string());
    if (!done) {
        (void)std::fflush(stdout);
        (void)std::fprintf(stderr, "\ntermalin-demo: %s\n", done.error().message.c_str());
        return 1;
    }
    termalin::demo::say(
        "\nEvery step did what it should. What was started is ended, what was written is gone.");
    return 0;
}
