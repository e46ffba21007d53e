#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/store.h"
#include "core/vault.h"
#include "tests/core/child.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin {
namespace {

using test::Child;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

Secret secretOf(std::string_view text)
{
    return Secret(text);
}

/// Variables that would lead the tests to the person's own desktop session.
void leaveSession()
{
    ::unsetenv("DBUS_SESSION_BUS_ADDRESS");
    ::unsetenv("XDG_RUNTIME_DIR");
}

class VaultTest : public ::testing::Test {
protected:
    void SetUp() override
    {
        leaveSession();
        m_paths.vaultSocket = m_dir / "run/vault";
        m_store = Store::open(m_dir / "termalin.db").value();
        Host host;
        host.name = "web";
        host.hostname = "web.example";
        m_host = m_store->addHost(host)->id;
        host.name = "other";
        m_other = m_store->addHost(host)->id;
        m_vault = attach();
    }
    void TearDown() override { static_cast<void>(m_vault->stopHolder()); }

    std::unique_ptr<Vault> attach() const { return Vault::attach(*m_store, m_paths).value(); }
    void create(std::string_view password = "correct horse") const
    {
        auto const created = m_vault->create(secretOf(password));
        ASSERT_TRUE(created) << created.error().message;
    }
    /// A process of its own that opens the vault without a person and reads one secret.
    std::string readElsewhere(std::vector<std::string> const& environment = {}) const
    {
        Child child("/proc/self/exe",
                    {"read-silently", m_dir / "termalin.db", m_paths.vaultSocket, m_host, "password"},
                    environment);
        auto const said = child.line().value_or("nothing");
        child.wait();
        return said;
    }

    test::TempDir m_dir;
    Paths m_paths;
    std::unique_ptr<Store> m_store;
    std::string m_host, m_other;
    std::unique_ptr<Vault> m_vault;
};

TEST_F(VaultTest, GivesASecretBackToWhoeverKnowsTheMasterPassword)
{
    EXPECT_EQ(m_vault->state(), Vault::State::Missing);
    create();
    EXPECT_EQ(m_vault->state(), Vault::State::Open);
    std::string const bytes("p\0ss\xff", 5);
    ASSERT_TRUE(m_vault->setSecret(m_host, "password", secretOf(bytes)));

    auto const again = attach();
    EXPECT_EQ(again->state(), Vault::State::Locked);
    EXPECT_TRUE(again->hasSecret(m_host, "password").value());
    EXPECT_FALSE(again->hasSecret(m_other, "password").value());
    EXPECT_EQ(again->secret(m_host, "password").error().code, Errc::VaultLocked);
    EXPECT_EQ(again->setSecret(m_host, "password", secretOf("x")).error().code, Errc::VaultLocked);
    EXPECT_EQ(again->unlock(secretOf("correct horsf")).error().code, Errc::AuthFailed);
    EXPECT_EQ(again->unlock(Secret()).error().code, Errc::AuthFailed);
    EXPECT_EQ(again->state(), Vault::State::Locked);
    ASSERT_TRUE(again->unlock(secretOf("correct horse")));
    EXPECT_EQ(again->secret(m_host, "password").value()->reveal(), bytes);
    EXPECT_FALSE(again->secret(m_host, "other").value());
    again->lock();
    EXPECT_EQ(again->secret(m_host, "password").error().code, Errc::VaultLocked);
    ASSERT_TRUE(again->removeSecret(m_host, "password"));
    EXPECT_FALSE(again->hasSecret(m_host, "password").value());
}

TEST_F(VaultTest, WithoutAVaultEveryWaySaysHowToMakeOne)
{
    EXPECT_EQ(m_vault->unlock(secretOf("x")).error().code, Errc::NotFound);
    auto const silent = m_vault->unlockSilently();
    EXPECT_EQ(silent.error().code, Errc::VaultLocked);
    EXPECT_THAT(silent.error().message, HasSubstr("vault init"));
    EXPECT_EQ(m_vault->create(Secret()).error().code, Errc::InvalidArgument);
    create();
    EXPECT_EQ(m_vault->create(secretOf("second")).error().code, Errc::InvalidArgument);
}

TEST_F(VaultTest, ACiphertextOpensAtItsOwnPlaceOnly)
{
    create();
    ASSERT_TRUE(m_vault->setSecret(m_host, "password", secretOf("hunter2")));
    auto const sealed = m_store->blob(m_host, "password").value().value();
    EXPECT_THAT(sealed, Not(HasSubstr("hunter2")));
    ASSERT_TRUE(m_store->setBlob(m_other, "password", sealed));
    ASSERT_TRUE(m_store->setBlob(m_host, "passphrase:/key", sealed));
    EXPECT_EQ(m_vault->secret(m_other, "password").error().code, Errc::Internal);
    EXPECT_EQ(m_vault->secret(m_host, "passphrase:/key").error().code, Errc::Internal);
    EXPECT_EQ(m_vault->secret(m_host, "password").value()->reveal(), "hunter2");
}

TEST_F(VaultTest, ATamperedCiphertextNeverOpens)
{
    create();
    ASSERT_TRUE(m_vault->setSecret(m_host, "password", secretOf("hunter2")));
    auto const sealed = m_store->blob(m_host, "password").value().value();
    for (std::size_t at = 0; at < sealed.size(); ++at) {
        auto changed = sealed;
        changed[at] = static_cast<char>(changed[at] ^ 1);
        ASSERT_TRUE(m_store->setBlob(m_host, "password", changed));
        EXPECT_FALSE(m_vault->secret(m_host, "password")) << at;
    }
    for (std::size_t const length : {std::size_t{0}, std::size_t{1}, std::size_t{24}, sealed.size() - 1}) {
        ASSERT_TRUE(m_store->setBlob(m_host, "password", sealed.substr(0, length)));
        EXPECT_FALSE(m_vault->secret(m_host, "password")) << length;
    }
}

TEST_F(VaultTest, ASecretIsXChaCha20Poly1305UnderAKeyThatArgon2idWraps)
{
    create();
    ASSERT_TRUE(m_vault->setSecret(m_host, "password", secretOf("hunter2")));
    // Opened by hand with the library's own functions, from what stands in the store.
    auto const wrapped = m_store->blob("vault", "vault.key.password").value().value();
    EXPECT_THAT(wrapped, AllOf(HasSubstr("\"kdf\":\"argon2id\""), HasSubstr("\"operations\":3"),
                               HasSubstr("\"memoryKiB\":65536")));
    auto const at = wrapped.find("\"salt\":\"") + 8;
    std::array<unsigned char, crypto_pwhash_SALTBYTES> salt{};
    ASSERT_EQ(sodium_hex2bin(salt.data(), salt.size(), wrapped.data() + at, 32, nullptr, nullptr, nullptr),
              0);
    std::array<unsigned char, 32> key{};
    ASSERT_EQ(crypto_pwhash(key.data(), key.size(), "correct horse", 13, salt.data(), 3, 65536UL * 1024UL,
                            crypto_pwhash_ALG_ARGON2ID13),
              0);
    auto const open = [&key](std::string_view sealed, std::string const& place) {
        std::string plain(sealed.size() - 40, '\0');
        auto const* const bytes = reinterpret_cast<unsigned char const*>(sealed.data());
        auto const opened = crypto_aead_xchacha20poly1305_ietf_decrypt(
            reinterpret_cast<unsigned char*>(plain.data()), nullptr, nullptr, bytes + 24, sealed.size() - 24,
            reinterpret_cast<unsigned char const*>(place.data()), place.size(), bytes, key.data());
        return opened == 0 ? plain : "does not open";
    };
    auto const data = open(std::string_view(wrapped).substr(wrapped.find('\n') + 1),
                           "termalin vault 1:5:vault:vault.key.password");
    ASSERT_EQ(data.size(), 32U);
    std::ranges::copy(data, key.begin());
    EXPECT_EQ(open(m_store->blob(m_host, "password").value().value(),
                   "termalin vault 1:25:" + m_host + ":password"),
              "hunter2");
}

TEST_F(VaultTest, ADamagedRecordOfThePasswordIsSaidToBeSo)
{
    create();
    auto const wrapped = m_store->blob("vault", "vault.key.password").value().value();
    auto const body = wrapped.substr(wrapped.find('\n'));
    std::string const tooMuch =
        R"({"kdf":"argon2id","operations":3,"memoryKiB":99999999999,"salt":"00000000000000000000000000000000"})";
    std::string const shortSalt = R"({"kdf":"argon2id","operations":3,"memoryKiB":1024,"salt":"00"})";
    for (std::string const& header :
         {std::string(), std::string("{}"), std::string(R"({"kdf":"argon2id"})"), tooMuch, shortSalt}) {
        ASSERT_TRUE(m_store->setBlob("vault", "vault.key.password", header + body));
        EXPECT_EQ(attach()->unlock(secretOf("correct horse")).error().code, Errc::Internal) << header;
    }
}

TEST_F(VaultTest, AChangedPasswordOpensAndTheOldOneDoesNot)
{
    create("first");
    ASSERT_TRUE(m_vault->setSecret(m_host, "password", secretOf("hunter2")));
    auto const other = attach();
    EXPECT_EQ(other->changePassword(Secret(), secretOf("second")).error().code, Errc::VaultLocked);
    EXPECT_EQ(other->changePassword(secretOf("wrong"), secretOf("second")).error().code, Errc::AuthFailed);
    EXPECT_EQ(other->changePassword(secretOf("first"), Secret()).error().code, Errc::InvalidArgument);
    ASSERT_TRUE(other->changePassword(secretOf("first"), secretOf("second")));
    EXPECT_EQ(attach()->unlock(secretOf("first")).error().code, Errc::AuthFailed);
    ASSERT_TRUE(other->unlock(secretOf("second")));
    EXPECT_EQ(other->secret(m_host, "password").value()->reveal(), "hunter2");
    ASSERT_TRUE(m_vault->changePassword(Secret(), secretOf("third"))) << "the vault is open";
    EXPECT_TRUE(attach()->unlock(secretOf("third")));
}

TEST_F(VaultTest, AKillWhileThePasswordChangesLosesNothing)
{
    create("password 0");
    ASSERT_TRUE(m_vault->setSecret(m_host, "password", secretOf("hunter2")));
    int last = 0;
    for (int round = 0; round < 3; ++round) {
        Child child("/proc/self/exe", {"change-passwords", m_dir / "termalin.db", std::to_string(last)});
        for (int i = 0; i <= round % 2; ++i)
            last = std::stoi(child.line().value());
        child.kill();
        for (auto const& line : child.restOfLines())
            last = std::stoi(line);
        child.wait();
        auto const vault = attach();
        auto const old = vault->unlock(secretOf("password " + std::to_string(last)));
        if (!old) { // the kill came between the change and the word of it
            ++last;
            ASSERT_TRUE(vault->unlock(secretOf("password " + std::to_string(last))));
        }
        EXPECT_EQ(vault->secret(m_host, "password").value()->reveal(), "hunter2");
    }
}

TEST_F(VaultTest, TheHolderOpensItForOtherProcessesUntilItIsLocked)
{
    create();
    ASSERT_TRUE(m_vault->setSecret(m_host, "password", secretOf("hunter2")));
    EXPECT_THAT(readElsewhere(), StartsWith("error vault_locked"));
    auto const started = m_vault->startHolder();
    ASSERT_TRUE(started) << started.error().message;
    struct stat info{};
    ASSERT_EQ(::stat(m_paths.vaultSocket.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777U, 0600U);
    m_vault->lock(); // forgets in this process alone
    EXPECT_EQ(readElsewhere(), "secret hunter2");
    ASSERT_TRUE(m_vault->stopHolder());
    EXPECT_FALSE(std::filesystem::exists(m_paths.vaultSocket));
    EXPECT_THAT(readElsewhere(), StartsWith("error vault_locked"));
    EXPECT_TRUE(m_vault->stopHolder()) << "nothing to do is no error";
    EXPECT_EQ(m_vault->startHolder().error().code, Errc::VaultLocked);
}

TEST_F(VaultTest, ANewHolderTakesThePlaceOfAnOlderOneAndOfADeadSocket)
{
    create();
    ASSERT_TRUE(m_vault->setSecret(m_host, "password", secretOf("hunter2")));
    std::filesystem::create_directory(m_dir / "run");
    ::chmod((m_dir / "run").c_str(), 0700);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    m_paths.vaultSocket.native().copy(address.sun_path, sizeof address.sun_path - 1);
    auto const dead = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::bind(dead, reinterpret_cast<sockaddr const*>(&address), sizeof address), 0);
    ::close(dead);
    EXPECT_THAT(readElsewhere(), StartsWith("error vault_locked"));
    ASSERT_TRUE(m_vault->startHolder());
    EXPECT_EQ(readElsewhere(), "secret hunter2");
    ASSERT_TRUE(m_vault->startHolder());
    EXPECT_EQ(readElsewhere(), "secret hunter2");
}

TEST_F(VaultTest, AHolderWhoseTimeIsUpOrWhoseSocketIsGoneForgets)
{
    create();
    ASSERT_TRUE(m_vault->startHolder(0s));
    auto const until = std::chrono::steady_clock::now() + 60s;
    while (std::filesystem::exists(m_paths.vaultSocket) && std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
    EXPECT_FALSE(std::filesystem::exists(m_paths.vaultSocket));
    EXPECT_THAT(readElsewhere(), StartsWith("error vault_locked"));
}

TEST_F(VaultTest, AProgramThatGoesOnHasTheHoldersKeyForOneLookOnly)
{
    create();
    ASSERT_TRUE(m_vault->setSecret(m_host, "password", secretOf("hunter2")));
    auto const server = attach();
    EXPECT_EQ(server->secretSilently(m_host, "password").error().code, Errc::VaultLocked);
    ASSERT_TRUE(m_vault->startHolder());
    for (int i = 0; i < 2; ++i) {
        auto const found = server->secretSilently(m_host, "password");
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_EQ((*found)->reveal(), "hunter2");
        EXPECT_EQ(server->state(), Vault::State::Locked);
    }
    EXPECT_FALSE(server->secretSilently(m_host, "none").value());
    ASSERT_TRUE(m_vault->stopHolder());
    EXPECT_EQ(server->secretSilently(m_host, "password").error().code, Errc::VaultLocked);
}

TEST_F(VaultTest, TheKeyOfAnotherVaultIsNotTakenFromAHolder)
{
    create();
    ASSERT_TRUE(m_vault->startHolder());
    for (auto const* const name : {"vault.id", "vault.check", "vault.key.password"})
        ASSERT_TRUE(m_store->removeBlob("vault", name));
    auto const second = attach();
    ASSERT_TRUE(second->create(secretOf("new")));
    ASSERT_TRUE(second->setSecret(m_host, "password", secretOf("hunter2")));
    EXPECT_THAT(readElsewhere(), StartsWith("error vault_locked"));
}

TEST_F(VaultTest, AnotherUserGetsNothingFromTheHolder)
{
    if (::geteuid() != 0) {
        // Without root there is no other user to try as; that the socket is closed to others has a test
        // above.
        create();
        ASSERT_TRUE(m_vault->startHolder());
        EXPECT_EQ(std::filesystem::status(m_paths.vaultSocket).permissions(),
                  std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
        return;
    }
    create();
    ASSERT_TRUE(m_vault->startHolder());
    auto const id = m_store->blob("vault", "vault.id").value().value();
    // Even with every door opened by mistake.
    for (auto const& path : {m_dir.path(), m_dir / "run", m_paths.vaultSocket})
        ::chmod(path.c_str(), 0777);
    std::string const program = "get " + id + "\n";
    auto const* const script = "import os,socket,sys\n"
                               "os.setgid(65534)\n"
                               "os.setuid(int(sys.argv[1]))\n"
                               "s=socket.socket(socket.AF_UNIX)\n"
                               "d=b''\n"
                               "try:\n"
                               " s.connect(sys.argv[2])\n"
                               " s.sendall(sys.argv[3].encode())\n"
                               " while c:=s.recv(99): d+=c\n"
                               "except ConnectionError: pass\n"
                               "print(len(d))";
    EXPECT_EQ(test::mustRun({"python3", "-c", script, "65534", m_paths.vaultSocket, program}), "0\n");
    EXPECT_EQ(test::mustRun({"python3", "-c", script, "0", m_paths.vaultSocket, program}), "32\n");
    EXPECT_EQ(test::mustRun({"python3", "-c", script, "65534", m_paths.vaultSocket, "lock\n"}), "0\n");
    EXPECT_EQ(test::mustRun({"python3", "-c", script, "0", m_paths.vaultSocket, program}), "32\n");
    for (auto const& path : {m_dir.path(), m_dir / "run"})
        ::chmod(path.c_str(), 0700);
}

/// A D-Bus of its own with gnome-keyring on it, unlocked or not, in a home of its own.
class KeyringTest : public VaultTest {
protected:
    void SetUp() override
    {
        VaultTest::SetUp();
        test::writeFile(
            m_dir / "bus.conf",
            "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" "
            "\"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\"><busconfig>"
            "<type>session</type><listen>unix:path=" +
                (m_dir / "bus").string() +
                "</listen><auth>EXTERNAL</auth><policy context=\"default\"><allow send_destination=\"*\" "
                "eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>");
        m_bus = std::make_unique<Child>(
            "/usr/bin/dbus-daemon",
            std::vector<std::string>{"--nofork", "--print-address",
                                     "--config-file=" + (m_dir / "bus.conf").string()});
        auto const address = m_bus->line();
        ASSERT_TRUE(address);
        m_environment = {"DBUS_SESSION_BUS_ADDRESS=" + *address, "HOME=" + m_dir.path().string(),
                         "XDG_RUNTIME_DIR=" + m_dir.path().string(),
                         "XDG_DATA_HOME=" + (m_dir / "data").string()};
        ::setenv("DBUS_SESSION_BUS_ADDRESS", address->c_str(), 1);
    }
    void TearDown() override
    {
        leaveSession();
        VaultTest::TearDown();
        m_keyring.reset();
        m_bus.reset();
    }
    /// Starts the keyring and returns when it stands on the bus.
    void startKeyring(bool unlocked)
    {
        std::vector<std::string> arguments{"--foreground", "--components=secrets"};
        if (unlocked)
            arguments.emplace_back("--unlock");
        m_keyring = std::make_unique<Child>("/usr/bin/gnome-keyring-daemon", arguments, m_environment);
        if (unlocked)
            m_keyring->say("keyring password");
        m_keyring->closeInput();
        auto const until = std::chrono::steady_clock::now() + 60s;
        while (std::chrono::steady_clock::now() < until &&
               !test::run({"dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.secrets",
                           "/org/freedesktop/secrets", "org.freedesktop.DBus.Peer.Ping"},
                          m_environment)
                    .ok()) {
        }
    }

    std::unique_ptr<Child> m_bus;
    std::unique_ptr<Child> m_keyring;
    std::vector<std::string> m_environment;
};

TEST_F(KeyringTest, AnOpenKeyringOpensTheVaultWithoutAnyPassword)
{
    startKeyring(true);
    auto const created = m_vault->create(Secret());
    ASSERT_TRUE(created) << created.error().message;
    ASSERT_TRUE(m_vault->setSecret(m_host, "password", secretOf("hunter2")));
    EXPECT_EQ(readElsewhere(m_environment), "secret hunter2");
    EXPECT_THAT(readElsewhere({"DBUS_SESSION_BUS_ADDRESS=disabled:"}), StartsWith("error vault_locked"));
    EXPECT_EQ(attach()->unlock(secretOf("x")).error().code, Errc::AuthFailed) << "it has no master password";

    // The keyring has a key that wraps the vault's, under this vault's id, and not the vault's own.
    auto const id = m_store->blob("vault", "vault.id").value().value();
    EXPECT_EQ(test::mustRun({"secret-tool", "lookup", "vault", id}, m_environment).size(), 32U);

    ASSERT_TRUE(m_vault->changePassword(Secret(), secretOf("master")));
    EXPECT_TRUE(attach()->unlock(secretOf("master")));
    EXPECT_EQ(readElsewhere(m_environment), "secret hunter2") << "either opens it";
    ASSERT_TRUE(m_vault->changePassword(Secret(), Secret())) << "the keyring is enough";
    EXPECT_FALSE(attach()->unlock(secretOf("master")));
}

TEST_F(KeyringTest, ALockedOrForgetfulKeyringIsLeftAloneAndAskedNothing)
{
    startKeyring(true);
    ASSERT_TRUE(m_vault->create(secretOf("master")));
    ASSERT_TRUE(m_vault->setSecret(m_host, "password", secretOf("hunter2")));
    m_keyring.reset();
    startKeyring(false); // the same keyring, which nobody has opened this time
    auto const said = readElsewhere(m_environment);
    EXPECT_THAT(said, StartsWith("error vault_locked"));
    EXPECT_THAT(said, HasSubstr("vault unlock"));
    EXPECT_TRUE(attach()->unlock(secretOf("master")));
}

TEST_F(KeyringTest, ABusWithoutASecretServiceIsNoSecretService)
{
    EXPECT_EQ(m_vault->create(Secret()).error().code, Errc::InvalidArgument);
    ASSERT_TRUE(m_vault->create(secretOf("master")));
    EXPECT_TRUE(attach()->unlock(secretOf("master")));
}

TEST_F(KeyringTest, ASecretServiceThatDoesNotAnswerIsNotWaitedForLong)
{
    startKeyring(true);
    ASSERT_TRUE(m_vault->create(Secret()));
    ::kill(m_keyring->pid(), SIGSTOP);
    auto const begin = std::chrono::steady_clock::now();
    EXPECT_THAT(readElsewhere(m_environment), StartsWith("error vault_locked"));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s) << "GLib itself would wait for 25 s";
    ::kill(m_keyring->pid(), SIGCONT);
}

TEST(VaultStart, AProgramThatNeedsNoSecretServiceDoesNotLoadIt)
{
    leaveSession();
    EXPECT_THAT(test::mustRun({"ldd", "/proc/self/exe"}), Not(HasSubstr("libsecret")));
}

} // namespace

/// The other processes of these tests; -1: none was asked for.
int otherProcess(std::vector<std::string> const& words)
{
    auto const say = [](std::string const& line) {
        return ::write(STDOUT_FILENO, (line + "\n").data(), line.size() + 1) > 0;
    };
    if (words.empty() || (words[0] != "read-silently" && words[0] != "change-passwords"))
        return -1;
    auto const store = Store::open(words.at(1)).value();
    Paths paths;
    if (words[0] == "read-silently") {
        paths.vaultSocket = words.at(2);
        auto const vault = Vault::attach(*store, paths).value();
        if (auto const opened = vault->unlockSilently(); !opened)
            return say("error " + std::string(toString(opened.error().code)) + " " + opened.error().message)
                       ? 1
                       : 2;
        return say("secret " + std::string(vault->secret(words.at(3), words.at(4)).value()->reveal())) ? 0
                                                                                                       : 2;
    }
    auto const vault = Vault::attach(*store, paths).value();
    for (auto i = std::stoi(words.at(2));; ++i) {
        auto const changed = vault->changePassword(secretOf("password " + std::to_string(i)),
                                                   secretOf("password " + std::to_string(i + 1)));
        if (!changed || !say(std::to_string(i + 1)))
            return 1;
    }
}

} // namespace termalin

int main(int argc, char** argv)
{
    if (argc > 1 && argv[1] == termalin::kVaultHolderWord)
        return termalin::runVaultHolder(argc, argv);
    if (auto const code = termalin::otherProcess({argv + 1, argv + argc}); code >= 0)
        return code;
    ::testing::InitGoogleMock(&argc, argv);
    return RUN_ALL_TESTS();
}
