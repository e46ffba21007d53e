// The 13 headless tools against a real sshd, by JSON-RPC lines.
#include <arpa/inet.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <netinet/in.h>
#include <sstream>
#include <sys/socket.h>

#include "tests/mcp-stdio/desk.h"
#include "tests/support/program.h"

namespace termalin::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ToolsTest : public ::testing::Test {
protected:
    Reply exec(std::string const& command, std::string const& host = "web")
    {
        return m_desk.call("ssh_exec", {{"host", host}, {"command", command}});
    }
    std::string session(std::string const& host = "web")
    {
        return m_desk.call("session_open", {{"host", host}}).value().at("sessionId");
    }

    Sshd m_server;
    Desk m_desk;
};

/// The first line that whoever listens on a port of this computer says.
std::string greetingOf(std::string const& listenAddr)
{
    UniqueFd const fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(listenAddr.substr(listenAddr.find(':') + 1))));
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        return "refused";
    std::string line;
    for (char c = 0; ::read(fd.get(), &c, 1) == 1 && c != '\n';)
        line += c;
    return line;
}

TEST_F(ToolsTest, HostsListShowsWhatIsOpenAndNothingElse)
{
    m_desk.save(m_server, "web", AgentPolicy::Full, [](Host& host) {
        host.tags = {"production"};
        host.notes = "Restart with care.";
    });
    m_desk.save(m_server, "db", AgentPolicy::Allowlist);
    m_desk.save(m_server, "hidden", AgentPolicy::Blocked);
    auto const hosts = m_desk.call("hosts_list", Json::object()).value().at("hosts");
    ASSERT_EQ(hosts.size(), 2U) << hosts;
    EXPECT_EQ(hosts[0]["name"], "db");
    EXPECT_EQ(hosts[0]["policy"], "allowlist");
    EXPECT_FALSE(hosts[0].contains("notes"));
    EXPECT_EQ(hosts[1]["tags"], Json({"production"}));
    EXPECT_EQ(hosts[1]["notes"], "Restart with care.");
    EXPECT_EQ(hosts[1]["port"], m_server.port());
    EXPECT_EQ(hosts[1]["authType"], "key");
    EXPECT_THAT(hosts.dump(), Not(HasSubstr(m_server.userKey().string())));
}

TEST_F(ToolsTest, AHostWithoutAUserNameIsListedWithTheOneThatALoginWouldTake)
{
    m_desk.save(m_server, "web", AgentPolicy::Full, [](Host& host) { host.username.clear(); });
    auto const own = test::run({"id", "-un"}).out;
    auto const listed = m_desk.call("hosts_list", Json::object()).value().at("hosts").at(0);
    EXPECT_EQ(listed["username"].get<std::string>() + "\n", own);
}

TEST_F(ToolsTest, APasswordIsMadeToMeasureAndKeptOutOfTheRecord)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    for (auto const& [asked, given] : {std::pair{-5, 8}, {20, 20}, {1000, 128}}) {
        auto const made = m_desk.call("generate_password", {{"length", asked}}).value();
        EXPECT_EQ(made["length"], given);
        EXPECT_EQ(made["password"].get<std::string>().size(), static_cast<std::size_t>(given));
    }
    std::string const password = m_desk.call("generate_password", Json::object()).value().at("password");
    EXPECT_EQ(exec("echo '" + password + "'").value()["output"], password + "\n");
    EXPECT_THAT(readFile(m_desk.paths().audit), Not(HasSubstr(password)));
}

TEST_F(ToolsTest, ACommandsOutputAndEndAreToldAsTheyWere)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const done = exec("echo out; echo err >&2; cat; exit 7").value();
    EXPECT_EQ(done["exitCode"], 7);
    EXPECT_EQ(done["completion"], "exit");
    EXPECT_THAT(done["output"].get<std::string>(), HasSubstr("out\n"));
    EXPECT_THAT(done["output"].get<std::string>(), HasSubstr("err\n"));
    EXPECT_EQ(done["outputBytes"], 8);
    EXPECT_EQ(done["omittedBytes"], 0);
    EXPECT_EQ(done["truncated"], false);
    EXPECT_EQ(done["encoding"], "utf-8");
    EXPECT_FALSE(done.contains("stopped"));
    EXPECT_EQ(exec("printf '\\377'").value()["encoding"], "lossy");
    EXPECT_EQ(exec("kill -TERM $$").value()["signal"], "TERM");
    auto const record = readFile(m_desk.paths().audit);
    EXPECT_THAT(record, HasSubstr("policy: full"));
    EXPECT_THAT(record, HasSubstr("echo out; echo err"));
}

TEST_F(ToolsTest, ATimeoutStopsTheCommandAndReturnsWhatItPrinted)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const sessionId = session(); // logged in beforehand: the second is the command's alone
    auto const late =
        m_desk
            .call("session_exec",
                  {{"session", sessionId}, {"command", "echo begun; sleep 600"}, {"timeoutSeconds", 5}})
            .value();
    EXPECT_EQ(late["completion"], "timeout");
    EXPECT_EQ(late["output"], "begun\n");
    EXPECT_FALSE(late.contains("exitCode") && late["exitCode"] == 0);
    EXPECT_TRUE(late["stopped"] == "confirmed" || late.contains("note"));
}

TEST_F(ToolsTest, ACommandWhoseConnectionIsLostIsNotRunAgain)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const runs = (m_server.home() / "runs").string();
    auto const command = "echo run >>" + runs + "; kill -9 $PPID; sleep 2";
    std::string expected;
    for (int i = 0; i < 3;
         ++i) { // the first on a connection of its own, the others where a spare may be ready
        auto const lost = exec(command).value();
        EXPECT_EQ(lost["completion"], "disconnected");
        EXPECT_FALSE(lost.contains("exitCode"));
        EXPECT_THAT(lost["note"].get<std::string>(), HasSubstr("may or may not have finished"));
        expected += "run\n";
        EXPECT_EQ(readFile(runs), expected);
    }
    auto const id = session();
    auto const lost = m_desk.call("session_exec", {{"session", id}, {"command", command}}).value();
    EXPECT_EQ(lost["completion"], "disconnected");
    EXPECT_EQ(readFile(runs), expected + "run\n");
}

TEST_F(ToolsTest, WhatIsRefusedNeverReachesTheNetwork)
{
    m_desk.save(m_server, "closed", AgentPolicy::Blocked);
    auto const listed = m_desk.save(m_server, "listed", AgentPolicy::Allowlist, [](Host& host) {
        host.rules = {"uptime"};
        host.reads = {"/var/log/**"};
    });
    EXPECT_EQ(exec("id", "closed").code(), "blocked_by_policy");
    EXPECT_EQ(exec("id", "local").code(), "blocked_by_policy");
    EXPECT_EQ(exec("id", "nowhere").code(), "unknown_host");
    EXPECT_EQ(exec("id", "listed").code(), "not_in_allowlist");
    EXPECT_EQ(exec("uptime; id", listed.id).code(), "not_in_allowlist");
    EXPECT_EQ(m_desk.call("session_open", {{"host", "closed"}}).code(), "blocked_by_policy");
    for (auto const* const path : {"/etc/shadow", "/var/log/../../etc/shadow", "log"})
        for (auto const* const tool : {"sftp_get", "sftp_list"})
            EXPECT_EQ(m_desk.call(tool, {{"host", "listed"}, {"path", path}}).code(), "not_in_allowlist")
                << path;
    EXPECT_EQ(m_desk.call("sftp_put", {{"host", "listed"}, {"path", "/tmp/x"}, {"content", ""}}).code(),
              "needs_full_access");
    EXPECT_EQ(m_desk.call("session_exec", {{"session", "x"}, {"command", "id"}}).code(), "unknown_session");
    EXPECT_EQ(m_desk.call("session_close", {{"session", "x"}}).code(), "unknown_session");
    EXPECT_EQ(m_desk.call("tunnel_close", {{"tunnel", "x"}}).code(), "unknown_tunnel");
    EXPECT_EQ(m_desk.call("ssh_exec", {{"host", "listed"}}).code(), "invalid_argument");
    EXPECT_EQ(m_server.accepted(), 0U);
    EXPECT_THAT(readFile(m_desk.paths().audit), HasSubstr("refused"));
}

TEST_F(ToolsTest, OnAnAllowlistTheWordsReachTheProgramAsTheyWereJudged)
{
    m_desk.save(m_server, "web", AgentPolicy::Allowlist, [](Host& host) { host.rules = {"printf **"}; });
    EXPECT_EQ(exec("printf '%s|' \"a  b\" 'c$HOME;id'").value()["output"], "a  b|c$HOME;id|");
    EXPECT_THAT(readFile(m_desk.paths().audit), HasSubstr("rule: printf **"));
}

TEST_F(ToolsTest, ASessionIsOneConnectionForManyCommands)
{
    auto const host = m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const opened = m_desk.call("session_open", {{"host", "web"}}).value();
    EXPECT_EQ(opened["hostId"], host.id);
    EXPECT_EQ(opened["host"], "web");
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(m_desk.call("session_exec", {{"session", opened["sessionId"]}, {"command", "echo hi"}})
                      .value()["output"],
                  "hi\n");
    EXPECT_EQ(m_server.accepted(), 1U);
    auto const list = m_desk.call("session_list", Json::object()).value().at("sessions");
    ASSERT_EQ(list.size(), 1U);
    EXPECT_EQ(list[0]["sessionId"], opened["sessionId"]);
    EXPECT_THAT(list[0]["openedAt"].get<std::string>(), ::testing::ContainsRegex("^[0-9-]+T[0-9:]+Z$"));
    EXPECT_EQ(m_desk.call("session_close", {{"session", opened["sessionId"]}}).value()["closed"], true);
    EXPECT_EQ(m_desk.call("session_exec", {{"session", opened["sessionId"]}, {"command", "id"}}).code(),
              "unknown_session");
    EXPECT_EQ(m_desk.call("session_list", Json::object()).value().at("sessions").size(), 0U);
}

TEST_F(ToolsTest, ASessionsCommandsAreJudgedOneByOne)
{
    m_desk.save(m_server, "web", AgentPolicy::Allowlist, [](Host& host) { host.rules = {"echo *"}; });
    auto const id = session();
    EXPECT_EQ(m_desk.call("session_exec", {{"session", id}, {"command", "echo a"}}).value()["output"], "a\n");
    EXPECT_EQ(m_desk.call("session_exec", {{"session", id}, {"command", "id"}}).code(), "not_in_allowlist");
    m_desk.changeOutside("web", [](Host& host) { host.rules = {"id"}; });
    EXPECT_EQ(m_desk.call("session_exec", {{"session", id}, {"command", "echo a"}}).code(),
              "not_in_allowlist");
    EXPECT_EQ(m_desk.call("session_exec", {{"session", id}, {"command", "id"}}).code(), "");
}

TEST_F(ToolsTest, ATunnelLeadsThroughTheServerAndIsCounted)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const id = session();
    auto const tunnel =
        m_desk
            .call("tunnel_open",
                  {{"session", id}, {"remoteHost", "127.0.0.1"}, {"remotePort", m_server.port()}})
            .value();
    EXPECT_EQ(tunnel["kind"], "local");
    EXPECT_EQ(tunnel["target"], "127.0.0.1:" + std::to_string(m_server.port()));
    EXPECT_THAT(tunnel["listenAddr"].get<std::string>(), ::testing::StartsWith("127.0.0.1:"));
    EXPECT_THAT(greetingOf(tunnel["listenAddr"]), ::testing::StartsWith("SSH-2.0-"));
    auto const dynamic = m_desk.call("tunnel_open", {{"session", id}, {"type", "dynamic"}}).value();
    EXPECT_EQ(dynamic["kind"], "dynamic");
    EXPECT_FALSE(dynamic.contains("target"));
    auto const list = m_desk.call("tunnel_list", Json::object()).value().at("tunnels");
    ASSERT_EQ(list.size(), 2U);
    for (auto const& entry : list)
        EXPECT_EQ(entry["connections"], entry["kind"] == "local" ? 1 : 0);
    EXPECT_EQ(m_desk.call("tunnel_close", {{"tunnel", tunnel["tunnelId"]}}).value()["closed"], true);
    EXPECT_EQ(greetingOf(tunnel["listenAddr"]), "refused");
    m_desk.call("session_close", {{"session", id}});
    EXPECT_EQ(m_desk.call("tunnel_list", Json::object()).value().at("tunnels").size(), 0U);
    EXPECT_EQ(greetingOf(dynamic["listenAddr"]), "refused");
}

TEST_F(ToolsTest, TheRecordNamesTheHostOfEachCallAndWhatWasOpened)
{
    auto const host = m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const id = session();
    std::string const tunnel =
        m_desk.call("tunnel_open", {{"session", id}, {"type", "dynamic"}}).value().at("tunnelId");
    ASSERT_EQ(m_desk.call("session_exec", {{"session", id}, {"command", "true"}}).code(), "");
    ASSERT_EQ(m_desk.call("tunnel_close", {{"tunnel", tunnel}}).code(), "");
    ASSERT_EQ(m_desk.call("session_close", {{"session", id}}).code(), "");
    EXPECT_EQ(m_desk.call("session_close", {{"session", id}}).code(), "unknown_session");
    EXPECT_EQ(m_desk.call("tunnel_close", {{"tunnel", tunnel}}).code(), "unknown_tunnel");

    std::istringstream lines(readFile(m_desk.paths().audit));
    std::map<int, std::string> tools; // by the number of the line that begins a call
    std::map<std::string, std::string> opened;
    std::map<std::string, std::vector<std::string>> hosts;
    for (std::string text; std::getline(lines, text);) {
        auto const line = Json::parse(text);
        if (line["kind"] == "begin") {
            tools[line["n"]] = line["tool"];
            hosts[line["tool"]].push_back(line.value("host", "none"));
        } else if (line["kind"] == "end") {
            opened[tools.at(line["of"])] += line.value("note", "");
        }
    }
    for (auto const* const tool : {"session_open", "session_exec", "tunnel_open"})
        EXPECT_EQ(hosts[tool], std::vector<std::string>{"web"}) << tool;
    // The second of each is about nothing that is there any more.
    EXPECT_EQ(hosts["session_close"], (std::vector<std::string>{"web", "none"}));
    EXPECT_EQ(hosts["tunnel_close"], (std::vector<std::string>{"web", "none"}));
    EXPECT_THAT(opened["session_open"], HasSubstr(id));
    EXPECT_THAT(opened["tunnel_open"], HasSubstr(tunnel));
}

TEST_F(ToolsTest, WhatIsRefusedWhileAllIsStoppedIsRecordedAlsoOfToolsThatNeedTheApp)
{
    ASSERT_TRUE(changeSetting(m_desk.paths().settings, "agents.stopped", "true"));
    for (auto const& [tool, arguments] :
         {std::pair("terminal_sessions", Json::object()), std::pair("terminal_hosts", Json::object()),
          std::pair("hosts_list", Json::object())}) {
        EXPECT_EQ(m_desk.call(tool, arguments).code(), "consent_required") << tool;
        std::istringstream lines(readFile(m_desk.paths().audit));
        std::string last;
        for (std::string line; std::getline(lines, line);)
            last = line;
        auto const line = Json::parse(last);
        EXPECT_EQ(line["tool"], tool);
        EXPECT_EQ(line["decision"], "refused");
    }
}

TEST_F(ToolsTest, ATunnelThatWouldPoseAsASavedHostIsRefused)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const id = session();
    auto const free = *mcp::findFreePort();
    m_desk.save(m_server, "other", AgentPolicy::Blocked, [&](Host& host) {
        host.hostname = "localhost";
        host.port = free;
    });
    Json wish{
        {"session", id}, {"remoteHost", "127.0.0.1"}, {"remotePort", m_server.port()}, {"localPort", free}};
    EXPECT_EQ(m_desk.call("tunnel_open", wish).code(), "port_in_use");
    // The other way round: a tunnel first, and then somebody saves a host there.
    auto const tunnel =
        m_desk
            .call("tunnel_open",
                  {{"session", id}, {"remoteHost", "127.0.0.1"}, {"remotePort", m_server.port()}})
            .value();
    std::string const address = tunnel["listenAddr"];
    m_desk.save(m_server, "posing", AgentPolicy::Full, [&](Host& host) {
        host.port = static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1)));
    });
    EXPECT_EQ(exec("id", "posing").code(), "port_in_use");
}

TEST_F(ToolsTest, ATunnelsArgumentsHaveToFitItsType)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    m_desk.save(m_server, "listed", AgentPolicy::Allowlist);
    auto const id = session();
    EXPECT_EQ(m_desk.call("tunnel_open", {{"session", id}}).code(), "invalid_argument");
    EXPECT_EQ(m_desk.call("tunnel_open", {{"session", id}, {"type", "dynamic"}, {"remotePort", 80}}).code(),
              "invalid_argument");
    EXPECT_EQ(m_desk.call("tunnel_open", {{"session", session("listed")}, {"type", "dynamic"}}).code(),
              "needs_full_access");
}

TEST_F(ToolsTest, FilesComeAndGoWhole)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const folder = m_server.folder() / "files";
    std::filesystem::create_directory(folder);
    auto const file = (folder / "note.txt").string();
    auto const put = m_desk.call("sftp_put", {{"host", "web"}, {"path", file}, {"content", "grüße\n"}});
    ASSERT_EQ(put.code(), "") << put.text();
    EXPECT_EQ(put.value()["created"], true);
    EXPECT_EQ(put.value()["size"], 8);
    EXPECT_EQ(readFile(file), "grüße\n");
    auto const again =
        m_desk.call("sftp_put", {{"host", "web"}, {"path", file}, {"content", "//4A"}, {"base64", true}});
    EXPECT_EQ(again.value()["created"], false);
    EXPECT_EQ(again.value()["replaced"], "renamed");
    auto const got = m_desk.call("sftp_get", {{"host", "web"}, {"path", file}}).value();
    EXPECT_EQ(got["encoding"], "base64");
    EXPECT_EQ(got["content"], "//4A");
    EXPECT_EQ(got["size"], 3);
    std::filesystem::create_symlink(folder, folder / "link");
    auto const list = m_desk.call("sftp_list", {{"host", "web"}, {"path", folder.string()}}).value();
    EXPECT_EQ(list["truncated"], false);
    ASSERT_EQ(list["entries"].size(), 2U);
    for (auto const& entry : list["entries"]) {
        EXPECT_THAT(entry["modified"].get<std::string>(), ::testing::ContainsRegex("^[0-9-]+T[0-9:]+Z$"));
        EXPECT_EQ(entry["isLink"], entry["name"] == "link");
        EXPECT_EQ(entry["isDir"], entry["name"] == "link");
        EXPECT_THAT(entry["permissions"].get<std::string>(), ::testing::ContainsRegex("^0[0-7]{3}$"));
    }
}

TEST_F(ToolsTest, FilesThatAreTooLargeOrNotThereSaySo)
{
    m_desk.save(m_server, "web", AgentPolicy::Full);
    auto const file = m_server.folder() / "large";
    writeFile(file, std::string(4U * 1024U * 1024U + 1U, 'x'));
    auto const large = m_desk.call("sftp_get", {{"host", "web"}, {"path", file.string()}});
    EXPECT_EQ(large.code(), "too_large");
    EXPECT_THAT(large.text(), HasSubstr("tail"));
    EXPECT_EQ(m_desk.call("sftp_get", {{"host", "web"}, {"path", "/nowhere"}}).code(), "not_found");
    EXPECT_EQ(m_desk.call("sftp_list", {{"host", "web"}, {"path", "/nowhere"}}).code(), "not_found");
    EXPECT_EQ(
        m_desk.call("sftp_put", {{"host", "web"}, {"path", "/tmp/x"}, {"content", "!"}, {"base64", true}})
            .code(),
        "invalid_argument");
    EXPECT_EQ(m_desk
                  .call("sftp_put", {{"host", "web"},
                                     {"path", file.string()},
                                     {"content", std::string(4U * 1024U * 1024U + 1U, 'y')}})
                  .code(),
              "too_large");
    EXPECT_EQ(readFile(file)[0], 'x');
}

TEST_F(ToolsTest, ALinkDoesNotLeadOutOfWhatCanBeRead)
{
    auto const open = m_server.folder() / "open";
    std::filesystem::create_directories(open / "inside");
    writeFile(open / "inside/log", "line\n");
    writeFile(m_server.folder() / "secret", "secret\n");
    std::filesystem::create_symlink(m_server.folder() / "secret", open / "escape");
    std::filesystem::create_directory_symlink(m_server.folder(), open / "up");
    std::filesystem::create_symlink(open / "inside/log", open / "stays");
    m_desk.save(m_server, "web", AgentPolicy::Allowlist,
                [&](Host& host) { host.reads = {open.string() + "/**"}; });
    auto const get = [&](std::string const& path) {
        return m_desk.call("sftp_get", {{"host", "web"}, {"path", (open / path).string()}});
    };
    EXPECT_EQ(get("inside/log").value()["content"], "line\n");
    EXPECT_EQ(get("stays").value()["path"], (open / "inside/log").string());
    EXPECT_EQ(get("escape").code(), "not_in_allowlist");
    EXPECT_EQ(get("up/secret").code(), "not_in_allowlist");
    EXPECT_EQ(m_desk.call("sftp_list", {{"host", "web"}, {"path", (open / "up").string()}}).code(),
              "not_in_allowlist");
    EXPECT_THAT(get("escape").text(), Not(HasSubstr("secret\n")));
}

TEST_F(ToolsTest, AServerThatIsNotThereOrNotKnownIsToldApart)
{
    m_desk.save(m_server, "stranger", AgentPolicy::Full, [](Host& host) { host.knownHostsFiles = {"none"}; });
    m_desk.save(m_server, "nobody", AgentPolicy::Full, [](Host& host) { host.keyFiles = {"/nowhere/key"}; });
    m_desk.save(m_server, "gone", AgentPolicy::Full, [](Host& host) { host.port = 1; });
    EXPECT_EQ(exec("id", "stranger").code(), "host_key_unknown");
    EXPECT_EQ(exec("id", "nobody").code(), "auth_failed");
    auto const gone = exec("id", "gone");
    EXPECT_EQ(gone.code(), "unreachable");
    EXPECT_EQ(gone.result["_meta"]["retryable"], true);
}

TEST_F(ToolsTest, AServersKeyThatIsNotTheKnownOneIsToldWithBothFingerprints)
{
    Sshd const another;
    auto const keys = m_server.folder() / "other_known_hosts";
    std::ifstream lines(another.knownHosts());
    std::string address, type, key;
    ASSERT_TRUE(lines >> address >> type >> key);
    writeFile(keys, "[127.0.0.1]:" + std::to_string(m_server.port()) + " " + type + " " + key + "\n");
    m_desk.save(m_server, "web", AgentPolicy::Full,
                [&](Host& host) { host.knownHostsFiles = {keys.string()}; });
    auto const refused = exec("id");
    EXPECT_EQ(refused.code(), "host_key_changed");
    EXPECT_THAT(refused.text(), ::testing::ContainsRegex("SHA256:.*SHA256:"));
    EXPECT_EQ(refused.result["_meta"]["retryable"], false);
    EXPECT_THAT(m_server.log(), Not(HasSubstr("Accepted")));
}

TEST_F(ToolsTest, AKeyWhosePassphraseIsInALockedVaultIsToldAsThat)
{
    for (auto const* const name : {"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"})
        ::unsetenv(name); // NOLINT(concurrency-mt-unsafe): not the person's own keyring
    auto const key = m_server.folder() / "locked_key";
    std::filesystem::copy_file(m_server.userKey(), key);
    ASSERT_TRUE(
        run({"ssh-keygen", "-q", "-p", "-a", "1", "-P", "", "-N", "a passphrase", "-f", key.string()}).ok());
    auto const host = m_desk.save(m_server, "web", AgentPolicy::Full,
                                  [&](Host& saved) { saved.keyFiles = {key.string()}; });
    ASSERT_TRUE(m_desk.vault().create(Secret(std::string_view("a master password"))));
    ASSERT_TRUE(m_desk.vault().setSecret(host.id, "passphrase:" + key.string(),
                                         Secret(std::string_view("a passphrase"))));
    m_desk.vault().lock();
    auto const locked = exec("id");
    EXPECT_EQ(locked.code(), "vault_locked") << locked.text();
    EXPECT_THAT(locked.text(), HasSubstr("vault unlock"));
    ASSERT_TRUE(m_desk.vault().unlock(Secret(std::string_view("a master password"))));
    EXPECT_EQ(exec("echo in").value()["output"], "in\n");
}

TEST_F(ToolsTest, AServerWithoutFileTransferIsUnsupportedAndSaysWhatToRunInstead)
{
    Sshd const bare({.sftp = false});
    m_desk.save(bare, "web", AgentPolicy::Full);
    for (auto const& [tool, more] : {std::pair{"sftp_list", Json::object()},
                                     {"sftp_get", Json::object()},
                                     {"sftp_put", {{"content", ""}}}}) {
        Json arguments{{"host", "web"}, {"path", (bare.folder() / "file").string()}};
        arguments.update(more);
        auto const refused = m_desk.call(tool, arguments);
        EXPECT_EQ(refused.code(), "unsupported") << tool;
        EXPECT_EQ(refused.result["_meta"]["retryable"], false);
    }
}

TEST_F(ToolsTest, WhatTheServerDoesNotPermitIsToldAsThat)
{
    Sshd const reading({.config = {"Subsystem sftp internal-sftp -R"}, .sftp = false});
    m_desk.save(reading, "web", AgentPolicy::Full);
    auto const file = reading.folder() / "file";
    writeFile(file, "as it was\n");
    EXPECT_EQ(m_desk.call("sftp_put", {{"host", "web"}, {"path", file.string()}, {"content", "new"}}).code(),
              "permission_denied");
    EXPECT_EQ(m_desk.call("sftp_get", {{"host", "web"}, {"path", file.string()}}).value()["content"],
              "as it was\n");
}

/// An SFTP server (version 3) that makes paths absolute as they are spelled, links and all, as some do.
constexpr auto kSpellingServer = R"perl(
sub take { my $n = $_[0]; my $b = ''; while (length($b) < $n) {
    sysread(STDIN, $b, $n - length($b), length($b)) or exit; } return $b; }
sub text { return pack('N/a*', $_[0]); }
sub put { syswrite(STDOUT, text($_[0])); }
sub status { put(pack('CNN', 101, $id, $_[0]) . text('') . text('')); }
sub attributes { @_ ? put(pack('CNNNNN', 105, $id, 5, 0, $_[7], $_[2])) : status(2); }
while (1) {
    my $p = take(unpack('N', take(4)));
    my $t;
    ($t, $id) = unpack('CN', $p);
    my $rest = substr($p, 5);
    my $s = $t == 1 ? '' : unpack('N/a*', $rest);
    if ($t == 1) { put(pack('CN', 2, 3)); }
    elsif ($t == 16) { put(pack('CNN', 104, $id, 1) . text($s) . text($s) . pack('N', 0)); }
    elsif ($t == 7) { attributes(lstat($s)); }
    elsif ($t == 17) { attributes(stat($s)); }
    elsif ($t == 3) { open($f, '<', $s) ? put(pack('CN', 102, $id) . text('h')) : status(2); }
    elsif ($t == 8) { attributes(stat($f)); }
    elsif ($t == 5) {
        my ($h, $high, $low, $n) = unpack('N/a* N N N', $rest);
        sysseek($f, $low, 0);
        my $b;
        sysread($f, $b, $n) ? put(pack('CN', 103, $id) . text($b)) : status(1);
    }
    elsif ($t == 4) { status(0); }
    else { status(8); }
}
)perl";

TEST_F(ToolsTest, ALinkThatTheServerDoesNotResolveLeadsNowhereOnAnAllowlist)
{
    auto const program = m_server.folder() / "spelling.pl";
    writeFile(program, kSpellingServer);
    Sshd const spelling({.config = {"Subsystem sftp perl " + program.string()}, .sftp = false});
    auto const open = spelling.folder() / "open";
    std::filesystem::create_directories(open / "inside");
    writeFile(open / "inside/log", "line\n");
    writeFile(spelling.folder() / "secret", "secret\n");
    std::filesystem::create_symlink(spelling.folder() / "secret", open / "escape");
    std::filesystem::create_directory_symlink(spelling.folder(), open / "up");
    m_desk.save(spelling, "web", AgentPolicy::Allowlist,
                [&](Host& host) { host.reads = {open.string() + "/**"}; });
    auto const get = [&](std::string const& path) {
        return m_desk.call("sftp_get", {{"host", "web"}, {"path", (open / path).string()}});
    };
    auto const plain = get("inside/log");
    ASSERT_EQ(plain.code(), "") << plain.text();
    EXPECT_EQ(plain.value()["content"], "line\n");
    EXPECT_EQ(get("escape").code(), "not_in_allowlist");
    EXPECT_EQ(get("up/secret").code(), "not_in_allowlist");
    EXPECT_EQ(m_desk.call("sftp_list", {{"host", "web"}, {"path", (open / "up").string()}}).code(),
              "not_in_allowlist");
}

} // namespace
} // namespace termalin::test
