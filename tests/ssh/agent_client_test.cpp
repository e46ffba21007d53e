#include <csignal>
#include <functional>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

#include "ssh/agent_client.h"
#include "ssh/key_file.h"
#include "ssh/public_key.h"
#include "ssh/wire.h"
#include "tests/support/agent.h"
#include "tests/support/program.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using test::Agent;
using test::mustRun;
using test::TempDir;

Deadline soon()
{
    return Deadline::in(30s);
}

std::string makeKey(TempDir const& dir, std::string const& name, std::string const& type)
{
    auto const file = (dir / name).string();
    mustRun({"ssh-keygen", "-q", "-t", type, "-N", "", "-C", name, "-f", file});
    return file;
}

/// Something that listens where an agent would, and gives one caller these bytes.
class FalseAgent {
public:
    explicit FalseAgent(std::string answer) : m_answer(std::move(answer))
    {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        socket().copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
        m_listener = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ::bind(m_listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
        ::listen(m_listener.get(), 1);
        m_thread = std::jthread([this] {
            UniqueFd const caller(::accept(m_listener.get(), nullptr, nullptr));
            char request[4096];
            ::recv(caller.get(), request, sizeof request, 0);
            ::send(caller.get(), m_answer.data(), m_answer.size(), MSG_NOSIGNAL);
            if (m_answer.empty())
                while (::recv(caller.get(), request, sizeof request, 0) >
                       0) { // silent until the caller leaves
                }
        });
    }
    [[nodiscard]] std::string socket() const { return (m_dir / "s").string(); }

private:
    TempDir m_dir;
    std::string m_answer;
    UniqueFd m_listener;
    std::jthread m_thread;
};

TEST(AgentClient, ListsAndSignsWithEveryKindOfKeyAndCertificate)
{
    TempDir const dir;
    Agent const agent;
    auto const authority = makeKey(dir, "ca", "ed25519");
    for (std::string const type : {"ed25519", "ecdsa", "rsa"}) {
        auto const file = makeKey(dir, type, type);
        mustRun({"ssh-keygen", "-q", "-s", authority, "-I", "id", "-n", "someone", file + ".pub"});
        agent.add({file}); // takes the certificate beside it as well
    }
    auto client = AgentClient::connect(agent.socket(), soon(), {});
    ASSERT_TRUE(client) << client.error().message;
    auto const keys = (*client)->identities(soon(), {});
    ASSERT_TRUE(keys) << keys.error().message;
    ASSERT_EQ(keys->size(), 6U);
    EXPECT_EQ(keys->front().comment, "ed25519");
    for (auto const& key : *keys) {
        auto const type = std::string(plainType(blobType(key.blob)));
        std::vector<std::string> algorithms{type};
        if (type == "ssh-rsa")
            algorithms = {"rsa-sha2-256", "rsa-sha2-512"};
        for (auto const& algorithm : algorithms) {
            auto const signature = (*client)->sign(key.blob, "some bytes", algorithm, soon(), {});
            ASSERT_TRUE(signature) << blobType(key.blob) << ": " << signature.error().message;
            EXPECT_TRUE(verifySignature(plainKey(key.blob).value(), *signature, "some bytes"));
        }
    }
}

TEST(AgentClient, SaysThatTheAgentIsDead)
{
    Agent agent;
    agent.kill();
    auto const dead = AgentClient::connect(agent.socket(), soon(), {});
    ASSERT_FALSE(dead);
    EXPECT_EQ(dead.error().code, Errc::NotConnected);
    EXPECT_TRUE(dead.error().message.contains(agent.socket())) << dead.error().message;
    TempDir const dir;
    auto const none = AgentClient::connect((dir / "none").string(), soon(), {});
    ASSERT_FALSE(none);
    EXPECT_TRUE(none.error().message.contains("no such socket")) << none.error().message;
    auto const tooLong = AgentClient::connect("/" + std::string(200, 'x'), soon(), {});
    ASSERT_FALSE(tooLong);
    EXPECT_EQ(tooLong.error().code, Errc::InvalidArgument);
}

TEST(AgentClient, SaysThatTheAgentRefused)
{
    TempDir const dir;
    Agent const agent;
    auto const file = makeKey(dir, "k", "ed25519");
    auto const blob = readPublicKeyFile(file + ".pub").value();
    auto client = AgentClient::connect(agent.socket(), soon(), {}).value();
    auto const unknown = client->sign(blob, "x", "ssh-ed25519", soon(), {});
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, Errc::PermissionDenied);
    EXPECT_TRUE(unknown.error().message.contains("refused")) << unknown.error().message;
    agent.add({"-c", file}); // and there is nobody to confirm
    EXPECT_FALSE(client->sign(blob, "x", "ssh-ed25519", soon(), {}));
    EXPECT_TRUE(client->identities(soon(), {})); // a refusal does not end the conversation
}

TEST(AgentClient, ASilentAgentEndsWithTheDeadlineAndTheStop)
{
    FalseAgent const silent("");
    auto client = AgentClient::connect(silent.socket(), soon(), {}).value();
    auto const late = client->identities(Deadline::in(100ms), {});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Errc::Timeout);
    EXPECT_EQ(client->identities(soon(), {}).error().code, Errc::NotConnected);

    FalseAgent const another("");
    auto second = AgentClient::connect(another.socket(), soon(), {}).value();
    std::stop_source stop;
    stop.request_stop();
    EXPECT_EQ(second->identities(Deadline::never(), stop.get_token()).error().code, Errc::Cancelled);
}

TEST(AgentClient, SeesThroughAnswersThatAreNone)
{
    auto const identities = [](std::string const& body) { return WireWriter().string(body).bytes(); };
    std::vector<std::pair<std::string, Errc>> const cases{
        {std::string("\0\0\0\0", 4), Errc::Unsupported},
        {std::string("\xff\xff\xff\xff", 4), Errc::Unsupported},
        {std::string("\0\0\0\x02\x0c", 5), Errc::NotConnected}, // cut short
        {identities(std::string("\x0c")), Errc::Unsupported},
        {identities(std::string("\x0c\xff\xff\xff\xff", 5)), Errc::Unsupported},
        {identities(std::string("\x0c\0\0\0\x01\0\0\0\xff", 9)), Errc::Unsupported},
        {identities("\x0e"
                    "xxxx"),
         Errc::Unsupported},
        {"HTTP/1.1 400 Bad Request\r\n\r\n", Errc::Unsupported},
    };
    for (auto const& [answer, code] : cases) {
        FalseAgent const liar(answer);
        auto client = AgentClient::connect(liar.socket(), soon(), {}).value();
        auto const list = client->identities(soon(), {});
        ASSERT_FALSE(list) << testing::PrintToString(answer);
        EXPECT_EQ(list.error().code, code) << testing::PrintToString(answer) << list.error().message;
    }
}

TEST(AgentClient, DoesNotPassOnASignatureThatIsNotTheKeys)
{
    TempDir const dir;
    auto const mine = readPublicKeyFile(makeKey(dir, "mine", "ed25519") + ".pub").value();
    auto const other = KeyFile::read(makeKey(dir, "other", "ed25519"))->open(nullptr).value();
    auto const wrong = other->sign("some bytes", "ssh-ed25519").value();
    FalseAgent const liar(WireWriter().string(WireWriter().byte(14).string(wrong).bytes()).bytes());
    auto client = AgentClient::connect(liar.socket(), soon(), {}).value();
    auto const signature = client->sign(mine, "some bytes", "ssh-ed25519", soon(), {});
    ASSERT_FALSE(signature);
    EXPECT_TRUE(signature.error().message.contains("wrong")) << signature.error().message;

    auto const rsaFile = makeKey(dir, "rsa", "rsa");
    auto const rsa = KeyFile::read(rsaFile)->open(nullptr).value();
    auto const oldKind = rsa->sign("some bytes", "ssh-rsa").value();
    FalseAgent const old(WireWriter().string(WireWriter().byte(14).string(oldKind).bytes()).bytes());
    auto second = AgentClient::connect(old.socket(), soon(), {}).value();
    EXPECT_FALSE(second->sign(rsa->publicKey(), "some bytes", "rsa-sha2-512", soon(), {}));
}

} // namespace
} // namespace termalin::ssh
