#include <ctime>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>

#include "ssh/detail_known_hosts.h"
#include "ssh/known_hosts.h"
#include "ssh/public_key.h"
#include "ssh/wire.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin::ssh {
namespace {

using test::mustRun;
using test::run;
using test::TempDir;
using test::writeFile;

/// A key pair made by ssh-keygen.
struct Key {
    std::filesystem::path file;
    std::string line; ///< "ssh-ed25519 AAAA..."
    ServerKey key;
};

Key readPublic(std::filesystem::path const& publicFile, std::filesystem::path const& file)
{
    auto const text = test::readFile(publicFile);
    auto const type = text.substr(0, text.find(' '));
    auto const rest = text.substr(type.size() + 1);
    auto const blob = rest.substr(0, rest.find_first_of(" \n"));
    return {file, type + " " + blob, {type, fromBase64(blob).value()}};
}

Key makeKey(TempDir const& dir, std::string const& name, std::string const& type = "ed25519",
            std::string const& bits = "")
{
    auto const file = dir / name;
    std::vector<std::string> command{"ssh-keygen", "-q", "-t", type, "-N", "", "-C", "", "-f", file.string()};
    if (!bits.empty())
        command.insert(command.end(), {"-b", bits});
    mustRun(command);
    return readPublic(file.string() + ".pub", file);
}

/// A host certificate over `subject` by `authority`; `more`: further options of ssh-keygen.
Key certify(Key const& authority, Key const& subject, std::vector<std::string> const& more)
{
    std::vector<std::string> command{"ssh-keygen", "-q", "-s", authority.file.string(), "-I", "test"};
    command.insert(command.end(), more.begin(), more.end());
    command.push_back(subject.file.string() + ".pub");
    mustRun(command);
    auto const made = subject.file.string() + "-cert.pub";
    return readPublic(made, subject.file);
}

std::string hashed(TempDir const& dir, std::string const& line)
{
    auto const file = dir / "to-hash";
    writeFile(file, line + "\n");
    mustRun({"ssh-keygen", "-q", "-H", "-f", file.string()});
    auto text = test::readFile(file);
    text.pop_back();
    return text;
}

enum class Said { Trusted, Unknown, Changed, Revoked, Other };

std::ostream& operator<<(std::ostream& out, Said said)
{
    static constexpr char const* kNames[] = {"Trusted", "Unknown", "Changed", "Revoked", "Other"};
    return out << kNames[static_cast<int>(said)];
}

/// A real server with one host key, and what the real ssh makes of it. It is reached through a ProxyCommand,
/// so that any name and port can be claimed.
class Oracle {
public:
    Oracle(TempDir const& dir, Key const& hostKey, std::string const& certificate = "")
        : m_config(dir / ("sshd_config" + std::to_string(++made)))
        , m_known(dir / ("known" + std::to_string(made)))
    {
        ::mkdir("/run/sshd", 0755); // where sshd as root gives up its rights; harmless where it exists
        std::string config = "HostKey " + hostKey.file.string() + "\nUsePAM no\nPidFile none\n";
        if (!certificate.empty())
            config += "HostCertificate " + certificate + "\n";
        writeFile(m_config, config);
    }

    Said ask(std::string const& knownHosts, std::string const& host, int port,
             std::string const& alias = "") const
    {
        writeFile(m_known, knownHosts);
        std::vector<std::string> command{"ssh",
                                         "-F",
                                         "none",
                                         "-oBatchMode=yes",
                                         "-oStrictHostKeyChecking=yes",
                                         "-oProxyCommand=/usr/sbin/sshd -i -f " + m_config.string(),
                                         "-oUserKnownHostsFile=" + m_known.string(),
                                         "-oGlobalKnownHostsFile=/dev/null",
                                         "-oPreferredAuthentications=none",
                                         "-oUpdateHostKeys=no",
                                         "-oIdentityAgent=none"};
        if (!alias.empty())
            command.push_back("-oHostKeyAlias=" + alias);
        command.insert(command.end(), {"-p", std::to_string(port), "nobody@" + host, "true"});
        m_last = run(command).out;
        if (m_last.contains("REVOKED"))
            return Said::Revoked;
        if (m_last.contains("HOST IDENTIFICATION HAS CHANGED"))
            return Said::Changed;
        if (m_last.contains("host key is known for"))
            return Said::Unknown;
        if (m_last.contains("Permission denied"))
            return Said::Trusted;
        return Said::Other;
    }
    [[nodiscard]] std::string const& last() const noexcept { return m_last; }

private:
    static inline int made = 0;
    std::filesystem::path m_config, m_known;
    mutable std::string m_last;
};

/// Ours in ssh's words. ssh calls a key of another type for a known host changed; we ask, after known types
/// were offered first: neither trusts it. A certificate that does not hold is looked at as a plain key by
/// ssh.
Said ours(HostKeyVerdict verdict)
{
    switch (verdict) {
    case HostKeyVerdict::Trusted: return Said::Trusted;
    case HostKeyVerdict::Changed:
    case HostKeyVerdict::NewType: return Said::Changed;
    case HostKeyVerdict::Revoked: return Said::Revoked;
    case HostKeyVerdict::NewHost:
    case HostKeyVerdict::BadCertificate: return Said::Unknown;
    }
    return Said::Other;
}

struct Case {
    std::string what;
    std::string knownHosts;
    std::string host = "server.example";
    int port = 22;
};

TEST(KnownHosts, GivesTheVerdictThatSshGivesForEveryKindOfLine)
{
    TempDir const dir;
    auto const host = makeKey(dir, "host");
    auto const other = makeKey(dir, "other");
    auto const third = makeKey(dir, "third");
    auto const rsa = makeKey(dir, "rsa", "rsa", "2048");
    auto const ecdsa = makeKey(dir, "ecdsa", "ecdsa");
    Oracle const oracle(dir, host);
    auto const& h = host.line;
    auto const& o = other.line;
    std::string const longComment(100'000, 'x');
    std::string const longPattern(1100, 'a');

    std::vector<Case> const cases{
        {"nothing", ""},
        {"plain", "server.example " + h + "\n"},
        {"plain, another key", "server.example " + o + "\n"},
        {"another type", "server.example " + rsa.line + "\n"},
        {"ecdsa only", "server.example " + ecdsa.line + "\n"},
        {"upper case in the file", "SERVER.Example " + h + "\n"},
        {"upper case asked", "server.example " + h + "\n", "Server.EXAMPLE"},
        {"another name", "server.example.org " + h + "\n"},
        {"a list", "a,server.example,b " + h + "\n"},
        {"a list with spaces is no list", "a, server.example " + h + "\n"},
        {"star", "*.example " + h + "\n"},
        {"star alone", "* " + h + "\n"},
        {"question marks", "server.?x?mple " + h + "\n"},
        {"negated after", "*.example,!server.example " + h + "\n"},
        {"negated before", "!server.example,*.example " + h + "\n"},
        {"negation of another", "!other.example,*.example " + h + "\n"},
        {"only negation", "!server.example " + h + "\n"},
        {"only the negation of another", "!other.example " + h + "\n"},
        {"negated here, plain there", "*.example,!server.example " + o + "\nserver.example " + h + "\n"},
        {"hashed", hashed(dir, "server.example " + h) + "\n"},
        {"hashed, another key", hashed(dir, "server.example " + o) + "\n"},
        {"hashed, upper case asked", hashed(dir, "server.example " + h) + "\n", "SERVER.example"},
        {"damaged hash", "|1|AAAA|BBBB " + h + "\n"},
        {"unknown hash", "|2|AAAA|BBBB " + h + "\n"},
        {"damaged hash before a good line", "|1|zzz " + o + "\nserver.example " + h + "\n"},
        {"port", "[server.example]:2222 " + h + "\n", "server.example", 2222},
        {"port, hashed", hashed(dir, "[server.example]:2222 " + h) + "\n", "server.example", 2222},
        {"another port", "[server.example]:2223 " + h + "\n", "server.example", 2222},
        {"port 22 in brackets", "[server.example]:22 " + h + "\n"},
        {"without port for a port", "server.example " + h + "\n", "server.example", 2222},
        {"another key without port for a port", "server.example " + o + "\n", "server.example", 2222},
        {"port known by another key, host by this",
         "[server.example]:2222 " + o + "\nserver.example " + h + "\n", "server.example", 2222},
        {"a port's key for port 22", "[server.example]:2222 " + h + "\n"},
        {"brackets without port", "[server.example] " + h + "\n"},
        {"star for a port", "*.example " + h + "\n", "server.example", 2222},
        {"star in brackets", "[*.example]:2222 " + h + "\n", "server.example", 2222},
        {"star as the port", "[server.example]:* " + h + "\n", "server.example", 2222},
        {"IPv4", "192.0.2.7 " + h + "\n", "192.0.2.7"},
        {"IPv4 by name", "server.example,192.0.2.7 " + h + "\n", "192.0.2.7"},
        {"IPv6", "2001:db8::7 " + h + "\n", "2001:db8::7"},
        {"IPv6 with port", "[2001:db8::7]:2222 " + h + "\n", "2001:db8::7", 2222},
        {"IPv6 in brackets for port 22", "[2001:db8::7]:22 " + h + "\n", "2001:db8::7"},
        {"both keys", "server.example " + o + "\nserver.example " + h + "\n"},
        {"both keys, the other way", "server.example " + h + "\nserver.example " + o + "\n"},
        {"known twice by others", "server.example " + o + "\nserver.example " + third.line + "\n"},
        {"revoked", "@revoked server.example " + h + "\n"},
        {"revoked and trusted", "server.example " + h + "\n@revoked * " + h + "\n"},
        {"trusted and revoked", "@revoked server.example " + h + "\nserver.example " + h + "\n"},
        {"another key revoked", "@revoked * " + o + "\nserver.example " + h + "\n"},
        {"revoked for another host", "@revoked other.example " + h + "\nserver.example " + h + "\n"},
        {"revoked, hashed",
         "@revoked " + hashed(dir, "server.example " + h) + "\nserver.example " + h + "\n"},
        {"revoked with a port", "@revoked [server.example]:2222 " + h + "\n[server.example]:2222 " + h + "\n",
         "server.example", 2222},
        {"revoked except here", "@revoked *,!server.example " + h + "\nserver.example " + h + "\n"},
        {"an authority is no key", "@cert-authority server.example " + h + "\n"},
        {"authority and key", "@cert-authority * " + o + "\nserver.example " + h + "\n"},
        {"unknown marker", "@trusted server.example " + h + "\n"},
        {"two markers", "@revoked @cert-authority server.example " + h + "\nserver.example " + h + "\n"},
        {"marker alone", "@revoked\nserver.example " + h + "\n"},
        {"authority with a tab", "@cert-authority\tserver.example\t" + h + "\n"},
        {"spaces around", "  \t server.example \t  " + h + "  comment\n"},
        {"tabs", "server.example\tssh-ed25519\t" + h.substr(12) + "\n"},
        {"CRLF", "server.example " + h + "\r\n"},
        {"CRLF with comment", "# x\r\n\r\nserver.example " + h + " me@there\r\n"},
        {"no end of line", "server.example " + h},
        {"a comment", "# server.example " + h + "\n"},
        {"an indented comment", "   # server.example " + h + "\n"},
        {"a comment behind the name", "server.example # " + h + "\n"},
        {"a long line", "server.example " + h + " " + longComment + "\n"},
        {"a long line before", "other " + o + " " + longComment + "\nserver.example " + h + "\n"},
        {"many names",
         [] {
             std::string names;
             for (int i = 0; i < 3000; ++i)
                 names += "host" + std::to_string(i) + ",";
             return names;
         }() +
             "server.example " + h + "\n"},
        {"a pattern too long", longPattern + ",server.example " + h + "\n"},
        {"server first, then a pattern too long", "server.example," + longPattern + " " + h + "\n"},
        {"unknown key type", "server.example ssh-future AAAA\nserver.example " + h + "\n"},
        {"only an unknown key type", "server.example ssh-future AAAA\n"},
        {"damaged base64", "server.example ssh-ed25519 AAAA!!!!\n"},
        {"cut base64", "server.example " + h.substr(0, h.size() - 6) + "\n"},
        {"type that is not the key's", "server.example ssh-rsa " + h.substr(12) + "\n"},
        {"short type name", "server.example ed25519 " + h.substr(12) + "\n"},
        {"no key", "server.example\n"},
        {"no key, but others", "server.example\nserver.example " + h + "\n"},
        {"SSH 1", "server.example 1024 35 1234567890\nserver.example " + h + "\n"},
        {"empty lines", "\n\n\nserver.example " + h + "\n\n"},
        {"a NUL", std::string("server.example ") + h + std::string("\0 x\n", 4)},
        {"a NUL in the name", std::string("server.example\0,b ", 18) + h + "\n"},
        {"empty pattern", ",server.example " + h + "\n"},
        {"quoted", "\"server.example\" " + h + "\n"},
    };
    for (auto const& [what, text, name, port] : cases) {
        auto const theirs = oracle.ask(text, name, port);
        auto const known = KnownHosts::parse(text, "known_hosts");
        Target target;
        target.hostname = name;
        target.port = static_cast<std::uint16_t>(port);
        auto const asked = knownHostsName(target);
        auto const answer = known.check(asked.host, asked.port, host.key, std::time(nullptr));
        EXPECT_NE(theirs, Said::Other) << what << "\n" << oracle.last();
        EXPECT_EQ(ours(answer.verdict), theirs) << what << "\n" << oracle.last();
    }
}

TEST(KnownHosts, JudgesHostCertificatesAsSshDoes)
{
    TempDir const dir;
    auto const authority = makeKey(dir, "ca");
    auto const rsaAuthority = makeKey(dir, "rsa-ca", "rsa", "2048");
    auto const ecdsaAuthority = makeKey(dir, "ecdsa-ca", "ecdsa", "384");
    auto const other = makeKey(dir, "other-ca");
    struct CertificateCase {
        std::string what;
        Key const* signer;
        std::vector<std::string> options;
        std::string knownHosts; ///< A: the signer, O: another authority, K: the plain key
        std::string host = "server.example";
        int port = 22;
        std::string type = "ed25519";
        std::string alias = "";
    };
    auto const forServer = [](std::vector<std::string> more = {}) {
        more.insert(more.begin(), {"-h", "-n", "server.example"});
        return more;
    };
    std::vector<CertificateCase> const cases{
        {"good", &authority, forServer(), "@cert-authority *.example A\n"},
        {"good, RSA authority", &rsaAuthority, forServer(), "@cert-authority *.example A\n"},
        {"RSA authority with SHA-2 256", &rsaAuthority, forServer({"-t", "rsa-sha2-256"}),
         "@cert-authority * A\n"},
        {"RSA authority with SHA-1", &rsaAuthority, forServer({"-t", "ssh-rsa"}), "@cert-authority * A\n"},
        {"good, ECDSA authority", &ecdsaAuthority, forServer(), "@cert-authority *.example A\n"},
        {"RSA host key", &authority, forServer(), "@cert-authority * A\n", "server.example", 22, "rsa"},
        {"ECDSA host key", &authority, forServer(), "@cert-authority * A\n", "server.example", 22, "ecdsa"},
        {"no authority", &authority, forServer(), ""},
        {"another authority", &authority, forServer(), "@cert-authority * O\n"},
        {"two authorities", &authority, forServer(), "@cert-authority * O\n@cert-authority * A\n"},
        {"authority for others", &authority, forServer(), "@cert-authority *.org A\n"},
        {"authority as a plain key", &authority, forServer(), "server.example A\n"},
        {"plain key known", &authority, forServer(), "server.example K\n"},
        {"plain key known, another authority", &authority, forServer(),
         "@cert-authority * O\nserver.example K\n"},
        {"wrong principal, plain key known",
         &authority,
         {"-h", "-n", "x"},
         "@cert-authority * A\nserver.example K\n"},
        {"any principal", &authority, {"-h"}, "@cert-authority * A\n"},
        {"wrong principal", &authority, {"-h", "-n", "other.example"}, "@cert-authority * A\n"},
        {"several principals", &authority, {"-h", "-n", "a,server.example,b"}, "@cert-authority * A\n"},
        {"a wildcard principal", &authority, {"-h", "-n", "*.example"}, "@cert-authority * A\n"},
        {"upper case asked", &authority, forServer(), "@cert-authority * A\n", "Server.Example"},
        {"upper case principal",
         &authority,
         {"-h", "-n", "Server.Example"},
         "@cert-authority * A\n",
         "Server.Example"},
        {"a user certificate", &authority, {"-n", "server.example"}, "@cert-authority * A\n"},
        {"expired", &authority, forServer({"-V", "20200101:20210101"}), "@cert-authority * A\n"},
        {"not yet valid", &authority, forServer({"-V", "20900101:20910101"}), "@cert-authority * A\n"},
        {"within its time", &authority, forServer({"-V", "-1d:+1d"}), "@cert-authority * A\n"},
        {"a critical option", &authority, forServer({"-O", "critical:x=y"}), "@cert-authority * A\n"},
        {"an extension", &authority, forServer({"-O", "extension:x=y"}), "@cert-authority * A\n"},
        {"authority revoked", &authority, forServer(), "@cert-authority * A\n@revoked * A\n"},
        {"key revoked", &authority, forServer(), "@cert-authority * A\n@revoked * K\n"},
        {"another revoked", &authority, forServer(), "@cert-authority * A\n@revoked * O\n"},
        {"a port", &authority, forServer(), "@cert-authority [server.example]:2222 A\n", "server.example",
         2222},
        {"a port by the name alone", &authority, forServer(), "@cert-authority server.example A\n",
         "server.example", 2222},
        {"a port with another authority", &authority, forServer(),
         "@cert-authority [server.example]:2222 O\n@cert-authority server.example A\n", "server.example",
         2222},
        {"plain key without port", &authority, forServer(), "server.example K\n", "server.example", 2222},
        {"an alias",
         &authority,
         {"-h", "-n", "alias"},
         "@cert-authority alias A\n",
         "server.example",
         2222,
         "ed25519",
         "alias"},
        {"an alias with a plain key",
         &authority,
         {"-h", "-n", "x"},
         "alias K\n",
         "server.example",
         2222,
         "ed25519",
         "alias"},
        {"an alias takes no port",
         &authority,
         {"-h", "-n", "x"},
         "[alias]:2222 K\n",
         "server.example",
         2222,
         "ed25519",
         "alias"},
    };
    int number = 0;
    for (auto const& row : cases) {
        auto const subject =
            makeKey(dir, "subject" + std::to_string(++number), row.type, row.type == "rsa" ? "2048" : "");
        auto const certificate = certify(*row.signer, subject, row.options);
        std::string text;
        for (auto const c : row.knownHosts)
            text += c == 'A'   ? row.signer->line
                    : c == 'O' ? other.line
                    : c == 'K' ? subject.line
                               : std::string(1, c);
        Oracle const oracle(dir, subject, subject.file.string() + "-cert.pub");
        auto const theirs = oracle.ask(text, row.host, row.port, row.alias);
        Target target;
        target.hostname = row.host;
        target.port = static_cast<std::uint16_t>(row.port);
        target.hostKeyAlias = row.alias;
        auto const asked = knownHostsName(target);
        auto const answer =
            KnownHosts::parse(text, "f").check(asked.host, asked.port, certificate.key, std::time(nullptr));
        EXPECT_EQ(ours(answer.verdict), theirs) << row.what << "\n" << oracle.last();
        EXPECT_EQ(answer.verdict == HostKeyVerdict::BadCertificate, !answer.detail.empty()) << row.what;
    }
}

TEST(KnownHosts, FindsTheNamesThatSshKeygenFinds)
{
    TempDir const dir;
    auto const key = makeKey(dir, "host");
    auto const file = dir / "known_hosts";
    for (std::string const names :
         {"a",    "a,b", "*",      "a*",       "*a",      "a*b*c",    "?",          "??", "!a,*",
          "*,!a", "!a",  "[a]:22", "[a]:2222", "[a]:*",   "[*]:2222", "a,[a]:2222", "A",  "",
          "a?c",  "*?*", "a**c",   "***",      "abc,!a*", "10.*",     "fe80::*"}) {
        if (names.empty())
            continue;
        writeFile(file, names + " " + key.line + "\n");
        for (std::string const asked :
             {"a", "b", "ab", "abc", "axbxc", "[a]:2222", "[a]:22", "A", "10.0.0.1", "fe80::1"}) {
            bool const theirs = run({"ssh-keygen", "-F", asked, "-f", file.string()}).ok();
            EXPECT_EQ(detail::matchesNames(asked, names), theirs) << names << " for " << asked;
        }
    }
}

TEST(KnownHosts, PrintsTheFingerprintThatSshKeygenPrints)
{
    TempDir const dir;
    auto const authority = makeKey(dir, "ca");
    for (std::string const type : {"ed25519", "ecdsa", "rsa"}) {
        auto const key = makeKey(dir, type, type);
        auto const printed = mustRun({"ssh-keygen", "-l", "-f", key.file.string() + ".pub"});
        EXPECT_TRUE(printed.contains(" " + fingerprint(key.key.blob) + " ")) << printed;
        auto const certificate = certify(authority, key, {"-h", "-n", "x"});
        auto const ofCertificate = mustRun({"ssh-keygen", "-l", "-f", key.file.string() + "-cert.pub"});
        EXPECT_TRUE(ofCertificate.contains(" " + fingerprint(certificate.key.blob) + " ")) << ofCertificate;
    }
}

TEST(KnownHosts, SaysWhichLineDecidedAndWhatIsKnown)
{
    TempDir const dir;
    auto const host = makeKey(dir, "host");
    auto const other = makeKey(dir, "other");
    auto const known = KnownHosts::parse("# c\nserver " + other.line + "\n", "/k");
    auto const changed = known.check("server", 22, host.key, 0);
    EXPECT_EQ(changed.verdict, HostKeyVerdict::Changed);
    EXPECT_EQ(changed.where, "/k:2");
    EXPECT_EQ(changed.knownFingerprints, std::vector{fingerprint(other.key.blob)});
    auto const revoked =
        KnownHosts::parse("\n\n@revoked * " + host.line, "/k").check("server", 22, host.key, 0);
    EXPECT_EQ(revoked.where, "/k:3");
}

TEST(KnownHosts, ARevocationBehindATabCountsThoughSshMissesIt)
{
    TempDir const dir;
    auto const host = makeKey(dir, "host");
    auto const known = KnownHosts::parse("@revoked\t* " + host.line + "\nserver " + host.line + "\n", "f");
    EXPECT_EQ(known.check("server", 22, host.key, 0).verdict, HostKeyVerdict::Revoked);
}

TEST(KnownHosts, ARevocationOfTheNameCountsOnEveryPort)
{
    TempDir const dir;
    auto const host = makeKey(dir, "host");
    auto const known =
        KnownHosts::parse("@revoked server " + host.line + "\n[server]:2222 " + host.line + "\n", "f");
    EXPECT_EQ(known.check("server", 2222, host.key, 0).verdict, HostKeyVerdict::Revoked);
}

TEST(KnownHosts, AKeyOfATypeNeverSeenIsAsked)
{
    TempDir const dir;
    auto const host = makeKey(dir, "host");
    auto const ecdsa = makeKey(dir, "ecdsa", "ecdsa");
    auto const known = KnownHosts::parse("server " + ecdsa.line + "\n", "f");
    EXPECT_EQ(known.check("server", 22, host.key, 0).verdict, HostKeyVerdict::NewType);
    EXPECT_EQ(known.knownTypes("server", 22), std::vector<std::string>{"ecdsa-sha2-nistp256"});
    EXPECT_TRUE(known.knownTypes("other", 22).empty());
}

TEST(KnownHosts, OffersCertificatesFirstWhereAnAuthorityIsKnown)
{
    TempDir const dir;
    auto const key = makeKey(dir, "host");
    auto const known =
        KnownHosts::parse("@cert-authority *.example " + key.line + "\nb.example " + key.line + "\n", "f");
    auto const types = known.knownTypes("b.example", 2222);
    ASSERT_GE(types.size(), 2U);
    EXPECT_EQ(types.front(), "ssh-ed25519-cert-v01@openssh.com");
    EXPECT_EQ(types.back(), "ssh-ed25519");
}

TEST(KnownHosts, NamesLinesThatDoNotParse)
{
    auto const known =
        KnownHosts::parse("# fine\n\na ssh-ed25519 AAAA\n@huh b ssh-rsa AAAA\nc\n|1|x c d\n", "/k");
    ASSERT_EQ(known.problems().size(), 4U);
    EXPECT_TRUE(known.problems()[0].starts_with("/k:3: "));
    EXPECT_TRUE(known.problems()[1].starts_with("/k:4: "));
    EXPECT_TRUE(known.problems()[2].starts_with("/k:5: "));
    EXPECT_TRUE(known.problems()[3].starts_with("/k:6: "));
}

TEST(KnownHosts, MissingFilesAreEmptyAndUnreadableOnesAreErrors)
{
    TempDir const dir;
    std::array const missing{dir / "none", dir / "none/below"};
    EXPECT_TRUE(KnownHosts::load(missing));
    std::array const folder{dir.path()};
    auto const answer = KnownHosts::load(folder);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::PermissionDenied);
    mustRun({"mkfifo", (dir / "pipe").string()});
    std::array const pipe{dir / "pipe"};
    EXPECT_FALSE(KnownHosts::load(pipe));
    std::array<std::filesystem::path, 1> const null{"/dev/null"};
    EXPECT_TRUE(KnownHosts::load(null));
}

TEST(TrustHostKey, WritesWhatSshThenTrusts)
{
    TempDir const dir;
    auto const host = makeKey(dir, "host");
    Oracle const oracle(dir, host);
    auto const file = dir / "deep/er/known_hosts";
    for (auto const port : {22, 2222}) {
        ASSERT_TRUE(trustHostKey(file, "server.example", static_cast<std::uint16_t>(port), host.key));
        EXPECT_EQ(oracle.ask(test::readFile(file), "server.example", port), Said::Trusted) << oracle.last();
    }
    struct stat info{};
    ASSERT_EQ(::stat(file.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    ASSERT_EQ(::stat(file.parent_path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0700U);
}

TEST(TrustHostKey, AddsNothingTwiceAndKeepsWhatIsThere)
{
    TempDir const dir;
    auto const host = makeKey(dir, "host");
    auto const file = dir / "known_hosts";
    writeFile(file, "# mine, without an end of line");
    ASSERT_TRUE(trustHostKey(file, "server", 22, host.key));
    auto const once = test::readFile(file);
    ASSERT_TRUE(trustHostKey(file, "server", 22, host.key));
    EXPECT_EQ(test::readFile(file), once);
    EXPECT_EQ(once, "# mine, without an end of line\nserver " + host.line + "\n");
}

TEST(TrustHostKey, SeveralAtOnceLoseNothing)
{
    TempDir const dir;
    auto const host = makeKey(dir, "host");
    auto const file = dir / "known_hosts";
    {
        std::vector<std::jthread> writers;
        for (int i = 0; i < 8; ++i)
            writers.emplace_back([&, i] {
                for (int n = 0; n < 5; ++n)
                    EXPECT_TRUE(
                        trustHostKey(file, "h" + std::to_string(i) + "-" + std::to_string(n), 22, host.key));
            });
    }
    auto const known = KnownHosts::parse(test::readFile(file), "f");
    EXPECT_TRUE(known.problems().empty());
    for (int i = 0; i < 8; ++i)
        for (int n = 0; n < 5; ++n)
            EXPECT_EQ(known.check("h" + std::to_string(i) + "-" + std::to_string(n), 22, host.key, 0).verdict,
                      HostKeyVerdict::Trusted);
}

TEST(TrustHostKey, RefusesNamesThatWouldMeanMore)
{
    TempDir const dir;
    auto const host = makeKey(dir, "host");
    for (std::string const name : {"", "*", "a,b", "a b", "a\nb", "!a", "|1|x", "@revoked", "#a", "a\tb"}) {
        auto const answer = trustHostKey(dir / "k", name, 22, host.key);
        ASSERT_FALSE(answer) << name;
        EXPECT_EQ(answer.error().code, Errc::InvalidArgument);
    }
    EXPECT_FALSE(trustHostKey(dir / "k", "a", 22, {"ssh-ed25519", "junk"}));
    EXPECT_FALSE(std::filesystem::exists(dir / "k"));
}

TEST(TrustHostKey, RefusesAKeyThatTheFileRevokes)
{
    TempDir const dir;
    auto const host = makeKey(dir, "host");
    writeFile(dir / "k", "@revoked * " + host.line + "\n");
    auto const answer = trustHostKey(dir / "k", "server", 22, host.key);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::HostKeyRevoked);
}

TEST(TrustHostKey, WritesTheKeyInsideACertificate)
{
    TempDir const dir;
    auto const authority = makeKey(dir, "ca");
    auto const host = makeKey(dir, "host");
    auto const certificate = certify(authority, host, {"-h", "-n", "server"});
    ASSERT_TRUE(trustHostKey(dir / "k", "server", 22, certificate.key));
    EXPECT_EQ(test::readFile(dir / "k"), "server " + host.line + "\n");
}

TEST(ReplaceHostKey, LeavesOnlyTheNewKeyForThisServer)
{
    TempDir const dir;
    auto const host = makeKey(dir, "host");
    auto const other = makeKey(dir, "other");
    auto const ecdsa = makeKey(dir, "ecdsa", "ecdsa");
    auto const file = dir / "known_hosts";
    writeFile(file, "# keep\n\na,server,b " + other.line + " note\nserver " + ecdsa.line + "\n" +
                        hashed(dir, "server " + other.line) + "\n[server]:2222 " + other.line +
                        "\n@cert-authority server " + other.line + "\nelse " + other.line + "\n");
    ASSERT_TRUE(replaceHostKey(file, "server", 22, host.key));
    EXPECT_EQ(test::readFile(file), "# keep\n\na,b " + other.line + " note\n[server]:2222 " + other.line +
                                        "\n@cert-authority server " + other.line + "\nelse " + other.line +
                                        "\nserver " + host.line + "\n");
    auto const known = KnownHosts::parse(test::readFile(file), "f");
    EXPECT_EQ(known.check("server", 22, host.key, 0).verdict, HostKeyVerdict::Trusted);
    EXPECT_EQ(known.check("server", 22, other.key, 0).verdict, HostKeyVerdict::Changed);
    EXPECT_EQ(known.check("a", 22, other.key, 0).verdict, HostKeyVerdict::Trusted);
}

} // namespace
} // namespace termalin::ssh
