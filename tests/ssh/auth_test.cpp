#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "ssh/detail_crypto.h"
#include "ssh/key_file.h"
#include "ssh/wire.h"
#include "tests/support/agent.h"
#include "tests/support/program.h"
#include "tests/support/sshd.h"

namespace termalin::ssh {
namespace {

using test::Agent;
using test::mustRun;
using test::Sshd;
using test::TempDir;

/// What a person has saved; counts what was asked for.
class Saved : public Credentials {
public:
    std::string passwordText, passphraseText;
    std::vector<std::vector<std::string>> rounds; ///< answers to keyboard-interactive
    std::vector<std::shared_ptr<Signer>> keys;
    std::optional<Error> passwordError;
    int passwordsGiven = 0, passphrasesAsked = 0;
    std::vector<std::string> asked;

    Result<std::optional<Secret>> password(Target const&) override
    {
        if (passwordError)
            return std::unexpected(*passwordError);
        if (passwordText.empty())
            return std::nullopt;
        ++passwordsGiven;
        return Secret(std::string_view(passwordText));
    }
    Result<std::optional<Secret>> passphrase(Target const&, std::string const&) override
    {
        ++passphrasesAsked;
        if (passphraseText.empty())
            return std::nullopt;
        return Secret(std::string_view(passphraseText));
    }
    Result<std::optional<std::vector<Secret>>> answers(Target const&, std::string const&,
                                                       std::vector<Prompt> const& prompts) override
    {
        for (auto const& prompt : prompts)
            asked.push_back(prompt.text);
        if (m_round >= rounds.size())
            return std::nullopt;
        std::vector<Secret> list;
        for (auto const& text : rounds[m_round])
            list.emplace_back(std::string_view(text));
        ++m_round;
        return list;
    }
    std::vector<std::shared_ptr<Signer>> signers(Target const&, Deadline, std::stop_token const&) override
    {
        return keys;
    }

private:
    std::size_t m_round = 0;
};

struct Tried {
    Result<std::shared_ptr<Connection>> connection;
    std::shared_ptr<Saved> saved;
    std::string what; ///< as onLoggedIn was told

    [[nodiscard]] std::string message() const { return connection ? "" : connection.error().message; }
    [[nodiscard]] std::optional<Errc> code() const
    {
        return connection ? std::nullopt : std::optional(connection.error().code);
    }
    [[nodiscard]] std::optional<AuthType> type() const
    {
        return connection ? std::optional((*connection)->authType()) : std::nullopt;
    }
};

Tried attempt(Sshd const& server, Target const& target,
              std::shared_ptr<Saved> saved = std::make_shared<Saved>(), std::string const& last = "")
{
    auto context = server.context();
    context.credentials = saved;
    Tried tried{fail(Errc::Internal, "not tried"), std::move(saved), {}};
    context.lastLogin = [&](std::string const&) { return last; };
    context.onLoggedIn = [&](std::string const&, std::string const& what) { tried.what = what; };
    tried.connection = Connection::open({{target}}, context, Deadline::in(std::chrono::seconds(60)), {});
    return tried;
}

std::string makeKey(std::filesystem::path const& file, std::vector<std::string> const& options,
                    std::string const& passphrase = "")
{
    std::vector<std::string> command{"ssh-keygen", "-q", "-N", passphrase, "-C", "test", "-f", file.string()};
    command.insert(command.end(), options.begin(), options.end());
    mustRun(command);
    return file.string();
}

void admit(Sshd const& server, std::string const& keyFile)
{
    test::writeFile(server.authorizedKeys(),
                    test::readFile(server.authorizedKeys()) + test::readFile(keyFile + ".pub"));
}

TEST(Login, ByKeyFilesOfEveryTypeAndForm)
{
    Sshd const server;
    TempDir const dir;
    int number = 0;
    for (std::vector<std::string> const& options :
         std::vector<std::vector<std::string>>{{"-t", "ed25519"},
                                               {"-t", "ecdsa", "-b", "256"},
                                               {"-t", "ecdsa", "-b", "384"},
                                               {"-t", "ecdsa", "-b", "521"},
                                               {"-t", "rsa", "-b", "2048"},
                                               {"-t", "rsa", "-b", "2048", "-m", "PEM"},
                                               {"-t", "ecdsa", "-m", "PKCS8"}}) {
        auto const key = makeKey(dir / std::to_string(++number), options);
        admit(server, key);
        auto target = server.target();
        target.keyFiles = {key};
        auto const tried = attempt(server, target);
        EXPECT_EQ(tried.type(), AuthType::Key) << options[1] << ": " << tried.message();
        EXPECT_FALSE(tried.connection && (*tried.connection)->neededPerson());
    }
}

TEST(Login, TellsARightAWrongAndAMissingPassphraseApart)
{
    Sshd const server;
    TempDir const dir;
    for (std::vector<std::string> const& options :
         std::vector<std::vector<std::string>>{{"-t", "ed25519"}, {"-t", "rsa", "-b", "2048", "-m", "PEM"}}) {
        auto const key = makeKey(dir / options[1], options, "correct horse");
        admit(server, key);
        auto target = server.target();
        target.keyFiles = {key};

        auto right = std::make_shared<Saved>();
        right->passphraseText = "correct horse";
        auto const good = attempt(server, target, right);
        EXPECT_EQ(good.type(), AuthType::Key) << good.message();

        auto wrong = std::make_shared<Saved>();
        wrong->passphraseText = "battery staple";
        auto const bad = attempt(server, target, wrong);
        EXPECT_EQ(bad.code(), Errc::AuthFailed);
        EXPECT_TRUE(bad.message().contains("is wrong")) << bad.message();
        EXPECT_FALSE(bad.message().contains("staple")) << bad.message();

        auto const none = attempt(server, target);
        EXPECT_EQ(none.code(), Errc::AuthFailed);
        EXPECT_TRUE(none.message().contains("needs its passphrase")) << none.message();
        EXPECT_TRUE(none.message().contains("--ask-passphrase")) << none.message();
    }
}

TEST(Login, AsksForNoPassphraseOfAKeyThatTheServerDoesNotWant)
{
    Sshd const server;
    TempDir const dir;
    auto target = server.target();
    target.keyFiles = {makeKey(dir / "k", {"-t", "ed25519"}, "correct horse")};
    auto const tried = attempt(server, target);
    EXPECT_EQ(tried.code(), Errc::AuthFailed);
    EXPECT_EQ(tried.saved->passphrasesAsked, 0);
}

TEST(Login, ByAnAgentWithEveryTypeOfKey)
{
    Sshd const server;
    TempDir const dir;
    for (std::string const type : {"ed25519", "ecdsa", "rsa"}) {
        Agent const agent;
        auto const key = makeKey(dir / type, {"-t", type});
        admit(server, key);
        agent.add({key});
        auto target = server.target();
        target.keyFiles.clear();
        target.agentSocket = agent.socket();
        auto const tried = attempt(server, target);
        EXPECT_EQ(tried.type(), AuthType::Agent) << type << ": " << tried.message();
    }
}

TEST(Login, ByCertificatesOfEveryTypeByFileAndByAgent)
{
    TempDir const dir;
    auto const authority = makeKey(dir / "ca", {"-t", "ed25519"});
    Sshd const server({.config = {"TrustedUserCAKeys " + authority + ".pub"}});
    test::writeFile(server.authorizedKeys(), "");
    for (std::string const type : {"ed25519", "ecdsa", "rsa"}) {
        auto const key = makeKey(dir / type, {"-t", type});
        mustRun({"ssh-keygen", "-q", "-s", authority, "-I", "id", "-n", server.user(), key + ".pub"});
        auto target = server.target();
        target.keyFiles = {key};
        auto const byFile = attempt(server, target);
        EXPECT_EQ(byFile.type(), AuthType::Certificate) << type << ": " << byFile.message();

        Agent const agent;
        agent.add({key});
        target.keyFiles.clear();
        target.agentSocket = agent.socket();
        auto const byAgent = attempt(server, target);
        EXPECT_EQ(byAgent.type(), AuthType::Certificate) << type << ": " << byAgent.message();

        // A certificate in a place of its own, the key for it in the agent alone.
        std::filesystem::rename(key + "-cert.pub", key + ".certificate");
        Agent const plain;
        plain.add({key});
        target.agentSocket = plain.socket();
        target.certificateFiles = {key + ".certificate"};
        target.identitiesOnly = true;
        auto const named = attempt(server, target);
        EXPECT_EQ(named.type(), AuthType::Certificate) << type << ": " << named.message();
    }
}

TEST(Login, NamesACertificateThatHasExpired)
{
    TempDir const dir;
    auto const authority = makeKey(dir / "ca", {"-t", "ed25519"});
    Sshd const server({.config = {"TrustedUserCAKeys " + authority + ".pub"}});
    auto const key = makeKey(dir / "k", {"-t", "ed25519"});
    mustRun({"ssh-keygen", "-q", "-s", authority, "-I", "id", "-V", "20200101:20210101", key + ".pub"});
    auto target = server.target();
    target.keyFiles = {key};
    auto const tried = attempt(server, target);
    EXPECT_EQ(tried.code(), Errc::AuthFailed);
    EXPECT_TRUE(tried.message().contains("-cert.pub\" has expired")) << tried.message();
}

/// An agent with eight keys, and where they are.
struct EightKeys {
    TempDir dir;
    Agent agent;
    std::vector<std::string> files;

    EightKeys()
    {
        for (int i = 1; i <= 8; ++i) {
            files.push_back(makeKey(dir / std::to_string(i), {"-t", "ed25519"}));
            agent.add({files.back()});
        }
    }
    [[nodiscard]] Target target(Sshd const& server) const
    {
        auto target = server.target();
        target.keyFiles.clear();
        target.agentSocket = agent.socket();
        return target;
    }
};

TEST(Login, WithAnAgentOfEightKeysTheEighthIsFoundThoughTheServerHangsUpAfterSix)
{
    EightKeys const keys;
    Sshd const server({.config = {"MaxAuthTries 6"}});
    admit(server, keys.files.back());
    auto const tried = attempt(server, keys.target(server));
    EXPECT_EQ(tried.type(), AuthType::Agent) << tried.message();
    EXPECT_EQ(server.accepted(), 2U);

    // What worked is told, and makes the next login go straight.
    auto const again = attempt(server, keys.target(server), std::make_shared<Saved>(), tried.what);
    EXPECT_EQ(again.type(), AuthType::Agent) << again.message();
    EXPECT_EQ(server.accepted(), 3U);
}

TEST(Login, WithAnAgentOfEightWrongKeysOneReconnectIsAllAndTheMessageAdvises)
{
    EightKeys const keys;
    Sshd const server({.config = {"MaxAuthTries 3"}});
    auto const tried = attempt(server, keys.target(server));
    EXPECT_EQ(tried.code(), Errc::AuthFailed);
    EXPECT_TRUE(tried.message().contains("Too many authentication failures")) << tried.message();
    EXPECT_TRUE(tried.message().contains("Name a key that the server knows")) << tried.message();
    EXPECT_EQ(server.accepted(), 2U);
}

TEST(Login, IdentitiesOnlyOffersTheConfiguredKeyAloneAndLetsTheAgentSign)
{
    EightKeys const keys;
    Sshd const server({.config = {"MaxAuthTries 1"}});
    admit(server, keys.files.back());
    auto target = keys.target(server);
    target.identitiesOnly = true;
    target.keyFiles = {keys.files.back() + ".pub"};
    auto const tried = attempt(server, target);
    EXPECT_EQ(tried.type(), AuthType::Agent) << tried.message();
    EXPECT_EQ(server.accepted(), 1U);
    target.keyFiles.clear();
    auto const nothing = attempt(server, target);
    EXPECT_EQ(nothing.code(), Errc::AuthFailed);
    EXPECT_TRUE(nothing.message().contains("nothing to offer")) << nothing.message();
}

TEST(Login, TheConfiguredKeyComesBeforeTheAgentsOthers)
{
    EightKeys const keys;
    Sshd const server({.config = {"MaxAuthTries 1"}});
    auto target = keys.target(server);
    target.keyFiles = server.target().keyFiles;
    auto const tried = attempt(server, target);
    EXPECT_EQ(tried.type(), AuthType::Key) << tried.message();
}

TEST(Login, GoesOnWithoutAnAgentThatIsDeadAndSaysSoIfNothingElseHelps)
{
    Sshd const server;
    Agent agent;
    agent.kill();
    auto target = server.target();
    target.agentSocket = agent.socket();
    EXPECT_EQ(attempt(server, target).type(), AuthType::Key);
    target.keyFiles.clear();
    auto const tried = attempt(server, target);
    EXPECT_EQ(tried.code(), Errc::AuthFailed);
    EXPECT_TRUE(tried.message().contains("does not answer")) << tried.message();
}

TEST(Login, SaysThatAKeyFileIsOpenToOthersMissingOrDamaged)
{
    Sshd const server;
    TempDir const dir;
    auto const open = makeKey(dir / "open", {"-t", "ed25519"});
    std::filesystem::remove(open + ".pub");
    ::chmod(open.c_str(), 0644);
    test::writeFile(dir / "damaged", "hello");
    ::chmod((dir / "damaged").c_str(), 0600);
    auto target = server.target();
    target.keyFiles = {open, (dir / "none").string(), (dir / "damaged").string()};
    auto const tried = attempt(server, target);
    EXPECT_EQ(tried.code(), Errc::AuthFailed);
    for (std::string const part : {"can be read by others", "there is no file", "is not a private key"})
        EXPECT_TRUE(tried.message().contains(part)) << tried.message();
}

TEST(Login, BySignersOfTheCredentials)
{
    Sshd const server;
    auto saved = std::make_shared<Saved>();
    saved->keys.push_back(KeyFile::read(server.userKey())->open(nullptr).value());
    auto target = server.target();
    target.keyFiles.clear();
    EXPECT_EQ(attempt(server, target, saved).type(), AuthType::Key);
}

TEST(Login, ReportsALockedVaultIfNothingElseSucceeds)
{
    Sshd const server({.config = {"PasswordAuthentication yes"}});
    auto saved = std::make_shared<Saved>();
    saved->passwordError = Error{Errc::VaultLocked, "The vault is locked; unlock it."};
    auto target = server.target();
    EXPECT_EQ(attempt(server, target, saved).type(), AuthType::Key);
    target.keyFiles.clear();
    auto const tried = attempt(server, target, saved);
    EXPECT_EQ(tried.code(), Errc::VaultLocked);
    EXPECT_TRUE(tried.message().contains("The vault is locked")) << tried.message();
}

TEST(Login, SaysWhatTheServerTakes)
{
    Sshd const server;
    auto target = server.target();
    target.user = "nobody-of-this-name";
    auto const tried = attempt(server, target);
    EXPECT_EQ(tried.code(), Errc::AuthFailed);
    EXPECT_TRUE(tried.message().contains("It takes: publickey")) << tried.message();
}

/// An agent with one security key made of software: it signs as PROTOCOL.u2f says a token does, which sshd
/// itself then judges.
class SoftToken {
public:
    explicit SoftToken(std::string const& seedFile) : m_signer(KeyFile::read(seedFile)->open(nullptr).value())
    {
        WireReader in(m_signer->publicKey());
        in.string();
        m_blob = WireWriter().string(kType).string(*in.string()).string("ssh:").bytes();
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        socket().copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
        m_listener = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::bind(m_listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
            ::listen(m_listener.get(), 1) != 0)
            throw std::runtime_error("no socket for an agent");
        m_thread = std::jthread([this] { serve(); });
    }
    [[nodiscard]] std::string socket() const { return (m_dir / "s").string(); }
    [[nodiscard]] std::string authorizedKey() const
    {
        return std::string(kType) + " " + base64(m_blob) + "\n";
    }

private:
    static constexpr std::string_view kType = "sk-ssh-ed25519@openssh.com";

    void serve()
    {
        UniqueFd const caller(::accept(m_listener.get(), nullptr, nullptr));
        std::string head(4, '\0');
        while (::recv(caller.get(), head.data(), 4, MSG_WAITALL) == 4) {
            std::string body(*WireReader(head).u32(), '\0');
            ::recv(caller.get(), body.data(), body.size(), MSG_WAITALL);
            auto const answer = WireWriter().string(answerTo(body)).bytes();
            ::send(caller.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
        }
    }
    [[nodiscard]] std::string answerTo(std::string const& request) const
    {
        WireReader in(request);
        if (in.byte() == 11) // list
            return WireWriter().byte(12).u32(1).string(m_blob).string("token").bytes();
        in.string();
        auto const data = *in.string();
        auto const tail = WireWriter().byte(1).u32(7).bytes(); // touched; the seventh time
        auto const plain =
            m_signer->sign(sha256(std::string("ssh:")) + tail + sha256(data), "ssh-ed25519").value();
        WireReader made(plain);
        made.string();
        return WireWriter()
            .byte(14)
            .string(WireWriter().string(kType).string(*made.string()).raw(tail).bytes())
            .bytes();
    }

    TempDir m_dir;
    std::shared_ptr<Signer> m_signer;
    std::string m_blob;
    UniqueFd m_listener;
    std::jthread m_thread;
};

TEST(Login, ByASecurityKeyInAnAgentWhichNeedsAPerson)
{
    Sshd const server;
    TempDir const dir;
    SoftToken const token(makeKey(dir / "seed", {"-t", "ed25519"}));
    test::writeFile(server.authorizedKeys(), token.authorizedKey());
    auto target = server.target();
    target.keyFiles.clear();
    target.agentSocket = token.socket();
    auto const tried = attempt(server, target);
    ASSERT_EQ(tried.type(), AuthType::Agent) << tried.message() << server.log();
    EXPECT_TRUE((*tried.connection)->neededPerson());
}

class LoginOfAnotherAccount : public testing::Test {
protected:
    void SetUp() override
    {
        if (!Sshd::canBeOthers())
            GTEST_SKIP() << "sshd checks the passwords of other accounts only as root";
    }
    static std::shared_ptr<Saved> withPassword(std::string const& text)
    {
        auto saved = std::make_shared<Saved>();
        saved->passwordText = text;
        return saved;
    }
};

TEST_F(LoginOfAnotherAccount, ByPassword)
{
    Sshd const server(
        {.config = {"PasswordAuthentication yes"}, .ordinaryUser = true, .password = "pass word"});
    auto target = server.target();
    target.keyFiles.clear();
    auto const tried = attempt(server, target, withPassword("pass word"));
    EXPECT_EQ(tried.type(), AuthType::Password) << tried.message();
    EXPECT_EQ(tried.what, "password");
    auto const wrong = attempt(server, target, withPassword("wrong one"));
    EXPECT_EQ(wrong.code(), Errc::AuthFailed);
    EXPECT_TRUE(wrong.message().contains("password (refused)")) << wrong.message();
    EXPECT_FALSE(wrong.message().contains("wrong one"));
    auto const none = attempt(server, target);
    EXPECT_TRUE(none.message().contains("--ask-password")) << none.message();
}

TEST_F(LoginOfAnotherAccount, ByThePasswordThoughTheServerHangsUpOverTheLastOfTheAgentsKeys)
{
    EightKeys const keys;
    Sshd const server({.config = {"PasswordAuthentication yes", "MaxAuthTries 8"},
                       .ordinaryUser = true,
                       .password = "pass word"});
    auto const tried = attempt(server, keys.target(server), withPassword("pass word"));
    EXPECT_EQ(tried.type(), AuthType::Password) << tried.message();
    EXPECT_EQ(server.accepted(), 2U);
}

TEST_F(LoginOfAnotherAccount, ByAKeyAndThenAPasswordWhereTheServerWantsBoth)
{
    Sshd const server({.config = {"PasswordAuthentication yes", "AuthenticationMethods publickey,password"},
                       .ordinaryUser = true,
                       .password = "pass word"});
    auto const tried = attempt(server, server.target(), withPassword("pass word"));
    EXPECT_EQ(tried.type(), AuthType::Password) << tried.message();
    EXPECT_TRUE(tried.what.contains("key SHA256:") && tried.what.contains("password")) << tried.what;
    auto const half = attempt(server, server.target());
    EXPECT_EQ(half.code(), Errc::AuthFailed);
    EXPECT_TRUE(half.message().contains("had accepted key SHA256:")) << half.message();
}

/// Whose command line or environment holds one of these, among ourselves and all that we started.
std::vector<std::string> processesThatShow(std::vector<std::string> const& secrets)
{
    std::vector<std::string> found;
    for (auto const& entry : std::filesystem::directory_iterator("/proc")) {
        auto const name = entry.path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos)
            continue;
        for (auto const* const file : {"cmdline", "environ"}) {
            auto const text = test::readFile(entry.path() / file);
            for (auto const& secret : secrets)
                if (text.contains(secret))
                    found.push_back(entry.path() / file);
        }
    }
    return found;
}

/// Looks at the processes whenever a secret has been asked for.
class Watched final : public Saved {
public:
    std::vector<std::string> shown;

    Result<std::optional<Secret>> password(Target const& target) override
    {
        look();
        return Saved::password(target);
    }
    Result<std::optional<Secret>> passphrase(Target const& target, std::string const& file) override
    {
        look();
        return Saved::passphrase(target, file);
    }
    void look()
    {
        for (auto& each : processesThatShow({passwordText, passphraseText}))
            shown.push_back(std::move(each));
    }
};

TEST_F(LoginOfAnotherAccount, ShowsNoSecretInAnyCommandLineOrEnvironment)
{
    Sshd const server({.config = {"PasswordAuthentication yes", "AuthenticationMethods publickey,password"},
                       .ordinaryUser = true,
                       .password = "a pass word 7f31"});
    TempDir const dir;
    Agent const agent;
    auto target = server.target();
    target.keyFiles = {makeKey(dir / "sealed", {"-t", "ed25519"}, "a pass phrase 9c52")};
    admit(server, target.keyFiles[0]);
    target.agentSocket = agent.socket();
    target.proxyCommand =
        "bash -c 'exec 9<>/dev/tcp/127.0.0.1/" + std::to_string(server.port()) + "; cat <&9 & cat >&9'";
    auto const saved = std::make_shared<Watched>();
    saved->passwordText = "a pass word 7f31";
    saved->passphraseText = "a pass phrase 9c52";
    EXPECT_FALSE(processesThatShow({"/dev/null", "PATH="}).empty()) << "it looks at nothing";
    auto const tried = attempt(server, target, saved);
    ASSERT_EQ(tried.type(), AuthType::Password) << tried.message();
    EXPECT_GE(saved->passphrasesAsked, 1);
    EXPECT_EQ(saved->passwordsGiven, 1);
    saved->look(); // the ProxyCommand lives on, and so does all that the login started
    EXPECT_TRUE(saved->shown.empty()) << saved->shown.front();
}

TEST_F(LoginOfAnotherAccount, ByTwoDifferentKeysWhereTheServerWantsBoth)
{
    Sshd const server({.config = {"AuthenticationMethods publickey,publickey"}, .ordinaryUser = true});
    TempDir const dir;
    auto target = server.target();
    target.keyFiles.push_back(makeKey(dir / "second", {"-t", "ecdsa"}));
    admit(server, target.keyFiles.back());
    auto const tried = attempt(server, target);
    EXPECT_EQ(tried.type(), AuthType::Key) << tried.message();
}

TEST_F(LoginOfAnotherAccount, ByTwoRoundsOfQuestions)
{
    TempDir const dir;
    std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
    test::writeFile(dir / "first", "tester:one:sshd\n");
    test::writeFile(dir / "second", "tester:two:sshd\n");
    std::string module;
    for (auto const& entry : std::filesystem::recursive_directory_iterator("/usr/lib"))
        if (entry.path().filename() == "pam_matrix.so")
            module = entry.path().string();
    ASSERT_FALSE(module.empty()) << "pam_matrix.so of pam_wrapper is missing";
    std::filesystem::create_directory(dir / "pam");
    test::writeFile(dir / "pam/sshd",
                    "auth required " + module + " passdb=" + (dir / "first").string() + "\nauth required " +
                        module + " passdb=" + (dir / "second").string() + "\naccount required " + module +
                        " passdb=" + (dir / "first").string() + "\nsession required " + module +
                        " passdb=" + (dir / "first").string() + "\n");
    Sshd const server(
        {.config = {"UsePAM yes", "KbdInteractiveAuthentication yes", "PasswordAuthentication yes"},
         .ordinaryUser = true,
         .environment = {"LD_PRELOAD=libnss_wrapper.so:libpam_wrapper.so", "PAM_WRAPPER=1",
                         "PAM_WRAPPER_SERVICE_DIR=" + (dir / "pam").string()}});
    auto target = server.target();
    target.keyFiles.clear();
    auto saved = std::make_shared<Saved>();
    saved->rounds = {{"one"}, {"two"}};
    auto const tried = attempt(server, target, saved);
    EXPECT_EQ(tried.type(), AuthType::Interactive) << tried.message() << server.log();
    EXPECT_EQ(saved->asked.size(), 2U);
    EXPECT_TRUE(tried.connection && (*tried.connection)->neededPerson());

    auto wrong = std::make_shared<Saved>();
    wrong->rounds = {{"one"}, {"wrong"}};
    auto const refused = attempt(server, target, wrong);
    EXPECT_EQ(refused.code(), Errc::AuthFailed);
    EXPECT_TRUE(refused.message().contains("answers were refused")) << refused.message();

    auto const nobody = attempt(server, target);
    EXPECT_TRUE(nobody.message().contains("the server asks")) << nobody.message();
}

TEST(HostKeys, ServersWithOneTypeOfKeyAlone)
{
    for (std::string const type : {"rsa", "ecdsa", "ed25519"}) {
        Sshd const server({.hostKeyTypes = {type}});
        auto const tried = attempt(server, server.target());
        EXPECT_EQ(tried.type(), AuthType::Key) << type << ": " << tried.message();
    }
}

TEST(HostKeys, TheKnownOneOfTwoIsAskedFor)
{
    for (std::string const known : {"ed25519", "ecdsa", "rsa"}) {
        Sshd const server({.hostKeyTypes = {"ed25519", "ecdsa", "rsa"}});
        std::string kept;
        for (auto const& line : {test::readFile(server.folder() / ("host_" + known + ".pub"))})
            kept += "[127.0.0.1]:" + std::to_string(server.port()) + " " + line;
        test::writeFile(server.knownHosts(), kept);
        auto const tried = attempt(server, server.target());
        ASSERT_TRUE(tried.connection) << known << ": " << tried.message();
        EXPECT_TRUE((*tried.connection)->serverKey().type.contains(known)) << known;
    }
}

TEST(HostKeys, UnknownChangedAndRevokedAreToldApartBeforeAnythingIsSent)
{
    Sshd const server;
    TempDir const dir;
    auto const name = "[127.0.0.1]:" + std::to_string(server.port()) + " ";
    auto const right = test::readFile(server.folder() / "host_ed25519.pub");
    auto const shown = mustRun({"ssh-keygen", "-l", "-f", (server.folder() / "host_ed25519.pub").string()});
    auto const print = shown.substr(shown.find("SHA256:"), 50);
    auto const other = makeKey(dir / "other", {"-t", "ed25519"});
    auto saved = std::make_shared<Saved>();
    saved->passwordText = "pass word";

    test::writeFile(server.knownHosts(), "");
    auto const unknown = attempt(server, server.target(), saved);
    EXPECT_EQ(unknown.code(), Errc::HostKeyUnknown);
    EXPECT_TRUE(unknown.message().contains(print)) << unknown.message();
    EXPECT_TRUE(unknown.message().contains("termalin-mcp host trust 'test server'")) << unknown.message();

    test::writeFile(server.knownHosts(), "# x\n" + name + test::readFile(other + ".pub"));
    auto const changed = attempt(server, server.target(), saved);
    EXPECT_EQ(changed.code(), Errc::HostKeyChanged);
    auto const otherShown = mustRun({"ssh-keygen", "-l", "-f", other + ".pub"});
    EXPECT_TRUE(changed.message().contains(print)) << changed.message();
    EXPECT_TRUE(changed.message().contains(otherShown.substr(otherShown.find("SHA256:"), 50)))
        << changed.message();
    EXPECT_TRUE(changed.message().contains(server.knownHosts().string() + ":2")) << changed.message();

    test::writeFile(server.knownHosts(), name + right + "@revoked * " + right);
    auto const revoked = attempt(server, server.target(), saved);
    EXPECT_EQ(revoked.code(), Errc::HostKeyRevoked);
    EXPECT_TRUE(revoked.message().contains(":2")) << revoked.message();
    EXPECT_EQ(saved->passwordsGiven, 0);
    EXPECT_FALSE(server.log().contains("Failed") || server.log().contains("Invalid user")) << server.log();
}

TEST(HostKeys, HostCertificatesOfEveryTypeHoldWhereTheirAuthorityIsTrusted)
{
    TempDir const dir;
    auto const authority = makeKey(dir / "ca", {"-t", "ed25519"});
    for (std::string const type : {"ed25519", "ecdsa", "rsa"}) {
        auto const hostKey = makeKey(dir / type, {"-t", type});
        mustRun({"ssh-keygen", "-q", "-s", authority, "-I", "id", "-h", "-n", "127.0.0.1", hostKey + ".pub"});
        Sshd const server({.hostKeyTypes = {},
                           .config = {"HostKey " + hostKey, "HostCertificate " + hostKey + "-cert.pub"}});
        test::writeFile(server.knownHosts(), "@cert-authority * " + test::readFile(authority + ".pub"));
        auto const tried = attempt(server, server.target());
        ASSERT_TRUE(tried.connection) << type << ": " << tried.message();
        EXPECT_TRUE((*tried.connection)->serverKey().type.ends_with("-cert-v01@openssh.com"));

        // The same for a name that it is not for.
        auto aliased = server.target();
        aliased.hostKeyAlias = "elsewhere";
        auto const bad = attempt(server, aliased);
        EXPECT_EQ(bad.code(), Errc::HostKeyUnknown);
        EXPECT_TRUE(bad.message().contains("certificate") && bad.message().contains("elsewhere"))
            << bad.message();
    }
}

} // namespace
} // namespace termalin::ssh
