#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <sstream>

#include "core/store.h"
#include "ssh/route.h"
#include "ssh/ssh_config_import.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin::ssh {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ImportReport reportOf(std::string_view text)
{
    auto const config =
        SshConfig::parse(text, "config", "/home/ada", [](auto const&) { return SshConfig::Included(); });
    EXPECT_TRUE(config);
    return importHosts(*config, "ada");
}

std::map<std::string, Host> hostsOf(ImportReport const& report)
{
    std::map<std::string, Host> hosts;
    for (auto const& [host, where] : report.hosts)
        hosts.emplace(host.name, host);
    return hosts;
}

std::vector<std::string> namesOf(ImportReport const& report)
{
    std::vector<std::string> names;
    for (auto const& imported : report.hosts)
        names.push_back(imported.host.name);
    return names;
}

std::string refusalOf(ImportReport const& report, std::string_view name)
{
    for (auto const& note : report.refused)
        if (note.name == name)
            return note.text;
    return {};
}

TEST(ImportHosts, AHostHasWhatItsAliasSaysAndIsClosedToAgents)
{
    auto const report =
        reportOf("Host web\n HostName WEB.example.com\n User deploy\n Port 2222\n IdentityFile "
                 "~/.ssh/%r_key\n CertificateFile ~/c\n"
                 " IdentitiesOnly yes\n IdentityAgent ~/agent\n HostKeyAlias Web\n UserKnownHostsFile ~/kh\n"
                 "Host *\n IdentityFile /k\n");
    ASSERT_THAT(namesOf(report), ElementsAre("web"));
    auto const& [host, where] = report.hosts[0];
    EXPECT_EQ(host.hostname, "web.example.com");
    EXPECT_EQ(host.port, 2222);
    EXPECT_EQ(host.username, "deploy");
    EXPECT_THAT(host.keyFiles, ElementsAre("/home/ada/.ssh/deploy_key", "/k"));
    EXPECT_THAT(host.certificateFiles, ElementsAre("/home/ada/c"));
    EXPECT_EQ(host.authType, AuthType::Certificate);
    EXPECT_TRUE(host.identitiesOnly);
    EXPECT_EQ(host.agentSocket, "/home/ada/agent");
    EXPECT_EQ(host.hostKeyAlias, "web");
    EXPECT_THAT(host.knownHostsFiles, ElementsAre("/home/ada/kh"));
    EXPECT_EQ(host.policy, AgentPolicy::Blocked);
    EXPECT_EQ(where, "config:1");
    EXPECT_THAT(report.refused, IsEmpty());
}

TEST(ImportHosts, JumpsBecomeNamesInTheOrderOfTheWay)
{
    auto const report = reportOf("Host target\n ProxyJump inner,outer\nHost inner\n ProxyJump gate\nHost "
                                 "outer\n ProxyJump gate\nHost gate\n User g\n");
    EXPECT_THAT(namesOf(report), ElementsAre("gate", "inner", "outer", "target"));
    auto const hosts = hostsOf(report);
    EXPECT_THAT(hosts.at("target").jump, ElementsAre("inner", "outer"));
    EXPECT_THAT(hosts.at("inner").jump, ElementsAre("gate"));
    EXPECT_THAT(hosts.at("gate").jump, IsEmpty());
}

TEST(ImportHosts, AJumpThatIsNoAliasBecomesAHostWithAClearName)
{
    auto const report =
        reportOf("Host a\n ProxyJump ops@gate.example:2222\nHost b\n ProxyJump plain.example\nHost c\n "
                 "ProxyJump ops@known:22\nHost d\n ProxyJump other@known\n"
                 "Host known\n User ops\n HostName k.example\nHost *.example\n IdentityFile /k\n");
    auto const hosts = hostsOf(report);
    EXPECT_THAT(hosts.at("a").jump, ElementsAre("ops@gate.example:2222"));
    auto const& gate = hosts.at("ops@gate.example:2222");
    EXPECT_EQ(gate.hostname, "gate.example");
    EXPECT_EQ(gate.username, "ops");
    EXPECT_EQ(gate.port, 2222);
    EXPECT_THAT(gate.keyFiles, ElementsAre("/k")); // ssh reads the configuration for it as well
    EXPECT_THAT(hosts.at("b").jump, ElementsAre("plain.example"));
    EXPECT_THAT(hosts.at("c").jump, ElementsAre("known")); // says nothing new
    EXPECT_THAT(hosts.at("d").jump, ElementsAre("other@known"));
    EXPECT_EQ(hosts.at("other@known").hostname, "k.example");
    EXPECT_EQ(hosts.at("other@known").username, "other");
}

TEST(ImportHosts, CirclesAndWaysThatAreTooLongAreRefusedWithWhateverNeedsThem)
{
    auto const report = reportOf("Host a\n ProxyJump b\nHost b\n ProxyJump a\nHost c\n ProxyJump b\nHost "
                                 "self\n ProxyJump self\nHost ok\n");
    EXPECT_THAT(namesOf(report), ElementsAre("ok"));
    EXPECT_THAT(refusalOf(report, "b"), HasSubstr("circle"));
    EXPECT_THAT(refusalOf(report, "a"), HasSubstr("'b' cannot be imported"));
    EXPECT_THAT(refusalOf(report, "c"), HasSubstr("'b' cannot be imported"));
    EXPECT_THAT(refusalOf(report, "self"), HasSubstr("leads to itself"));

    std::string chain = "Host h0\n";
    for (int i = 1; i <= 9; ++i)
        chain += "Host h" + std::to_string(i) + "\n ProxyJump h" + std::to_string(i - 1) + "\n";
    auto const longReport = reportOf(chain);
    EXPECT_EQ(longReport.hosts.size(), 9U);
    EXPECT_THAT(refusalOf(longReport, "h9"), HasSubstr("more than 8 hosts"));
}

TEST(ImportHosts, WhatIsLeftOutIsSaidWithItsPlace)
{
    auto const report =
        reportOf("Host web\n ForwardAgent yes\n ConnectTimeout 5\n UserKnownHostsFile /dev/null rel\n "
                 "IdentityFile rel\n GlobalKnownHostsFile /g\n IdentityFile none\n");
    std::vector<std::string> notes;
    for (auto const& note : report.ignored)
        notes.push_back(note.text);
    EXPECT_THAT(notes, Contains("forwardagent (config:2)"));
    EXPECT_THAT(notes, Not(Contains(HasSubstr("connecttimeout"))));
    EXPECT_THAT(notes, Contains("userknownhostsfile (config:4): 'rel' is no absolute path"));
    EXPECT_THAT(notes, Contains(HasSubstr("identityfile (config:5): 'rel' is relative")));
    EXPECT_THAT(notes, Contains("globalknownhostsfile (config:6): is not kept"));
    EXPECT_THAT(report.hosts.at(0).host.knownHostsFiles, ElementsAre("none"));
    EXPECT_THAT(report.hosts.at(0).host.keyFiles, IsEmpty());
    auto const text = toText(report);
    EXPECT_THAT(text, HasSubstr("found     web (config:1): ada@web port 22\n"));
    EXPECT_THAT(text, HasSubstr("left out  web: forwardagent (config:2)\n"));
}

/// What `ssh -G` says of an alias for one keyword.
std::string sshSays(std::filesystem::path const& file, std::string const& alias, std::string const& keyword)
{
    std::istringstream lines(test::mustRun({"ssh", "-G", "-F", file.string(), alias}));
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with(keyword + ' '))
            return line.substr(keyword.size() + 1);
    return {};
}

TEST(ImportHosts, WhatSshSaysOfTheConnectionIsKeptAndUsed)
{
    test::TempDir const folder;
    auto const file = folder / "config";
    test::writeFile(file,
                    "Host four\n AddressFamily inet\n ConnectTimeout 1m\n ServerAliveInterval 20\n"
                    "Host six\n AddressFamily inet6\n ServerAliveInterval 0\n ServerAliveCountMax 7\n"
                    "Host any\n AddressFamily any\n ConnectTimeout none\n ServerAliveInterval 2m30s\n"
                    "Host plain batch\n User x\n"
                    "Host batch\n BatchMode yes\n"
                    "Host * !plain\n ConnectTimeout 9\n UserKnownHostsFile /k/one \"/k/the second\" /k/3\n");
    auto const config = SshConfig::load(file, "/home/ada");
    ASSERT_TRUE(config);
    auto const report = importHosts(*config, "ada");
    EXPECT_EQ(toText(report).find("left out"), std::string::npos) << toText(report);
    auto const hosts = hostsOf(report);
    for (auto const* const alias : {"four", "six", "any", "batch", "plain"}) {
        auto const ssh = [&](char const* keyword) { return sshSays(file, alias, keyword); };
        auto const& host = hosts.at(alias);
        EXPECT_EQ(toString(host.addressFamily), ssh("addressfamily")) << alias;
        EXPECT_EQ(host.connectTimeout ? std::to_string(*host.connectTimeout) : "none", ssh("connecttimeout"))
            << alias;
        EXPECT_EQ(std::to_string(host.serverAliveInterval.value_or(0)), ssh("serveraliveinterval")) << alias;
        EXPECT_EQ(std::to_string(host.serverAliveCountMax.value_or(3)), ssh("serveralivecountmax")) << alias;
        std::string files;
        for (auto const& each : host.knownHostsFiles)
            files += (files.empty() ? "" : " ") + each;
        if (alias != std::string("plain")) {
            EXPECT_EQ(files, ssh("userknownhostsfile")) << alias;
        }

        auto const route = resolveRoute(
            host, [](std::string_view) -> Result<Host> { return fail(Errc::UnknownHost, "none"); },
            RouteDefaults{.home = "/home/ada", .environmentSocket = {}, .localUser = "ada"});
        ASSERT_TRUE(route) << route.error().message;
        auto const& target = route->route.destination();
        EXPECT_EQ(target.family, host.addressFamily);
        EXPECT_EQ(target.connectTimeout.count(), host.connectTimeout.value_or(0));
        EXPECT_EQ(target.serverAliveInterval.count(), host.serverAliveInterval.value_or(15));
        EXPECT_EQ(target.serverAliveCountMax, host.serverAliveCountMax.value_or(3));
        if (alias != std::string("plain")) {
            EXPECT_THAT(target.knownHostsFiles, ElementsAre("/k/one", "/k/the second", "/k/3"));
        }
    }
    EXPECT_THAT(hosts.at("plain").knownHostsFiles, IsEmpty());
    EXPECT_FALSE(hosts.at("plain").serverAliveInterval); // ssh sends no probes by itself, we do
}

TEST(ImportHosts, AProxyCommandKeepsTheTokensOfTheConnection)
{
    auto const report = reportOf("Host web\n HostKeyAlias k%a\n ProxyCommand nc -x %k %h %p %r %n "
                                 "100%%\nHost bad\n ProxyCommand nc %d\nHost dash\n ProxyCommand -\n");
    EXPECT_EQ(hostsOf(report).at("web").proxyCommand, "nc -x k%%a %h %p %r %n 100%%");
    EXPECT_THAT(refusalOf(report, "bad"), HasSubstr("(config:5)"));
    EXPECT_THAT(refusalOf(report, "dash"), HasSubstr("not supported"));
}

TEST(ImportHosts, AFaultThatStopsSshStopsEveryAlias)
{
    auto const report = reportOf("Host web\n Usr x\nHost db\n");
    EXPECT_THAT(report.hosts, IsEmpty());
    EXPECT_THAT(refusalOf(report, "web"), HasSubstr("config:2: usr is no keyword"));
    EXPECT_THAT(refusalOf(report, "db"), HasSubstr("config:2"));
    EXPECT_THAT(toText(reportOf("Host w\x1B[2J\n")), HasSubstr("\\x1B"));
}

TEST(ImportHosts, TheStoreTakesThemInTheOrderInWhichTheyCome)
{
    test::TempDir const folder;
    std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
    auto const store = Store::open(folder / "termalin.db");
    ASSERT_TRUE(store) << store.error().message;
    auto const report = reportOf("Host target\n ProxyJump inner,ops@outer:2200,[::1]:22\nHost inner\n "
                                 "ProxyJump gate\nHost gate\n User g\n");
    EXPECT_EQ(report.hosts.size(), 5U);
    for (auto const& imported : report.hosts) {
        auto const added = (*store)->addHost(imported.host);
        ASSERT_TRUE(added) << imported.host.name << ": " << added.error().message;
        EXPECT_EQ(added->jump, imported.host.jump);
    }
}

} // namespace
} // namespace termalin::ssh
