#include <algorithm>
#include <array>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <pwd.h>
#include <random>
#include <sstream>
#include <unistd.h>

#include "ssh/ssh_config.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin::ssh {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string const& localUser()
{
    static std::string const name =
        ::getpwuid(::getuid())->pw_name; // NOLINT(concurrency-mt-unsafe): one thread
    return name;
}
std::string const& homeFolder()
{
    static std::string const home =
        ::getpwuid(::getuid())->pw_dir; // NOLINT(concurrency-mt-unsafe): one thread
    return home;
}

/// What ssh -G says: the values of each keyword, in order. Empty: it refuses.
using Dump = std::map<std::string, std::vector<std::string>>;

constexpr std::array<std::string_view, 16> kCompared = {"hostname",
                                                        "port",
                                                        "user",
                                                        "addressfamily",
                                                        "identitiesonly",
                                                        "identityagent",
                                                        "identityfile",
                                                        "certificatefile",
                                                        "proxyjump",
                                                        "proxycommand",
                                                        "hostkeyalias",
                                                        "userknownhostsfile",
                                                        "globalknownhostsfile",
                                                        "connecttimeout",
                                                        "serveraliveinterval",
                                                        "serveralivecountmax"};

Dump parseDump(std::string const& text)
{
    Dump dump;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        auto const blank = line.find(' ');
        auto const keyword = line.substr(0, blank);
        if (std::ranges::find(kCompared, keyword) != kCompared.end())
            dump[keyword].push_back(blank == std::string::npos ? "" : line.substr(blank + 1));
    }
    return dump;
}

struct Question {
    std::string file;
    std::string alias;
};

/// ssh's own answers, out of one shell.
std::vector<Dump> askSsh(std::vector<Question> const& questions, std::string const& home = homeFolder())
{
    std::string script;
    for (auto const& [file, alias] : questions)
        script += "ssh -G -F '" + file + "' -- '" + alias + "' 2>/dev/null || echo FAILED; echo ====\n";
    auto const output =
        test::run({"sh"}, {"HOME=" + home, "LC_ALL=C", "SSH_TEST_VARIABLE=/from/variable"}, script).out;
    std::vector<Dump> dumps;
    for (std::size_t at = 0; at < output.size();) {
        auto const end = output.find("====\n", at);
        auto const text = output.substr(at, end - at);
        dumps.push_back(text.ends_with("FAILED\n") ? Dump() : parseDump(text));
        at = end == std::string::npos ? output.size() : end + 5;
    }
    return dumps;
}

std::string joined(std::vector<std::string> const& words)
{
    std::string line;
    for (auto const& word : words)
        line += (line.empty() ? "" : " ") + word;
    return line;
}

/// Our answer in ssh's words. `defaults`: what ssh says for an empty file.
Dump dumpOf(ConfiguredHost const& host, Dump const& defaults)
{
    Dump dump{{"hostname", {host.hostname}},
              {"port", {std::to_string(host.port)}},
              {"user", {host.user}},
              {"addressfamily", {host.addressFamily}},
              {"identitiesonly", {host.identitiesOnly ? "yes" : "no"}},
              {"connecttimeout", {host.connectTimeout ? std::to_string(*host.connectTimeout) : "none"}},
              {"serveraliveinterval", {std::to_string(host.serverAliveInterval)}},
              {"serveralivecountmax", {std::to_string(host.serverAliveCountMax)}},
              {"identityfile", host.identityFiles},
              {"userknownhostsfile", {joined(host.userKnownHostsFiles)}},
              {"globalknownhostsfile", {joined(host.globalKnownHostsFiles)}}};
    for (auto const* const keyword : {"identityfile", "userknownhostsfile", "globalknownhostsfile"})
        if (dump.at(keyword).empty() || dump.at(keyword) == std::vector<std::string>{""})
            dump[keyword] = defaults.at(keyword);
    for (auto const* const keyword : {"userknownhostsfile", "globalknownhostsfile"})
        for (auto& value : dump[keyword])
            if (value == "NONE" || value == "None")
                value = "none";
    if (!host.certificateFiles.empty())
        dump["certificatefile"] = host.certificateFiles;
    auto const optional = [&](char const* keyword, std::string const& value) {
        if (!value.empty())
            dump[keyword] = {value};
    };
    optional("identityagent", host.identityAgent);
    optional("proxyjump", host.proxyJump);
    optional("proxycommand", host.proxyCommand);
    optional("hostkeyalias", host.hostKeyAlias);
    return dump;
}

std::string toText(Dump const& dump)
{
    std::string text;
    for (auto const& [keyword, values] : dump)
        for (auto const& value : values)
            text += keyword + ' ' + value + '\n';
    return dump.empty() ? "refused" : text;
}

/// Ours alone: ssh runs the command or looks names up, we do not.
bool isOursAlone(std::string const& refusal)
{
    return refusal.starts_with("Match ") || refusal.starts_with("CanonicalizeHostname");
}

class SshConfigTest : public ::testing::Test {
protected:
    void SetUp() override
    {
        ::setenv("SSH_TEST_VARIABLE", "/from/variable", 1); // NOLINT(concurrency-mt-unsafe): one thread
        m_defaults = askSsh({{"/dev/null", "x"}}).at(0);
        ASSERT_FALSE(m_defaults.empty()) << "ssh -G does not work here";
    }

    std::string write(std::string const& name, std::string const& text)
    {
        auto const path = m_folder / name;
        std::filesystem::create_directories(path.parent_path());
        test::writeFile(path, text);
        std::filesystem::permissions(path, std::filesystem::perms(0644));
        return path.string();
    }

    /// One file that ssh and we must read alike for these aliases. Gives how many ssh refused.
    int compare(std::string const& text, std::vector<std::string> const& aliases)
    {
        auto const file = write("config" + std::to_string(m_files++), text);
        std::vector<Question> questions;
        questions.reserve(aliases.size());
        for (auto const& alias : aliases)
            questions.push_back({file, alias});
        return compare(questions);
    }
    int compare(std::vector<Question> const& questions)
    {
        auto const answers = askSsh(questions);
        EXPECT_EQ(answers.size(), questions.size());
        int refusals = 0;
        for (std::size_t i = 0; i < std::min(answers.size(), questions.size()); ++i) {
            auto const& [file, alias] = questions[i];
            auto const config = SshConfig::load(file, homeFolder());
            EXPECT_TRUE(config) << config.error().message;
            if (!config)
                continue;
            auto const host = config->resolve(alias, localUser());
            if (isOursAlone(host.refused)) {
                ++m_oursAlone;
                continue;
            }
            auto const ours = host.refused.empty() ? dumpOf(host, m_defaults) : Dump();
            refusals += answers[i].empty() ? 1 : 0;
            EXPECT_EQ(toText(ours), toText(answers[i])) << "for " << alias << " (" << host.refused << ") of\n"
                                                        << test::readFile(file);
        }
        return refusals;
    }

    test::TempDir m_folder;
    Dump m_defaults;
    int m_files = 0;
    int m_oursAlone = 0;
};

TEST_F(SshConfigTest, AnOrdinaryFileIsReadAsSshReadsIt)
{
    EXPECT_EQ(compare(R"(# a person's file
Host web
    HostName web.example.com
    User deploy
    Port 2222
    IdentityFile ~/.ssh/id_web
    IdentityFile ~/.ssh/id_other
    CertificateFile ~/.ssh/id_web-cert.pub
    IdentitiesOnly yes

Host db-* !db-old
  ProxyJump bastion
  HostName %h.internal
  HostKeyAlias DB-Alias

Host bastion
  Hostname=BASTION.example.com
  UserKnownHostsFile ~/.ssh/kh_%h /etc/kh
  GlobalKnownHostsFile none
  ConnectTimeout 1m30s
  ServerAliveInterval=15
  ServerAliveCountMax = 5
  AddressFamily inet

Host *
  User fallback
  IdentityFile ~/.ssh/id_last
  IdentityAgent ~/agent-%r.sock
)",
                      {"web", "db-1", "db-old", "bastion", "unknown", "WEB"}),
              0);
}

TEST_F(SshConfigTest, QuotesEqualSignsBlanksAndCommentsAreRead)
{
    compare("Host=web\nUser = \"john doe\"\nPort=\"2200\"\n\tHostName\t\"web.example.com\" # "
            "comment\nIdentityFile 'a b' #x\n",
            {"web", "x"});
    compare("\"Host\" web\nUser\"bob\"\nHostName ex\"am\"ple\n", {"web"});
    compare("Host web #db\nUser a\\ b\nIdentityFile a\\\"b\\'c\\\\d\\e\nIdentityFile \"a\\ b\"\nProxyCommand "
            "nc \"%h\" %p # not a comment\n",
            {"web", "#db", "db"});
    compare("host web\r\nUSER bob\r\nhostNAME x.y\f\n", {"web"});
    compare("  =User bob\n==Port 22\n= = Port 23\n", {"web"});
    compare("User==bob\n", {"web"});
    compare("User = = bob\n", {"web"});
    compare("ProxyCommand = = nc %h %p\n", {"web"});
    compare("ProxyCommand=nc %h %p  \t\n", {"web"});
    compare("#Host \"x\n # User 'x\nUser bob", {"web"});
}

TEST_F(SshConfigTest, WhatSshRefusesIsRefused)
{
    for (auto const* const text : {"Nonsense yes\n",
                                   "User\n",
                                   "User \"bob\n",
                                   "User ''\n",
                                   "User a b\n",
                                   "Port 0\n",
                                   "Port 65536\n",
                                   "Port x\n",
                                   "Port -1\n",
                                   "Host \"\"\n",
                                   "Match\n",
                                   "Match bogus x\n",
                                   "Match host\n",
                                   "Match all host x\n",
                                   "Match host x all y\n",
                                   "Match user x host y all\n",
                                   "IdentitiesOnly maybe\n",
                                   "ConnectTimeout soon\n",
                                   "ConnectTimeout 5x\n",
                                   "ServerAliveCountMax many\n",
                                   "ServerAliveCountMax -3\n",
                                   "AddressFamily ipx\n",
                                   "UserKnownHostsFile none x\n",
                                   "UserKnownHostsFile x none\n",
                                   "UserKnownHostsFile x ''\n",
                                   "ProxyJump a:x\n",
                                   "ProxyJump @a\n",
                                   "ProxyJump a,,b\n",
                                   "ProxyJump a/b\n",
                                   "ProxyJump ssh://a/path\n",
                                   "ProxyJump ssh://-a\n",
                                   "ProxyJump [a\n",
                                   "HostName %x\n",
                                   "UserKnownHostsFile %x\n",
                                   "IdentityAgent %x\n",
                                   "IdentityAgent ${NO_SUCH_VARIABLE_AT_ALL}\n",
                                   "IdentityAgent ${\n",
                                   "IdentityAgent $a-b\n",
                                   "IdentityAgent ~no_such_user_at_all/x\n",
                                   "ProxyJump web\n",
                                   "Include ''\n",
                                   "ForwardX11 maybe\n",
                                   "CanonicalizeHostname maybe\n",
                                   "Include\n",
                                   "Host other\nUser \"x\n",
                                   "Host other\nNonsense x\n",
                                   "ConnectionAttempts x\n"})
        EXPECT_EQ(compare(text, {"web"}), 1) << text;
}

TEST_F(SshConfigTest, ValuesAreReadAsSshReadsThem)
{
    for (auto const* const text : {"Port ssh\n",
                                   "Port +22\n",
                                   "Port \" 22\"\n",
                                   "ConnectTimeout none\nConnectTimeout 5\n",
                                   "ConnectTimeout 0\n",
                                   "ConnectTimeout 1w2d3h4m5s\n",
                                   "ConnectTimeout 2M30\n",
                                   "ServerAliveInterval none\n",
                                   "BatchMode yes\n",
                                   "BatchMode yes\nServerAliveInterval 7\n",
                                   "IdentitiesOnly TRUE\n",
                                   "AddressFamily INET6\n",
                                   "IdentityFile none\nIdentityFile none\nIdentityFile a\n",
                                   "UserKnownHostsFile NONE\n",
                                   "UserKnownHostsFile a b\nUserKnownHostsFile c\n",
                                   "GlobalKnownHostsFile ~/x %h\n",
                                   "UserKnownHostsFile %C %L %i %k %l %n %p %d %h %r %u %%\n",
                                   "UserKnownHostsFile ${SSH_TEST_VARIABLE}/%h ~/a//b ~\n",
                                   "IdentityAgent none\n",
                                   "IdentityAgent $SSH_TEST_VARIABLE\n",
                                   "IdentityAgent ${SSH_TEST_VARIABLE}/x\n",
                                   "IdentityAgent SSH_AUTH_SOCK\n",
                                   "ProxyJump none\nProxyCommand nc %h\n",
                                   "ProxyCommand none\nProxyJump a\n",
                                   "ProxyCommand nc\nProxyJump a\n",
                                   "ProxyJump a\nProxyCommand nc\n",
                                   "ProxyJump NONE\nProxyJump a\n",
                                   "ProxyJump a,b@c:22,ssh://u%20x@d:2200 # x\n",
                                   "ProxyJump ssh://d.\n",
                                   "ProxyJump [::1]:22\n",
                                   "ProxyJump 10.0.0.1\n",
                                   "ProxyJump u@v@w\n",
                                   "ProxyJump a:\n",
                                   "ProxyJump a b\n",
                                   "HostName 127.1\n",
                                   "HostName ::0001\n",
                                   "HostName FOO.Bar\n",
                                   "HostName 0x7f.1\n",
                                   "HostName fe80::1%lo\n",
                                   "HostName 1.2.3.4.5\n",
                                   "HostName a%%b-%h\n",
                                   "HostName 10.1.2.3\nAddressFamily inet6\n",
                                   "Protocol 2,1 whatever\nCipher x\nRSAAuthentication yes\n",
                                   "IgnoreUnknown Foo*,bar\nfoobar x y \nBAR z\n",
                                   "IgnoreUnknown *\nnonsense\n",
                                   "Host other\nIgnoreUnknown foo\nHost *\nfoo x\n",
                                   "HostKeyAlias FooBar\nUserKnownHostsFile %k\n",
                                   "Match user nobody-here\nUser x\n",
                                   "Match user x all\nPort 98\n",
                                   "User x\nMatch user x\nPort 99\n",
                                   "Match localuser root,*\nPort 98\n",
                                   "Match originalhost web\nHostName x.y\nMatch host x.y\nPort 97\n",
                                   "Match host WEB\nPort 96\n",
                                   "Match !host web\nPort 95\n",
                                   "Match all\nPort 94\n",
                                   "Match !all\nPort 93\n",
                                   "Match host=web user=*\nPort 92\n",
                                   "Match host \"web,db\" # c\nPort 91\n",
                                   "Match host !web,*\nPort 90\n",
                                   "Match canonical\nPort 89\n",
                                   "Match !canonical\nPort 88\n",
                                   "Match host w?b,x all\n",
                                   "Match user x all # y\n"})
        compare(text, {"web"});
}

TEST_F(SshConfigTest, IncludesAreReadInPlaceAndOnlyWhereTheirBlockApplies)
{
    write("inc/b.conf", "Port 2002\nHost web\nUser from-b\nMatch user x\n");
    write("inc/a.conf", "IdentityFile from-a\nHost db\nUser from-a\n");
    auto const folder = m_folder.path().string();
    compare("Include " + folder + "/inc/*.conf\nPort 1\nUser x\n", {"web", "db"});
    compare("Host db\nInclude " + folder + "/inc/*.conf\nPort 1\nHost *\nPort 3\n", {"web", "db"});
    compare("Host web\nInclude " + folder + "/inc/b.conf " + folder + "/inc/nowhere " + folder +
                "/inc/a.conf\nUser y\n",
            {"web", "db"});
    compare("Include " + folder + "/inc\nPort 5\n", {"web"});
    write("inc/deep1", "Host *\nInclude " + folder + "/inc/deep2\nPort 7\n");
    write("inc/deep2", "Host web\nUser deep\nHost *\nIdentityFile deep\n");
    compare("Host web\nInclude " + folder + "/inc/deep1\n", {"web", "db"});
    write("inc/bad", "Nonsense x\n");
    EXPECT_EQ(compare("Host other\nInclude " + folder + "/inc/bad\n", {"web"}), 1);
}

TEST_F(SshConfigTest, SixteenIncludesInARowAreReadAndSeventeenAreNot)
{
    auto const folder = m_folder.path().string();
    for (int i = 1; i <= 17; ++i)
        write("deep" + std::to_string(i), "IdentityFile f" + std::to_string(i) + "\nInclude " + folder +
                                              "/deep" + std::to_string(i + 1) + "\n");
    EXPECT_EQ(compare("Include " + folder + "/deep2\n", {"web"}), 0); // deep18 is missing
    EXPECT_EQ(compare("Include " + folder + "/deep1\n", {"web"}), 1);
    auto const self = folder + "/self";
    write("self", "Include " + self + "\nInclude " + self + " " + self + "\n");
    EXPECT_EQ(compare({{self, "web"}}), 1);
}

TEST_F(SshConfigTest, AnIncludedFileThatOthersCanWriteIsRefusedAsBySsh)
{
    auto const file = write("inc/open", "Port 5\n");
    for (auto const mode : {0666, 0646, 0644, 0600, 0660}) {
        std::filesystem::permissions(file, std::filesystem::perms(mode));
        compare("Include " + file + "\n", {"web"});
    }
}

TEST_F(SshConfigTest, IncludesAreBelowTheHomeFolder)
{
    write(".ssh/one", "Port 2001\n");
    write("two", "User two\n");
    auto const file = write("config", "Include one ~/two\n");
    auto const config = SshConfig::load(file, m_folder.path());
    ASSERT_TRUE(config);
    auto const host = config->resolve("web", "me");
    auto const theirs = askSsh({{file, "web"}}, m_folder.path().string()).at(0);
    EXPECT_EQ(theirs.at("port"), std::vector{std::to_string(host.port)});
    EXPECT_EQ(theirs.at("user"), std::vector{host.user});
    EXPECT_EQ(host.port, 2001);
}

TEST_F(SshConfigTest, AliasesThatMatchExecFinalOrCanonicalTouchesAreRefusedWithoutRunningAnything)
{
    auto const canary = (m_folder / "canary").string();
    auto const config =
        SshConfig::load(
            write("c", "Match host web exec \"touch " + canary +
                           "\"\nUser x\nHost fin\nHostName fin.example\nHost can\nCanonicalizeHostname yes\n"
                           "Match final host fin.example\nPort 77\n"),
            homeFolder())
            .value();
    EXPECT_THAT(config.resolve("web", "me").refused, HasSubstr("Match exec"));
    EXPECT_THAT(config.resolve("web", "me").refused, HasSubstr("/c:1"));
    EXPECT_THAT(config.resolve("fin", "me").refused, HasSubstr("Match final"));
    EXPECT_THAT(config.resolve("can", "me").refused, HasSubstr("CanonicalizeHostname"));
    EXPECT_THAT(config.resolve("db", "me").refused, IsEmpty());
    EXPECT_FALSE(std::filesystem::exists(canary));
}

TEST_F(SshConfigTest, AMatchFinalThatChangesNothingForAnAliasLeavesItAlone)
{
    compare("Match final host other\nPort 77\nHost web\nHostName web.example\nUser u\n", {"web", "db"});
    EXPECT_EQ(m_oursAlone, 0);
}

TEST_F(SshConfigTest, AliasesAreTheWordsOfHostLinesThatNameOneHost)
{
    auto const file = write("c", "Host a b* !c d\nHost a e\nMatch host f\n");
    auto const config = SshConfig::load(file, homeFolder()).value();
    EXPECT_THAT(config.aliases(), ElementsAre("a", "d", "e"));
    EXPECT_EQ(config.whereIs("e"), file + ":2");
    EXPECT_EQ(config.whereIs("f"), "");
}

TEST_F(SshConfigTest, WhatWeDoNotHonourIsReportedOnceWithItsPlace)
{
    auto const file = write("c", "IgnoreUnknown foo\nHost web\nForwardAgent yes\nFoo x\nForwardAgent "
                                 "no\nUser u\nHost db\nCompression yes\n");
    auto const config = SshConfig::load(file, homeFolder()).value();
    EXPECT_THAT(config.resolve("web", "me").ignored,
                ElementsAre("forwardagent (" + file + ":3)", "foo (" + file + ":4)"));
}

TEST_F(SshConfigTest, AMissingFileIsEmptyAndOneThatCannotBeReadIsAnError)
{
    auto const config = SshConfig::load(m_folder / "nowhere", homeFolder());
    ASSERT_TRUE(config);
    EXPECT_THAT(config->aliases(), IsEmpty());
    EXPECT_EQ(config->resolve("web", "me").user, "me");
    auto const huge = write("huge", std::string(17U << 20U, '\n'));
    EXPECT_EQ(SshConfig::load(huge, homeFolder()).error().code, Errc::TooLarge);
}

TEST_F(SshConfigTest, ValuesOfACommandLineComeFirst)
{
    auto const config =
        SshConfig::load(write("c", "User u\nPort 1\nMatch user me2\nIdentityFile x\n"), homeFolder()).value();
    auto const host = config.resolve("web", "me", {.user = "me2", .port = 5});
    EXPECT_EQ(host.user, "me2");
    EXPECT_EQ(host.port, 5);
    EXPECT_THAT(host.identityFiles, ElementsAre("x"));
}

/// Files from a grammar: mostly lines that ssh takes, written in every way it takes them.
class FileMaker {
public:
    FileMaker(unsigned seed, std::string include) : m_random(seed), m_include(std::move(include)) {}

    std::string next(std::size_t lines)
    {
        std::string text;
        for (auto left = lines; left > 0; --left)
            text += line();
        return text;
    }

private:
    std::size_t upTo(std::size_t most)
    {
        return std::uniform_int_distribution<std::size_t>(0, most)(m_random);
    }
    std::string oneOf(std::initializer_list<std::string_view> list)
    {
        return std::string(*(list.begin() + upTo(list.size() - 1)));
    }

    std::string keyword(std::string text)
    {
        for (auto& c : text)
            if (upTo(4) == 0)
                c = static_cast<char>(upTo(1) == 0 ? std::toupper(c) : std::tolower(c));
        return oneOf({"", "", "", "  ", "\t"}) + text + oneOf({" ", " ", " ", "=", " = ", "\t", "  =", "= "});
    }
    std::string value(std::string const& text)
    {
        auto const kind = upTo(9);
        return kind == 0   ? '"' + text + '"'
               : kind == 1 ? '\'' + text + '\''
               : kind == 2 ? text.substr(0, 1) + '"' + text.substr(1) + '"'
                           : text;
    }
    std::string end() { return oneOf({"", "", "", "", " ", "\t", " # note", " #", "\r"}) + '\n'; }
    std::string pattern()
    {
        return oneOf({"web", "db1", "db2", "jump", "a.example.com", "*", "db?", "*.com", "!db2", "!web",
                      "w*b", "10.0.*", "WEB", "?"});
    }
    std::string list(std::initializer_list<std::string_view> words)
    {
        auto text = oneOf(words);
        while (upTo(2) == 0)
            text += ',' + oneOf(words);
        return text;
    }

    std::string line()
    {
        switch (upTo(22)) {
        case 0:
        case 1:
        case 2: {
            auto text = keyword("Host") + value(pattern());
            while (upTo(1) == 0)
                text += ' ' + value(pattern());
            return text + end();
        }
        case 3: {
            std::string text = keyword("Match");
            for (auto left = 1 + upTo(1); left > 0; --left)
                text += condition() + ' ';
            return text + end();
        }
        case 4:
            return keyword("HostName") +
                   value(oneOf({"x.example.com", "%h", "%h.internal", "10.0.0.7", "FOO", "::1", "a%%b"})) +
                   end();
        case 5: return keyword("User") + value(oneOf({"root", "deploy", "ada", "j.doe"})) + end();
        case 6: return keyword("Port") + value(oneOf({"22", "2222", "65535", "ssh", "1"})) + end();
        case 7:
        case 8:
            return keyword("IdentityFile") +
                   value(oneOf({"~/.ssh/a", "~/.ssh/b", "/k/%h", "none", "%d/x", "b c"})) + end();
        case 9: return keyword("CertificateFile") + value(oneOf({"~/.ssh/a-cert.pub", "/c"})) + end();
        case 10: return keyword("IdentitiesOnly") + value(oneOf({"yes", "no", "TRUE", "false"})) + end();
        case 11:
            return keyword("IdentityAgent") +
                   value(oneOf({"none", "SSH_AUTH_SOCK", "~/agent", "/run/%r", "$SSH_TEST_VARIABLE",
                                "${SSH_TEST_VARIABLE}"})) +
                   end();
        case 12:
            return keyword("ProxyJump") +
                   oneOf({"none", "jump", "ada@jump", "jump:2222", "a,b", "ada@a:1,ssh://b:2", "[::1]",
                          "10.0.0.9"}) +
                   end();
        case 13:
            return keyword("ProxyCommand") + oneOf({"none", "nc %h %p", "ssh -W %h:%p x", "sh -c \"a b\""}) +
                   end();
        case 14: return keyword("HostKeyAlias") + value(oneOf({"Alias", "other"})) + end();
        case 15:
            return keyword("UserKnownHostsFile") + value(oneOf({"~/kh", "none", "/k/%h", "%d/%k"})) + end();
        case 16: return keyword("GlobalKnownHostsFile") + oneOf({"/a /b", "none", "\"/a b\" c"}) + end();
        case 17: return keyword("AddressFamily") + value(oneOf({"any", "inet", "inet6", "INET"})) + end();
        case 18: return keyword("ConnectTimeout") + value(oneOf({"5", "1m", "none", "2h3", "0"})) + end();
        case 19:
            return keyword(oneOf({"ServerAliveInterval", "ServerAliveCountMax"})) +
                   value(oneOf({"5", "30", "0"})) + end();
        case 20: return upTo(3) == 0 ? keyword("Include") + value(m_include) + end() : std::string("\n");
        case 21:
            return keyword(oneOf({"ForwardAgent", "Compression", "TCPKeepAlive"})) + value("yes") + end();
        default:
            return upTo(7) == 0
                       ? oneOf({"Bogus x\n", "User a b\n", "Port 99999\n", "Host\n", "User \"x\n",
                                "IgnoreUnknown bogus\n", "Match final\n", "Match host\n", "ProxyJump a,,b\n"})
                       : oneOf({"# comment\n", "\n", "   \n", "#User x\n"});
        }
    }
    std::string condition()
    {
        auto const negated = upTo(4) == 0 ? "!" : "";
        auto const separator = oneOf({" ", " ", "=", "\t"});
        switch (upTo(5)) {
        case 0:
            return negated + std::string("host") + separator +
                   list({"web", "db*", "*.internal", "!db2", "X.example.com", "*"});
        case 1: return negated + std::string("originalhost") + separator + list({"web", "db?", "!web", "*"});
        case 2: return negated + std::string("user") + separator + list({"root", "ada", "d*", "!root", "*"});
        case 3: return negated + std::string("localuser") + separator + list({"root", "*", "nobody"});
        case 4: return std::string(negated) + "canonical";
        default: return upTo(1) == 0 ? "all" : std::string("Host \"web\"");
        }
    }

    std::mt19937 m_random;
    std::string m_include;
};

TEST_F(SshConfigTest, HundredsOfRandomFilesAreReadAsSshReadsThem)
{
    std::vector<Question> questions;
    for (unsigned i = 0; i < 250; ++i) {
        auto const name = "random" + std::to_string(i);
        write(name + ".inc", FileMaker(i + 10'000, "/dev/null").next(5));
        auto const file = write(name, FileMaker(i, (m_folder / (name + ".inc")).string()).next(4 + i % 25));
        for (auto const* const alias : {"web", "db2"})
            questions.push_back({file, alias});
    }
    auto const refused = compare(questions);
    EXPECT_GT(refused, 25) << "the grammar should make some bad files";
    EXPECT_LT(refused, 300) << "most files should be good ones";
    EXPECT_LT(m_oursAlone, 100);
}

} // namespace
} // namespace termalin::ssh
