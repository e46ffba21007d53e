// Logins that a server of our own plays, byte by byte as the RFCs have them, where sshd offers no way to
// them.

#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>

#include "ssh/wire.h"
#include "tests/support/peer.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using test::HostileServer;
using test::Peer;
using test::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// SSH_MSG_USERAUTH_FAILURE, RFC 4252 5.1
std::string failure(std::string_view goOn, std::uint8_t partial)
{
    return WireWriter().byte(51).string(goOn).byte(partial).bytes();
}

/// The method that a SSH_MSG_USERAUTH_REQUEST names, and what follows it.
std::pair<std::string, std::string> requested(std::string const& packet)
{
    WireReader in(packet);
    in.byte();
    in.string();
    in.string();
    auto const method = in.string().value_or("");
    return {std::string(method), std::string(in.rest())};
}

class Answering final : public NoCredentials {
public:
    std::vector<std::string> prompts;
    std::string instruction;

    Result<std::optional<std::vector<Secret>>> answers(Target const&, std::string const& instructions,
                                                       std::vector<Prompt> const& asked) override
    {
        instruction = instructions;
        std::vector<Secret> given;
        for (auto const& prompt : asked) {
            prompts.push_back(prompt.text + (prompt.echo ? "+" : "-"));
            given.emplace_back(std::string_view(prompt.echo ? "ann" : "314159"));
        }
        return given;
    }
    Result<std::optional<Secret>> password(Target const&) override
    {
        return Secret(std::string_view("at last"));
    }
};

TEST(PlayedLogin, SeveralPromptsInOneRoundAndThenThePasswordAfterPartialSuccess)
{
    std::vector<std::string> methods;
    std::string response;
    std::string last;
    HostileServer const server(
        [&](Peer& peer) {
            peer.send(failure("keyboard-interactive", 0));
            methods.push_back(requested(peer.receive()).first);
            // SSH_MSG_USERAUTH_INFO_REQUEST, RFC 4256 3.2: two prompts, the first with echo
            peer.send(WireWriter()
                          .byte(60)
                          .string("Two factors")
                          .string("Both are needed.")
                          .string("")
                          .u32(2)
                          .string("Login name: ")
                          .byte(1)
                          .string("Code: ")
                          .byte(0)
                          .bytes());
            response = peer.receive();
            peer.send(failure("password", 1));
            auto const [method, rest] = requested(peer.receive());
            methods.push_back(method);
            last = rest;
            peer.send(WireWriter().byte(52).bytes());
            static_cast<void>(peer.receive());
        },
        HostileServer::Begins::WithLogin);
    auto const credentials = std::make_shared<Answering>();
    auto context = server.context();
    context.credentials = credentials;
    auto const connection = Connection::open(server.route(), context, Deadline::in(60s), {});
    ASSERT_TRUE(connection) << connection.error().message;
    EXPECT_EQ((*connection)->authType(), AuthType::Password);
    EXPECT_TRUE((*connection)->neededPerson());
    EXPECT_THAT(methods, ElementsAre("keyboard-interactive", "password"));
    EXPECT_THAT(credentials->prompts, ElementsAre("Login name: +", "Code: -"));
    EXPECT_EQ(credentials->instruction, "Both are needed.");
    // SSH_MSG_USERAUTH_INFO_RESPONSE, RFC 4256 3.4
    EXPECT_EQ(response, WireWriter().byte(61).u32(2).string("ann").string("314159").bytes());
    EXPECT_EQ(last, WireWriter().byte(0).string("at last").bytes()); // RFC 4252 8
}

TEST(PlayedLogin, ARoundOfTooManyPromptsIsNotAnswered)
{
    HostileServer const server(
        [&](Peer& peer) {
            peer.send(failure("keyboard-interactive", 0));
            static_cast<void>(peer.receive());
            peer.send(WireWriter().byte(60).string("").string("").string("").u32(0xffffffff).bytes());
            static_cast<void>(peer.receive());
        },
        HostileServer::Begins::WithLogin);
    auto context = server.context();
    auto const credentials = std::make_shared<Answering>();
    context.credentials = credentials;
    auto const refused = Connection::open(server.route(), context, Deadline::in(60s), {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::AuthFailed) << refused.error().message;
    EXPECT_THAT(refused.error().message, HasSubstr("damaged"));
    EXPECT_TRUE(credentials->prompts.empty());
}

/// What a login by one key file asks a server for first ("+signature": and signed it), and how it ends.
struct ByKeyFile {
    std::string first;
    std::string algorithm; ///< of that signature
    std::optional<AuthType> type;
    Error error;
};

struct KeyLogin {
    std::vector<std::string> answers; ///< what the server says to the requests in turn, before it hangs up
    std::string passphrase = {};
    std::string keyType = "ed25519";
    HostileServer::Begins begins = HostileServer::Begins::WithLogin;
    std::string signatures = {}; ///< that the server takes
};

ByKeyFile logInByKeyFile(KeyLogin const& login)
{
    TempDir const dir;
    auto const key = (dir / "key").string();
    test::mustRun({"ssh-keygen", "-q", "-t", login.keyType, "-N", login.passphrase, "-f", key});
    std::atomic<bool> over = false;
    ByKeyFile seen;
    HostileServer const server(
        [&](Peer& peer) {
            auto const [method, rest] = requested(peer.request());
            seen.first = method + (method == "publickey" && rest.at(0) != 0 ? "+signature" : "");
            WireReader in(rest);
            in.byte();
            if (method == "publickey")
                seen.algorithm = in.string().value_or("");
            over = true;
            over.notify_all();
            for (auto const& answer : login.answers) {
                peer.send(answer);
                static_cast<void>(peer.receive());
            }
            peer.hangUp();
        },
        login.begins, login.signatures);
    auto route = server.route();
    route.hops.back().keyFiles = {key};
    auto const opened = Connection::open(route, server.context(), Deadline::in(60s), {});
    over.wait(false);
    if (opened)
        seen.type = (*opened)->authType();
    else
        seen.error = opened.error();
    return seen;
}

TEST(PlayedLogin, AKeyThatSignsByItselfIsSignedWithAtOnce)
{
    auto const seen = logInByKeyFile({.answers = {WireWriter().byte(52).bytes()}});
    EXPECT_EQ(seen.first, "publickey+signature");
    EXPECT_EQ(seen.type, AuthType::Key) << seen.error.message;
}

TEST(PlayedLogin, TheFirstRequestDoesNotWaitForTheServiceToBeAccepted)
{
    for (auto const* const passphrase : {"", "secret"}) { // which is asked for only after "none"
        auto const seen = logInByKeyFile({.answers = {WireWriter().byte(52).bytes()},
                                          .passphrase = passphrase,
                                          .begins = HostileServer::Begins::WithLoginAhead});
        EXPECT_EQ(seen.first, *passphrase == '\0' ? "publickey+signature" : "none");
        EXPECT_TRUE(seen.type) << seen.error.message;
    }
}

TEST(PlayedLogin, AnRsaKeyWaitsForWhatTheServerSaysOfItsSignatures)
{
    for (std::string const only : {"rsa-sha2-256", "rsa-sha2-512"}) {
        auto const seen = logInByKeyFile({.answers = {WireWriter().byte(52).bytes()},
                                          .keyType = "rsa",
                                          .signatures = "ssh-ed25519," + only});
        EXPECT_EQ(seen.first, "publickey+signature");
        EXPECT_EQ(seen.algorithm, only);
        EXPECT_TRUE(seen.type) << seen.error.message;
    }
}

TEST(PlayedLogin, AKeyThatNeedsAPassphraseIsNotOfferedBeforeTheServerSaysThatItTakesKeys)
{
    auto const seen = logInByKeyFile({.answers = {failure("password", 0)}, .passphrase = "secret"});
    EXPECT_EQ(seen.first, "none");
    EXPECT_EQ(seen.error.code, Errc::AuthFailed) << seen.error.message;
}

TEST(PlayedLogin, ARefusedSignatureTellsWhatTheServerTakes)
{
    auto const seen = logInByKeyFile({.answers = {failure("password", 0)}});
    EXPECT_EQ(seen.error.code, Errc::AuthFailed);
    EXPECT_THAT(seen.error.message, HasSubstr("refused"));
    EXPECT_THAT(seen.error.message, HasSubstr("password"));
}

TEST(PlayedLogin, ALineThatIsCutBeforeTheFirstAnswerIsNoRefusal)
{
    auto const seen = logInByKeyFile({.answers = {}});
    EXPECT_EQ(seen.error.code, Errc::Unreachable) << seen.error.message;
    EXPECT_THAT(seen.error.message, ::testing::Not(HasSubstr("refused")));
}

} // namespace
} // namespace termalin::ssh
