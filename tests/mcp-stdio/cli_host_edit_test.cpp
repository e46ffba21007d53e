#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mcp-stdio/cli/clients.h"
#include "mcp-stdio/cli/host_edit.h"

namespace termalin::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Host saved(AgentPolicy policy)
{
    Host host;
    host.id = "h";
    host.name = "web";
    host.hostname = "192.0.2.1";
    host.username = "ann";
    host.policy = policy;
    host.rules = {"ls *"};
    host.reads = {"/var/log/**"};
    return host;
}

TEST(Widening, IsEveryChangeThatGivesAgentsMoreAndNoOther)
{
    using enum AgentPolicy;
    for (auto const before : {Blocked, Allowlist, Full})
        for (auto const after : {Blocked, Allowlist, Full}) {
            auto host = saved(before);
            host.policy = after;
            EXPECT_EQ(widenings(saved(before), host).empty(), after <= before);
        }
    auto fewer = saved(Allowlist);
    fewer.rules.clear();
    fewer.reads.clear();
    EXPECT_THAT(widenings(saved(Allowlist), fewer), IsEmpty());
    EXPECT_THAT(widenings(fewer, saved(Allowlist)), SizeIs(2));
    auto reworded = saved(Full);
    reworded.notes = "hello";
    reworded.tags = {"x"};
    EXPECT_THAT(widenings(saved(Full), reworded), IsEmpty());
}

TEST(Widening, IsAlsoAnotherPlaceBehindANameThatIsOpenToAgents)
{
    for (auto const policy : {AgentPolicy::Blocked, AgentPolicy::Allowlist, AgentPolicy::Full}) {
        std::vector<Host> changed(8, saved(policy));
        changed[0].hostname = "192.0.2.2";
        changed[1].port = 23;
        changed[2].username = "root";
        changed[3].jump = {"gate"};
        changed[4].proxyCommand = "nc %h %p";
        changed[5].knownHostsFiles = {"/tmp/k"};
        changed[6].hostKeyAlias = "other";
        changed[7].addressFamily = AddressFamily::Inet6;
        for (auto const& host : changed)
            EXPECT_EQ(widenings(saved(policy), host).empty(), policy == AgentPolicy::Blocked);
    }
}

TEST(RuleWarnings, TellOfLinksWhereThereAreReadablePaths)
{
    auto host = saved(AgentPolicy::Allowlist);
    host.rules = {"ln * *"};
    host.reads = {"/var/log/**"};
    EXPECT_THAT(ruleWarnings(host), Contains(HasSubstr("under a readable path (/var/log/**)")));
    host.reads.clear();
    EXPECT_THAT(ruleWarnings(host), Not(Contains(HasSubstr("readable path"))));
}

TEST(HostOptionsOf, ARelativeFileBecomesAnAbsoluteOneAndTildeIsTheHome)
{
    Host host = saved(AgentPolicy::Blocked);
    HostOptions options;
    options.keys = {{"~/.ssh/id", "key", "", "/a/../b"}};
    options.agent = "none";
    ASSERT_TRUE(applyOptions(options, "/home/ann", host));
    EXPECT_EQ(host.keyFiles.at(0), "/home/ann/.ssh/id");
    EXPECT_EQ(host.keyFiles.at(1), (std::filesystem::current_path() / "key").string());
    EXPECT_EQ(host.keyFiles.at(2), "/b");
    EXPECT_EQ(host.agentSocket, "none");
    EXPECT_EQ(host.authType, AuthType::Key);
    options.keys = {{"~root/id"}};
    EXPECT_FALSE(applyOptions(options, "/home/ann", host));
}

TEST(Cautions, NameTheOtherEntryForTheSameServer)
{
    auto one = saved(AgentPolicy::Allowlist);
    auto other = saved(AgentPolicy::Full);
    other.id = "o";
    other.name = "shop";
    EXPECT_THAT(cautions(one, {one, other}), Contains(HasSubstr("'shop' (full)")));
    other.port = 2222;
    EXPECT_THAT(cautions(one, {one, other}), Not(Contains(HasSubstr("shop"))));
}

TEST(Clients, TheirConfigurationsAreReadAsWritten)
{
    ServerEntry const entry{.command = "/opt/termalin-mcp", .termalinHome = "/data"};
    for (auto const& client : clients()) {
        auto const text = withServer(client, "", entry);
        ASSERT_TRUE(text) << client.name;
        EXPECT_EQ(commandIn(client, *text), entry.command) << *text;
        EXPECT_EQ(withServer(client, *text, entry), *text);
        EXPECT_EQ(commandIn(client, ""), std::nullopt);
    }
}

TEST(Clients, WhatThePersonSetBesideOurMembersStays)
{
    auto const text = withServer(*findClient("cursor"),
                                 R"({"mcpServers": {"termalin": {"command": "/old", "disabled": true}}})",
                                 {.command = "/new", .termalinHome = {}});
    EXPECT_EQ(text, R"({"mcpServers": {"termalin": {"command": "/new", "disabled": true}}})");
}

} // namespace
} // namespace termalin::cli
