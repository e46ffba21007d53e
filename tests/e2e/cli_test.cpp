#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mcp-stdio/tunnel_ports.h"
#include "tests/e2e/cli_home.h"

namespace termalin::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CommandLine : public ::testing::Test {
protected:
    CliHome m_home;
};

TEST_F(CommandLine, SavesAHostClosedToAgentsAndListsItWithAllItsFields)
{
    writeFile(m_home.folder() / "key", "");
    m_home.must({"host", "add", "gate", "ann@[2001:db8::1]:2200"});
    m_home.must({"host", "add", "web", "CORP.ann@web.example.org", "--key",
                 (m_home.folder() / "key").string(), "--jump", "gate", "--tag", "prod", "--tag", "web",
                 "--note", "the shop"});
    auto const web = m_home.host("web");
    EXPECT_EQ(web.at("hostname"), "web.example.org");
    EXPECT_EQ(web.at("port"), 22);
    EXPECT_EQ(web.at("username"), "CORP.ann");
    EXPECT_EQ(web.at("authType"), "key");
    EXPECT_EQ(web.at("policy"), "blocked");
    EXPECT_EQ(web.at("tags"), Json({"prod", "web"}));
    EXPECT_EQ(web.at("notes"), "the shop");
    EXPECT_EQ(web.at("keyFiles"), Json({(m_home.folder() / "key").string()}));
    EXPECT_EQ(web.at("jump"), Json({"gate"}));
    EXPECT_EQ(web.at("rules"), Json::array());
    EXPECT_EQ(web.at("reads"), Json::array());
    EXPECT_FALSE(web.contains("proxyCommand"));
    auto const gate = m_home.host("gate");
    EXPECT_EQ(gate.at("hostname"), "2001:db8::1");
    EXPECT_EQ(gate.at("port"), 2200);
    EXPECT_THAT(m_home.must({"host", "list"}),
                AllOf(HasSubstr("ann@[2001:db8::1]:2200"), HasSubstr("blocked")));
    EXPECT_THAT(m_home.widenings(), IsEmpty());
}

TEST_F(CommandLine, ARepeatableOptionReplacesItsWholeListAndAnEmptyValueClearsIt)
{
    m_home.must({"host", "add", "a", "u@h", "--tag", "x", "--tag", "y", "--note", "n", "--proxy-command",
                 "nc %h %p"});
    m_home.must({"host", "set", "a", "--tag", "z"});
    EXPECT_EQ(m_home.host("a").at("tags"), Json({"z"}));
    EXPECT_EQ(m_home.host("a").at("notes"), "n") << "what is not given stays";
    m_home.must({"host", "set", "a", "--tag", "", "--note=", "--proxy-command", ""});
    EXPECT_EQ(m_home.host("a").at("tags"), Json::array());
    EXPECT_FALSE(m_home.host("a").contains("notes"));
    EXPECT_FALSE(m_home.host("a").contains("proxyCommand"));
    m_home.must({"host", "set", "a", "v@[::1]:7", "--name", "b"});
    EXPECT_EQ(m_home.host("b").at("username"), "v");
    EXPECT_EQ(m_home.host("b").at("port"), 7);
    m_home.must({"host", "remove", "b"});
    EXPECT_EQ(m_home.host("b"), nullptr);
}

TEST_F(CommandLine, WrongUseIsExitCode2AndFailureIs1)
{
    EXPECT_EQ(m_home.run({"host"}).status, 2);
    EXPECT_EQ(m_home.run({"nonsense"}).status, 2);
    EXPECT_THAT(m_home.run({"nonsense"}).out, HasSubstr("'nonsense'"));
    EXPECT_THAT(m_home.run({"host", "lsit"}).out, HasSubstr("'lsit'"));
    EXPECT_EQ(m_home.run({"nonsense", "--help"}).status, 2);
    EXPECT_THAT(m_home.run({"host", "lsit", "--help"}).out, HasSubstr("'lsit'"));
    EXPECT_EQ(m_home.run({"host", "add", "a"}).status, 2);
    EXPECT_EQ(m_home.run({"host", "add", "a", "no-user"}).status, 2);
    EXPECT_EQ(m_home.run({"host", "add", "a", "u@h", "--policy", "open"}).status, 2);
    EXPECT_EQ(m_home.run({"host", "add", "a", "u@h", "--allow", "*", "--yes"}).status, 2);
    EXPECT_EQ(m_home.run({"host", "add", "a", "u@h", "--allow-read", "etc", "--yes"}).status, 2);
    EXPECT_EQ(m_home.run({"host", "add", "a\nb", "u@h"}).status, 2);
    EXPECT_EQ(m_home.run({"host", "add", "a", "u@h", "--jump", "none-such"}).status, 2);
    EXPECT_EQ(m_home.run({"host", "add", "a", "u@h", "--unknown"}).status, 2);
    EXPECT_EQ(m_home.run({"host", "remove", "nobody"}).status, 1);
    EXPECT_EQ(m_home.run({"host", "check", "nobody", "--", "ls"}).status, 1);
    EXPECT_EQ(m_home.run({"install", "emacs"}).status, 2);
    EXPECT_EQ(m_home.run({"agents", "set", "mayRun=sometimes"}).status, 2);
    m_home.must({"host", "add", "a", "u@h"});
    auto const again = m_home.run({"host", "add", "a", "u@h"});
    EXPECT_EQ(again.status, 2);
    EXPECT_THAT(again.out, HasSubstr("host set a"));
}

TEST_F(CommandLine, HelpIsThereAtEveryLevel)
{
    for (auto const& words : std::initializer_list<CliHome::Words>{{},
                                                                   {"host"},
                                                                   {"host", "add"},
                                                                   {"host", "set"},
                                                                   {"host", "list"},
                                                                   {"host", "remove"},
                                                                   {"host", "check"},
                                                                   {"host", "trust"},
                                                                   {"host", "test"},
                                                                   {"host", "import"},
                                                                   {"agents"},
                                                                   {"agents", "set"},
                                                                   {"audit"},
                                                                   {"audit", "list"},
                                                                   {"vault"},
                                                                   {"vault", "init"},
                                                                   {"doctor"},
                                                                   {"install"}}) {
        auto asked = words;
        asked.emplace_back("--help");
        EXPECT_THAT(m_home.must(asked), HasSubstr("Usage:"));
    }
    EXPECT_THAT(m_home.must({"--version"}), HasSubstr("termalin-mcp 0."));
}

TEST_F(CommandLine, GivingAgentsMoreNeedsYesWhereThereIsNoTerminalAndIsOnRecord)
{
    m_home.must({"host", "add", "a", "u@192.0.2.1"});
    for (auto const& more : std::initializer_list<CliHome::Words>{{"--policy", "allowlist"},
                                                                  {"--policy", "full"},
                                                                  {"--allow", "ls"},
                                                                  {"--allow-read", "/var/log/**"}}) {
        CliHome::Words words{"host", "set", "a"};
        words.insert(words.end(), more.begin(), more.end());
        auto const refused = m_home.run(words);
        EXPECT_EQ(refused.status, 2);
        EXPECT_THAT(refused.out, HasSubstr("--yes"));
    }
    EXPECT_EQ(m_home.run({"host", "add", "b", "u@192.0.2.2", "--policy", "full"}).status, 2);
    EXPECT_EQ(m_home.host("b"), nullptr);
    EXPECT_EQ(m_home.host("a").at("policy"), "blocked");
    EXPECT_THAT(m_home.widenings(), IsEmpty());

    m_home.must({"host", "set", "a", "--policy", "allowlist", "--allow", "ls *", "--yes"});
    auto const widenings = m_home.widenings();
    ASSERT_EQ(widenings.size(), 1U);
    EXPECT_THAT(widenings.front().program, HasSubstr("termalin-mcp ("));
    EXPECT_THAT(widenings.front().what, HasSubstr("ls *"));
    EXPECT_EQ(parseJson(widenings.front().before)->at("policy"), "blocked");
    auto const notes = m_home.notes();
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_EQ(notes.front().at("tool"), "host set");
    EXPECT_EQ(notes.front().at("host"), "a");
    EXPECT_THAT(notes.front().dump(), HasSubstr("--yes"));

    // Narrower, and another rule where everything was allowed: no leave is needed.
    m_home.must({"host", "set", "a", "--policy", "full", "--yes"});
    m_home.must({"host", "set", "a", "--policy", "allowlist", "--allow", "id"});
    EXPECT_EQ(m_home.run({"host", "set", "a", "root@192.0.2.9"}).status, 2)
        << "another server behind an open name";
    m_home.must({"host", "set", "a", "--policy", "blocked", "--allow", ""});
    m_home.must({"host", "set", "a", "root@192.0.2.9"});
}

TEST_F(CommandLine, OnATerminalItAsksAndOnlyAYesCounts)
{
    m_home.must({"host", "add", "a", "u@192.0.2.1"});
    auto const no = m_home.onTerminal({"host", "set", "a", "--policy", "full"}, {{"[y/N] ", "\n"}});
    EXPECT_EQ(no.status, 1) << no.out;
    EXPECT_THAT(no.out, HasSubstr("Nothing was changed"));
    EXPECT_EQ(m_home.host("a").at("policy"), "blocked");
    auto const yes = m_home.onTerminal({"host", "set", "a", "--policy", "full"}, {{"[y/N] ", "yes\n"}});
    EXPECT_EQ(yes.status, 0) << yes.out;
    EXPECT_EQ(m_home.host("a").at("policy"), "full");
    EXPECT_THAT(m_home.notes().back().dump(), HasSubstr("terminal"));
}

TEST_F(CommandLine, WarnsOfThisComputerOfTwoEntriesForOneServerAndOfWideRules)
{
    EXPECT_THAT(m_home.must({"host", "add", "me", "u@127.0.0.1", "--policy", "full", "--yes"}),
                AllOf(HasSubstr("this computer"), HasSubstr("its own limits")));
    EXPECT_THAT(m_home.must({"host", "add", "again", "u@localhost"}), HasSubstr("same server"));
    m_home.must({"host", "add", "far", "u@192.0.2.1"});
    EXPECT_THAT(m_home.must({"host", "set", "far", "--policy", "allowlist", "--allow", "find **", "--yes"}),
                AllOf(HasSubstr("Warning: Rule 'find **'"), Not(HasSubstr("this computer"))));
    EXPECT_THAT(m_home.run({"host", "check", "far", "--", "ls"}).out, HasSubstr("Warning: Rule 'find **'"));
    EXPECT_THAT(m_home.must({"host", "set", "local", "--policy", "full", "--yes"}),
                HasSubstr("its own limits"));
    EXPECT_EQ(m_home.run({"host", "set", "local", "u@h"}).status, 2);
    EXPECT_EQ(m_home.run({"host", "remove", "local"}).status, 2);
}

TEST_F(CommandLine, ChecksACommandAsAnAgentsCallWould)
{
    m_home.must({"host", "add", "a", "u@192.0.2.1", "--policy", "allowlist", "--allow", "systemctl status *",
                 "--yes"});
    auto const admitted = m_home.run({"host", "check", "a", "--", "systemctl 'status' nginx"});
    EXPECT_EQ(admitted.status, 0);
    EXPECT_THAT(admitted.out, AllOf(HasSubstr("systemctl status *"), HasSubstr("  nginx\n"),
                                    HasSubstr("'systemctl' 'status' 'nginx'")));
    EXPECT_EQ(m_home.run({"host", "check", "a", "--", "systemctl", "status", "nginx"}).status, 0);
    EXPECT_EQ(m_home.run({"host", "check", "a", "--", "systemctl status nginx; id"}).status, 1);
    EXPECT_EQ(m_home.run({"host", "check", "a", "--", "systemctl", "status", "--help"}).status, 1);
    EXPECT_EQ(m_home.run({"host", "check", "a", "--", "id"}).status, 1);
    m_home.must({"host", "add", "b", "u@192.0.2.2"});
    EXPECT_EQ(m_home.run({"host", "check", "b", "--", "id"}).status, 1);
}

TEST_F(CommandLine, ChangesTheAgentsSettingsAndStopsThemWithoutAQuestion)
{
    m_home.must({"agents", "stop"});
    EXPECT_THAT(m_home.must({"agents", "show"}), HasSubstr("Agents are stopped"));
    EXPECT_EQ(m_home.run({"agents", "resume"}).status, 2);
    m_home.must({"agents", "resume", "--yes"});
    EXPECT_THAT(m_home.must({"agents", "show"}), HasSubstr("not stopped"));
    EXPECT_EQ(m_home.run({"agents", "set", "inTerminal=true", "mayRun=ask"}).status, 2);
    EXPECT_THAT(m_home.must({"agents", "show"}), HasSubstr("false"));
    m_home.must({"agents", "set", "inTerminal=true", "mayRun=ask", "--yes"});
    EXPECT_THAT(m_home.must({"agents", "show"}), AllOf(HasSubstr("true"), HasSubstr("ask")));
    m_home.must({"agents", "set", "mayRun=no"});
    EXPECT_EQ(m_home.widenings().size(), 2U);
    writeFile(m_home.data() / "settings.json", "{broken");
    EXPECT_EQ(m_home.run({"agents", "set", "mayRun=no"}).status, 1);
    EXPECT_EQ(readFile(m_home.data() / "settings.json"), "{broken");
}

TEST_F(CommandLine, AStopOfAllAgentsIsTheAnswerToEveryToolAlsoWithoutTheApp)
{
    m_home.must({"agents", "stop"});
    std::string conversation =
        R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}})"
        "\n";
    std::vector<std::string> const tools{"hosts_list", "terminal_hosts", "terminal_sessions", "data_list"};
    for (std::size_t i = 0; i < tools.size(); ++i)
        conversation +=
            Json{
                {"jsonrpc", "2.0"}, {"id", i + 1}, {"method", "tools/call"}, {"params", {{"name", tools[i]}}}}
                .dump() +
            '\n';
    auto const ran = m_home.run({}, conversation);
    EXPECT_EQ(ran.status, 0);
    std::size_t refused = 0;
    for (std::size_t at = 0; (at = ran.out.find("\"code\":\"consent_required\"", at)) != std::string::npos;
         ++at)
        ++refused;
    EXPECT_EQ(refused, tools.size()) << ran.out;
}

TEST_F(CommandLine, AClientThatAsksForDebugMessagesIsToldOfItsCalls)
{
    auto const ran = m_home.run(
        {},
        R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}})"
        "\n"
        R"({"jsonrpc":"2.0","method":"notifications/initialized"})"
        "\n"
        R"({"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}})"
        "\n"
        R"({"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hosts_list"}})"
        "\n"
        R"({"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"session_open","arguments":{"host":"none"}}})"
        "\n");
    EXPECT_THAT(ran.out, HasSubstr("notifications/message"));
    EXPECT_THAT(ran.out, HasSubstr("hosts_list begins"));
    EXPECT_THAT(ran.out, HasSubstr("session_open was refused: unknown_host"));
}

TEST_F(CommandLine, ImportsWhatOpenSshsConfigurationNamesAndChangesNothingThatIsThere)
{
    auto const file = m_home.folder() / "config";
    writeFile(
        file,
        "Host gate\n HostName 192.0.2.1\n User ann\n Port 2200\nHost web\n HostName 192.0.2.2\n User bob\n "
        "ProxyJump gate\n ForwardAgent yes\nHost odd\n ProxyJump none-such\nHost *\n IdentityFile "
        "~/.ssh/id_x\n");
    EXPECT_EQ(m_home.run({"host", "import"}).status, 2) << "~/.ssh is not looked at under TERMALIN_HOME";
    EXPECT_EQ(m_home.run({"host", "import", (m_home.folder() / "none").string()}).status, 1);
    m_home.must({"host", "import", file.string(), "--dry-run"});
    EXPECT_EQ(m_home.host("web"), nullptr);
    m_home.must({"host", "add", "gate", "me@192.0.2.99"});
    EXPECT_THAT(m_home.must({"host", "import", file.string()}), HasSubstr("forwardagent"));
    EXPECT_EQ(m_home.host("web").at("hostname"), "192.0.2.2");
    EXPECT_EQ(m_home.host("web").at("username"), "bob");
    EXPECT_EQ(m_home.host("web").at("jump"), Json({"gate"}));
    EXPECT_EQ(m_home.host("web").at("policy"), "blocked");
    EXPECT_EQ(m_home.host("gate").at("username"), "me") << "what was there stands";
    EXPECT_THAT(m_home.widenings(), IsEmpty());
}

TEST_F(CommandLine, AConfigurationThatNamesNoHostSaysWhy)
{
    auto const file = m_home.folder() / "config";
    writeFile(file, "Host *\n User ann\n");
    auto const general = m_home.run({"host", "import", file.string()});
    EXPECT_EQ(general.status, 0);
    EXPECT_THAT(general.out, HasSubstr("names no host"));
    for (std::string const& broken :
         {"Include " + file.string() + "\n", std::string("Host \"a b\n User ann\n")}) {
        writeFile(file, broken);
        auto const ran = m_home.run({"host", "import", file.string()});
        EXPECT_EQ(ran.status, 1) << broken << ran.out;
        EXPECT_THAT(ran.out, HasSubstr(file.string() + ":1")) << "where ssh itself gives up";
    }
}

TEST_F(CommandLine, ASecretThatNothingAsksForIsWrongUse)
{
    m_home.must({"host", "add", "a", "u@192.0.2.1"});
    EXPECT_EQ(m_home.run({"host", "add", "b", "u@192.0.2.2", "--secret-fd", "0"}, "secret\n").status, 2);
    EXPECT_EQ(m_home.host("b"), nullptr);
    EXPECT_EQ(m_home.run({"host", "set", "a", "--secret-fd", "0"}, "secret\n").status, 2);
    auto const keyless = m_home.run({"host", "set", "a", "--ask-passphrase", "--secret-fd", "0"}, "secret\n");
    EXPECT_EQ(keyless.status, 2);
    EXPECT_THAT(keyless.out, HasSubstr("--key"));
}

TEST_F(CommandLine, TheAuditShowsWhenALineWasChanged)
{
    m_home.must({"host", "add", "a", "u@192.0.2.1", "--policy", "full", "--yes"});
    m_home.must({"host", "set", "a", "--policy", "blocked"});
    m_home.must({"host", "set", "a", "--policy", "full", "--yes"});
    EXPECT_THAT(m_home.must({"audit", "verify"}), HasSubstr("intact"));
    EXPECT_EQ(std::ranges::count(m_home.must({"audit", "list", "-n", "1"}), '\n'), 1);
    auto const file = m_home.data() / "audit/audit.jsonl";
    auto text = readFile(file);
    text.replace(text.find("host add"), 8, "host set");
    writeFile(file, text);
    auto const broken = m_home.run({"audit", "verify"});
    EXPECT_EQ(broken.status, 1);
    EXPECT_THAT(broken.out, HasSubstr("Keep a copy of " + (m_home.data() / "audit").string()));
}

TEST_F(CommandLine, WhatItTellsToTypeIsOneWordForAShell)
{
    std::string const name = "it's $(touch canary)";
    auto const added = m_home.must({"host", "add", name, "u@192.0.2.1", "--agent", "/a b"});
    auto const at = added.find("host trust ");
    ASSERT_NE(at, std::string::npos) << added;
    auto const words = added.substr(at, added.find(", then") - at);
    EXPECT_EQ(mustRun({"sh", "-c", "printf '%s\n' " + words}), "host\ntrust\n" + name + "\n");
    EXPECT_EQ(m_home.host(name).at("agentSocket"), "/a b");
    EXPECT_EQ(m_home.host(name).at("identitiesOnly"), false);
}

TEST_F(CommandLine, TrustsOnlyTheKeyThatWasNamed)
{
    Sshd const server;
    m_home.must({"host", "add", "s", loginOf(server), "--key", server.userKey().string()});
    auto const unknown = m_home.run({"host", "test", "s"});
    EXPECT_EQ(unknown.status, 1);
    EXPECT_THAT(unknown.out, HasSubstr(fingerprintOf(server)));
    EXPECT_EQ(m_home.run({"host", "trust", "s"}).status, 2) << "nobody to ask";
    auto const other = m_home.run({"host", "trust", "s", "--fingerprint", "SHA256:" + std::string(43, 'A')});
    EXPECT_EQ(other.status, 1);
    EXPECT_EQ(m_home.run({"host", "trust", "s", "--fingerprint", "md5"}).status, 2);
    EXPECT_EQ(m_home.run({"host", "trust", "s", "--fingerprint", "", "--yes"}).status, 2)
        << "a script's empty variable names no key, and not every key";
    EXPECT_EQ(m_home.run({"host", "trust", "s", "--fingerprint=", "--yes"}).status, 2);
    EXPECT_EQ(readFile(m_home.data() / "known_hosts"), "");
    EXPECT_THAT(m_home.widenings(), IsEmpty());
    m_home.must({"host", "trust", "s", "--fingerprint", fingerprintOf(server)});
    EXPECT_EQ(m_home.widenings().size(), 1U);
    EXPECT_THAT(m_home.must({"host", "trust", "s", "--fingerprint", fingerprintOf(server)}),
                HasSubstr("already"));
    auto const tested = m_home.must({"host", "test", "s"});
    EXPECT_THAT(tested, AllOf(HasSubstr(fingerprintOf(server)), HasSubstr("Logged in by: key"),
                              HasSubstr("OpenSSH"), HasSubstr("SFTP:         yes")));
    // What we wrote is what ssh reads.
    mustRun({"ssh", "-F", "none", "-o", "UserKnownHostsFile=" + (m_home.data() / "known_hosts").string(),
             "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "-i", server.userKey().string(), "-p",
             std::to_string(server.port()), server.user() + "@127.0.0.1", "true"});
}

TEST_F(CommandLine, NothingIsSentToAPortThatAnAgentsTunnelHolds)
{
    Sshd const server;
    m_home.addServer("s", server);
    m_home.must({"host", "add", "new", loginOf(server), "--key", server.userKey().string()});
    {
        auto const held = mcp::TunnelPorts(m_home.data() / "run").holdForTunnel(server.port());
        ASSERT_TRUE(held) << held.error().message;
        auto const before = server.accepted();
        for (auto const& words : std::vector<std::vector<std::string>>{
                 {"host", "test", "s"}, {"host", "trust", "new", "--yes"}, {"doctor", "s"}}) {
            auto const ran = m_home.run(words);
            EXPECT_EQ(ran.status, 1) << ran.out;
            EXPECT_THAT(ran.out, HasSubstr("agent's tunnel"));
        }
        EXPECT_EQ(server.accepted(), before);
    }
    m_home.must({"host", "test", "s"});
}

TEST_F(CommandLine, AsksOnATerminalWhetherToTrustAKey)
{
    Sshd const server;
    m_home.must({"host", "add", "s", loginOf(server), "--key", server.userKey().string()});
    EXPECT_EQ(m_home.onTerminal({"host", "trust", "s"}, {{"[y/N] ", "n\n"}}).status, 1);
    auto const trusted = m_home.onTerminal({"host", "trust", "s"}, {{"[y/N] ", "y\n"}});
    EXPECT_EQ(trusted.status, 0) << trusted.out;
    EXPECT_THAT(trusted.out, HasSubstr(fingerprintOf(server)));
    m_home.must({"host", "test", "s"});
}

TEST_F(CommandLine, AChangedKeyIsTrustedOnlyWhereThePersonSaysThatItChanged)
{
    Sshd const server;
    m_home.trustAnotherKey(server);
    m_home.must({"host", "add", "s", loginOf(server), "--key", server.userKey().string()});
    auto const refused = m_home.run({"host", "trust", "s", "--fingerprint", fingerprintOf(server)});
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.out, HasSubstr("--replace"));
    EXPECT_EQ(m_home.run({"host", "trust", "s", "--replace"}).status, 2);
    m_home.must({"host", "trust", "s", "--replace", "--fingerprint", fingerprintOf(server)});
    m_home.must({"host", "test", "s"});
}

TEST_F(CommandLine, AKeyThatAFileOfThePersonsMarksRevokedIsNeverTrusted)
{
    Sshd const server;
    auto const file = m_home.folder() / "theirs";
    writeFile(file, "@revoked " + readFile(server.knownHosts()));
    m_home.must({"host", "add", "s", loginOf(server), "--key", server.userKey().string(), "--known-hosts",
                 file.string()});
    auto const refused =
        m_home.run({"host", "trust", "s", "--replace", "--fingerprint", fingerprintOf(server), "--yes"});
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.out, HasSubstr("@revoked"));
    EXPECT_EQ(readFile(m_home.data() / "known_hosts"), "");
}

} // namespace
} // namespace termalin::test
