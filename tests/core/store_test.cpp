#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sys/stat.h>

#include "core/schema.h"
#include "core/sqlite.h"
#include "core/store.h"
#include "tests/support/temp_dir.h"

namespace termalin {
namespace {

using test::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

Host sample(std::string name)
{
    Host host;
    host.name = std::move(name);
    host.hostname = "server.example";
    host.port = 2222;
    host.username = "deploy";
    host.authType = AuthType::Key;
    host.policy = AgentPolicy::Allowlist;
    host.tags = {"production", "web"};
    host.notes = "Restart nothing.\nAsk first.";
    host.keyFiles = {"~/.ssh/id_ed25519", "/keys/second key"};
    host.certificateFiles = {"/keys/id-cert.pub"};
    host.identitiesOnly = true;
    host.agentSocket = "/run/agent.sock";
    host.knownHostsFiles = {"/keys/known_hosts", "/keys/known hosts 2"};
    host.addressFamily = AddressFamily::Inet6;
    host.connectTimeout = 7;
    host.serverAliveInterval = 0;
    host.serverAliveCountMax = 5;
    host.hostKeyAlias = "alias.example";
    host.rules = {"systemctl status *", "uptime"};
    host.reads = {"/var/log/**"};
    return host;
}

Host plain(std::string name, std::vector<std::string> jump = {})
{
    Host host;
    host.name = std::move(name);
    host.hostname = host.name + ".example";
    host.username = "deploy";
    host.jump = std::move(jump);
    return host;
}

class StoreTest : public ::testing::Test {
protected:
    void SetUp() override { m_store = open(); }

    std::unique_ptr<Store> open() const
    {
        auto store = Store::open(file());
        EXPECT_TRUE(store) << store.error().message;
        return store ? *std::move(store) : nullptr;
    }
    Host add(Host const& host) const
    {
        auto added = m_store->addHost(host);
        EXPECT_TRUE(added) << added.error().message;
        return added.value_or(Host{});
    }
    Host get(std::string const& name) const { return m_store->findHost(name).value_or(Host{}); }
    std::filesystem::path file() const { return m_folder.path() / "termalin.db"; }

    TempDir m_folder;
    std::unique_ptr<Store> m_store;
};

TEST_F(StoreTest, GivesBackEveryFieldOfAHost)
{
    auto const added = add(sample("web"));
    m_store = open();
    auto const host = get("web");

    EXPECT_EQ(host.id, added.id);
    EXPECT_EQ(host.hostname, "server.example");
    EXPECT_EQ(host.port, 2222);
    EXPECT_EQ(host.username, "deploy");
    EXPECT_EQ(host.authType, AuthType::Key);
    EXPECT_EQ(host.policy, AgentPolicy::Allowlist);
    EXPECT_THAT(host.tags, ElementsAre("production", "web"));
    EXPECT_EQ(host.notes, "Restart nothing.\nAsk first.");
    EXPECT_THAT(host.keyFiles, ElementsAre("~/.ssh/id_ed25519", "/keys/second key"));
    EXPECT_THAT(host.certificateFiles, ElementsAre("/keys/id-cert.pub"));
    EXPECT_TRUE(host.identitiesOnly);
    EXPECT_EQ(host.agentSocket, "/run/agent.sock");
    EXPECT_THAT(host.knownHostsFiles, ElementsAre("/keys/known_hosts", "/keys/known hosts 2"));
    EXPECT_EQ(host.addressFamily, AddressFamily::Inet6);
    EXPECT_EQ(host.connectTimeout, 7);
    EXPECT_EQ(host.serverAliveInterval, 0);
    EXPECT_EQ(host.serverAliveCountMax, 5);
    EXPECT_EQ(host.hostKeyAlias, "alias.example");
    EXPECT_THAT(host.rules, ElementsAre("systemctl status *", "uptime"));
    EXPECT_THAT(host.reads, ElementsAre("/var/log/**"));
    EXPECT_EQ(get(added.id).name, "web");
}

TEST_F(StoreTest, ANewFileHoldsThisComputerBlockedAndIsTheUsersAlone)
{
    auto const hosts = m_store->hosts();
    ASSERT_TRUE(hosts);
    ASSERT_EQ(hosts->size(), 1U);
    EXPECT_EQ(hosts->front().id, kLocalHostId);
    EXPECT_EQ(hosts->front().policy, AgentPolicy::Blocked);
    ASSERT_TRUE(m_store->setValue("key", "value")); // the log is there by now
    for (auto const* const suffix : {"", "-wal", "-shm"}) {
        struct stat info{};
        ASSERT_EQ(::stat((file().string() + suffix).c_str(), &info), 0) << suffix;
        EXPECT_EQ(info.st_mode & 07777U, 0600U) << suffix;
    }
}

TEST_F(StoreTest, ListsForAgentsWhatIsOpenToThemByName)
{
    auto local = get("local");
    local.policy = AgentPolicy::Full;
    ASSERT_TRUE(m_store->updateHost(local));
    auto const web = add(sample("web"));
    add(plain("hidden"));
    auto full = plain("db");
    full.policy = AgentPolicy::Full;
    auto const db = add(full);
    std::map<std::string, std::string> open;
    ASSERT_TRUE(m_store->lookAtOpenHosts([&](HostView const& host) {
        open[std::string(host.name)] = fmt::format(
            "{} {} {} {} {} {} [{}] {}", host.id, host.hostname, host.port, host.username,
            toString(host.authType), toString(host.policy), fmt::join(host.tags, "\n"), host.notes);
    }));
    EXPECT_THAT(open, ElementsAre(Pair("db", db.id + " db.example 22 deploy agent full [] "),
                                  Pair("web", web.id + " server.example 2222 deploy key allowlist "
                                                       "[production\nweb] Restart nothing.\nAsk first.")));
}

// Statements are compiled once and used again.
TEST_F(StoreTest, TheSameStatementServesSeveralAtOnceAndForgetsTheLastOne)
{
    auto database = sqlite::Database::open(file());
    ASSERT_TRUE(database);
    static constexpr std::string_view kQuery = "SELECT ?1 UNION ALL SELECT ?2";
    for (int round = 0; round < 3; ++round) {
        auto first = database->prepare(kQuery);
        auto second = database->prepare(kQuery);
        ASSERT_TRUE(first && second);
        first->bind("one").bind("two");
        second->bind("three"); // and nothing for ?2
        ASSERT_TRUE(*first->step() && *second->step());
        EXPECT_EQ(first->text(0), "one");
        EXPECT_EQ(second->text(0), "three");
        ASSERT_TRUE(*first->step() && *second->step());
        EXPECT_EQ(first->text(0), "two");
        EXPECT_TRUE(second->isNull(0)) << "what an earlier use had bound came back";
    } // each goes with a row still to come
}

TEST_F(StoreTest, AStatementThatIsLetGoHalfReadHoldsNothing)
{
    auto reader = sqlite::Database::open(file());
    auto writer = sqlite::Database::open(file());
    ASSERT_TRUE(reader && writer);
    ASSERT_TRUE(writer->execute("CREATE TABLE numbers(n); INSERT INTO numbers VALUES (1), (2), (3)"));
    {
        auto half = reader->prepare("SELECT n FROM numbers");
        ASSERT_TRUE(half && *half->step());
    }
    ASSERT_TRUE(writer->execute("UPDATE numbers SET n = 7"));
    auto again = reader->prepare("SELECT n FROM numbers");
    ASSERT_TRUE(again && *again->step());
    EXPECT_EQ(again->number(0), 7) << "it still reads in the old state";
}

TEST_F(StoreTest, AHostIsBlockedUntilThePersonSaysOtherwise)
{
    EXPECT_EQ(add(plain("new")).policy, AgentPolicy::Blocked);
}

TEST_F(StoreTest, ThisComputerCanBeNeitherRenamedNorRemovedButItsPolicyCanBeSet)
{
    auto local = get("local");
    local.policy = AgentPolicy::Full;
    auto const changed = m_store->updateHost(local);
    ASSERT_TRUE(changed) << changed.error().message;
    EXPECT_EQ(get("local").policy, AgentPolicy::Full);

    local = *changed;
    local.hostname = "elsewhere.example";
    EXPECT_EQ(m_store->updateHost(local).error().code, Errc::InvalidArgument);
    EXPECT_EQ(m_store->removeHost("local").error().code, Errc::InvalidArgument);
}

TEST_F(StoreTest, NamesAreUniqueAndDoNotLookLikeIds)
{
    auto const first = add(plain("web"));
    EXPECT_THAT(m_store->addHost(plain("web")).error().message, HasSubstr("name:"));
    for (auto const& name : {std::string("local"), first.id, std::string(), std::string("a\nb"),
                             std::string("a\xE2\x80\xAE"
                                         "b"),
                             std::string("\xff"), std::string(256, 'x')}) {
        auto const refused = m_store->addHost(plain(name));
        ASSERT_FALSE(refused) << name;
        EXPECT_EQ(refused.error().code, Errc::InvalidArgument);
        EXPECT_THAT(refused.error().message, HasSubstr("name"));
    }
    EXPECT_EQ(m_store->hosts()->size(), 2U);
}

TEST_F(StoreTest, ARemovedHostsIdIsNotUsedAgainAndItsSecretsGoWithIt)
{
    auto const first = add(plain("web"));
    ASSERT_TRUE(m_store->setBlob(first.id, "password", std::string_view("\0cipher", 7)));
    ASSERT_TRUE(m_store->removeHost(first.id));
    EXPECT_NE(add(plain("web")).id, first.id);
    EXPECT_THAT(*m_store->blobs(), IsEmpty());
    EXPECT_EQ(m_store->setBlob(first.id, "password", "late").error().code, Errc::UnknownHost);
    EXPECT_EQ(m_store->removeHost(first.id).error().code, Errc::UnknownHost);
}

TEST_F(StoreTest, EveryFieldThatCannotBeUsedIsRefusedByItsName)
{
    struct Case {
        std::string field;
        void (*spoil)(Host&);
    };
    std::vector<Case> const cases{
        {"hostname", [](Host& h) { h.hostname = ""; }},
        {"hostname", [](Host& h) { h.hostname = "-oProxyCommand=x"; }},
        {"hostname", [](Host& h) { h.hostname = "a;b"; }},
        {"hostname", [](Host& h) { h.hostname = "a b"; }},
        {"hostname", [](Host& h) { h.hostname = "$(id)"; }},
        {"port", [](Host& h) { h.port = 0; }},
        {"username", [](Host& h) { h.username = "-l"; }},
        {"username", [](Host& h) { h.username = "a`id`"; }},
        {"username", [](Host& h) { h.username = std::string("a\0b", 3); }},
        {"tags", [](Host& h) { h.tags = {""}; }},
        {"tags", [](Host& h) { h.tags = {"x", "x"}; }},
        {"tags", [](Host& h) { h.tags = {"a\nb"}; }},
        {"tags", [](Host& h) { h.tags = std::vector<std::string>(65, "t"); }},
        {"notes", [](Host& h) { h.notes = "a\x1b[2J"; }},
        {"notes", [](Host& h) { h.notes = std::string(8193, 'n'); }},
        {"keyFiles", [](Host& h) { h.keyFiles = {"a\nb"}; }},
        {"certificateFiles", [](Host& h) { h.certificateFiles = {std::string(4097, 'c')}; }},
        {"agentSocket", [](Host& h) { h.agentSocket = "/" + std::string(107, 's'); }},
        {"knownHostsFiles", [](Host& h) { h.knownHostsFiles = {"/k", "\x01"}; }},
        {"connectTimeout", [](Host& h) { h.connectTimeout = -1; }},
        {"serverAliveInterval", [](Host& h) { h.serverAliveInterval = -1; }},
        {"serverAliveCountMax", [](Host& h) { h.serverAliveCountMax = -1; }},
        {"hostKeyAlias", [](Host& h) { h.hostKeyAlias = "a,b"; }},
        {"jump", [](Host& h) { h.jump = {"nowhere"}; }},
        {"jump", [](Host& h) { h.jump = {"local"}; }},
        {"jump", [](Host& h) { h.jump = std::vector<std::string>(17, "j"); }},
        {"proxyCommand", [](Host& h) { h.proxyCommand = "a\nb"; }},
        {"rules", [](Host& h) { h.rules = {"* everything"}; }},
        {"reads", [](Host& h) { h.reads = {"relative/*"}; }},
    };
    for (auto const& [field, spoil] : cases) {
        auto host = plain("spoiled");
        spoil(host);
        auto const refused = m_store->addHost(host);
        ASSERT_FALSE(refused) << field;
        EXPECT_EQ(refused.error().code, Errc::InvalidArgument) << refused.error().message;
        EXPECT_THAT(refused.error().message, ::testing::StartsWith(field + ":"));
    }
    EXPECT_EQ(m_store->hosts()->size(), 1U);
}

TEST_F(StoreTest, AJumpAndAProxyCommandExcludeEachOther)
{
    add(plain("bastion"));
    auto host = plain("inner", {"bastion"});
    host.proxyCommand = "nc %h %p";
    EXPECT_THAT(m_store->addHost(host).error().message, HasSubstr("proxyCommand:"));
    host.proxyCommand = "none";
    EXPECT_TRUE(m_store->addHost(host));
}

TEST_F(StoreTest, JumpsMayNotGoInACircleOfAnyLength)
{
    add(plain("a"));
    add(plain("b", {"a"}));
    add(plain("c", {"b"}));
    auto a = get("a");
    for (auto const* const jump : {"a", "b", "c"}) {
        a.jump = {jump};
        EXPECT_THAT(m_store->updateHost(a).error().message, HasSubstr("jump:")) << jump;
    }
    EXPECT_THAT(get("a").jump, IsEmpty());
}

TEST_F(StoreTest, AJumpHostFollowsItsNewNameAndCannotBeRemovedWhileItIsUsed)
{
    auto bastion = add(plain("bastion"));
    auto const inner = add(plain("inner", {bastion.id}));
    EXPECT_THAT(inner.jump, ElementsAre("bastion"));
    bastion.name = "gate";
    ASSERT_TRUE(m_store->updateHost(bastion));
    EXPECT_THAT(get("inner").jump, ElementsAre("gate"));
    EXPECT_THAT(m_store->hosts()->at(1).jump, ElementsAre("gate"));

    auto const refused = m_store->removeHost(bastion.id);
    EXPECT_THAT(refused.error().message, HasSubstr("inner"));
    ASSERT_TRUE(m_store->removeHost(inner.id));
    EXPECT_TRUE(m_store->removeHost(bastion.id));
}

TEST_F(StoreTest, AChangeOfAJumpHostIsAChangeOfEveryHostBehindIt)
{
    add(plain("outer"));
    add(plain("middle", {"outer"}));
    add(plain("inner", {"middle"}));
    add(plain("beside"));
    auto outer = get("outer");
    auto const before = std::array{get("middle"), get("inner"), get("beside")};

    outer.notes = "New note";
    ASSERT_TRUE(m_store->updateHost(outer));
    EXPECT_EQ(get("middle").revision, before[0].revision + 1);
    EXPECT_EQ(get("inner").revision, before[1].revision + 1);
    EXPECT_EQ(get("inner").routeRevision, before[1].routeRevision);
    EXPECT_EQ(get("beside").revision, before[2].revision);

    outer = get("outer");
    outer.hostname = "moved.example";
    ASSERT_TRUE(m_store->updateHost(outer));
    EXPECT_EQ(get("outer").routeRevision, 2);
    EXPECT_EQ(get("middle").routeRevision, before[0].routeRevision + 1);
    EXPECT_EQ(get("inner").routeRevision, before[1].routeRevision + 1);
    EXPECT_EQ(get("beside").routeRevision, before[2].routeRevision);
}

TEST_F(StoreTest, OnlyAChangeOfTheWayIsANewRoute)
{
    add(plain("bastion"));
    add(plain("host"));
    struct Case {
        bool route;
        void (*change)(Host&);
    };
    std::vector<Case> const cases{{false, [](Host& h) { h.policy = AgentPolicy::Full; }},
                                  {false, [](Host& h) { h.name = "renamed"; }},
                                  {false, [](Host& h) { h.rules = {"uptime"}; }},
                                  {false, [](Host& h) { h.keyFiles = {"/k"}; }},
                                  {true, [](Host& h) { h.hostname = "other.example"; }},
                                  {true, [](Host& h) { h.port = 23; }},
                                  {true, [](Host& h) { h.username = "root"; }},
                                  {true, [](Host& h) { h.jump = {"bastion"}; }},
                                  {true, [](Host& h) {
                                       h.jump = {};
                                       h.proxyCommand = "nc %h %p";
                                   }}};
    auto host = get("host");
    for (auto const& [route, change] : cases) {
        auto wanted = host;
        change(wanted);
        auto const changed = m_store->updateHost(wanted);
        ASSERT_TRUE(changed) << changed.error().message;
        EXPECT_EQ(changed->revision, host.revision + 1);
        EXPECT_EQ(changed->routeRevision, host.routeRevision + (route ? 1 : 0));
        host = *changed;
    }
    EXPECT_EQ(m_store->updateHost(host)->revision, host.revision) << "nothing was changed";
}

TEST_F(StoreTest, AChangeMadeMeanwhileIsNotOverwritten)
{
    auto mine = add(plain("host"));
    auto theirs = mine;
    theirs.policy = AgentPolicy::Full;
    ASSERT_TRUE(open()->updateHost(theirs));
    mine.notes = "mine";
    auto const refused = m_store->updateHost(mine);
    EXPECT_EQ(refused.error().code, Errc::InvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("meanwhile"));
    EXPECT_EQ(get("host").policy, AgentPolicy::Full);
}

TEST_F(StoreTest, TheVersionTellsOwnAndOthersChangesAndStandsStillOtherwise)
{
    auto const other = open();
    auto const first = m_store->version().value();
    EXPECT_EQ(m_store->version().value(), first);
    ASSERT_TRUE(other->setValue("a", "1"));
    auto const second = m_store->version().value();
    EXPECT_NE(second, first);
    ASSERT_TRUE(m_store->setValue("a", "2"));
    auto const third = m_store->version().value();
    EXPECT_NE(third, second);
    EXPECT_NE(third, first);
    EXPECT_EQ(m_store->version().value(), third);
}

TEST_F(StoreTest, ValuesBlobsAndWideningsKeepTheirBytes)
{
    std::string const bytes("\0\xff\n'", 4);
    ASSERT_TRUE(m_store->setValue("audit.head", bytes));
    ASSERT_TRUE(m_store->setBlob("vault", "key", bytes));
    ASSERT_TRUE(m_store->addWidening(
        {.id = 0, .time = "2026-01-01T00:00:00Z", .program = "p (1)", .what = "w", .before = "{}"}));
    m_store = open();
    EXPECT_EQ(m_store->value("audit.head").value(), bytes);
    EXPECT_EQ(m_store->blob("vault", "key").value(), bytes);
    EXPECT_EQ(m_store->value("nothing").value(), std::nullopt);
    EXPECT_EQ(m_store->blob("vault", "nothing").value(), std::nullopt);
    auto const widenings = m_store->widenings().value();
    ASSERT_EQ(widenings.size(), 1U);
    EXPECT_EQ(widenings[0].what, "w");
    ASSERT_TRUE(m_store->removeWidening(widenings[0].id));
    ASSERT_TRUE(m_store->removeValue("audit.head"));
    ASSERT_TRUE(m_store->removeBlob("vault", "key"));
    EXPECT_THAT(m_store->widenings().value(), IsEmpty());
    EXPECT_EQ(m_store->value("audit.head").value(), std::nullopt);
    EXPECT_THAT(m_store->blobs().value(), IsEmpty());
}

TEST_F(StoreTest, ManyBlobsAreReplacedAllOrNone)
{
    ASSERT_TRUE(m_store->setBlob("vault", "key", "old"));
    EXPECT_EQ(m_store->replaceBlobs({{"vault", "key", "new"}, {"h0", "password", "x"}}).error().code,
              Errc::UnknownHost);
    EXPECT_EQ(m_store->blob("vault", "key").value(), "old");
    auto const id = add(plain("host")).id;
    ASSERT_TRUE(m_store->replaceBlobs({{"vault", "key", "new"}, {id, "password", "x"}}));
    EXPECT_EQ(m_store->blob("vault", "key").value(), "new");
    EXPECT_EQ(m_store->blob(id, "password").value(), "x");
}

/// What a backup holds: the one file, its log taken into it.
void backUp(std::filesystem::path const& from, std::filesystem::path const& to)
{
    auto database = sqlite::Database::open(from).value();
    ASSERT_TRUE(database.execute(("VACUUM INTO '" + to.string() + "'").c_str()));
    auto copy = sqlite::Database::open(to).value();
    ASSERT_TRUE(copy.execute("PRAGMA journal_mode=WAL"));
    ::chmod(to.c_str(), 0600);
}

TEST_F(StoreTest, ABackupPutInTheFilesPlaceIsFollowedAtOnce)
{
    auto host = plain("host");
    host.policy = AgentPolicy::Blocked;
    host = add(host);
    auto const backup = m_folder / "backup.db";
    for (auto const* const way : {"moved", "copied"}) {
        std::filesystem::remove(backup);
        backUp(file(), backup);
        auto open = get("host");
        open.policy = AgentPolicy::Full;
        ASSERT_TRUE(m_store->updateHost(open));
        auto const before = m_store->version().value();

        for (auto const* const beside : {"-wal", "-shm"})
            std::filesystem::remove(file().string() + beside);
        if (way == std::string_view("moved"))
            std::filesystem::rename(backup, file());
        else
            std::filesystem::copy_file(backup, file(), std::filesystem::copy_options::overwrite_existing);

        EXPECT_GT(m_store->version().value(), before) << way;
        EXPECT_EQ(get("host").policy, AgentPolicy::Blocked) << way;
        ASSERT_TRUE(m_store->setValue("after", way)) << way;
        EXPECT_EQ(Store::open(file()).value()->value("after").value(), way);
        EXPECT_EQ(Store::open(file()).value()->findHost("host")->policy, AgentPolicy::Blocked) << way;
    }
}

TEST_F(StoreTest, AFileThatIsGonePermitsNothingAndMayComeBack)
{
    add(plain("host"));
    auto const kept = m_folder / "kept.db";
    backUp(file(), kept);
    std::filesystem::rename(file(), m_folder / "away.db");
    EXPECT_EQ(m_store->findHost("host").error().code, Errc::NotFound);
    EXPECT_EQ(m_store->version().error().code, Errc::NotFound);
    EXPECT_EQ(m_store->hosts().error().code, Errc::NotFound);
    EXPECT_FALSE(std::filesystem::exists(file())) << "an empty one would be a person's hosts lost";

    test::writeFile(file(), ""); // somebody begins to copy one there
    ::chmod(file().c_str(), 0600);
    EXPECT_EQ(m_store->findHost("host").error().code, Errc::Unsupported);
    EXPECT_EQ(std::filesystem::file_size(file()), 0U);

    std::filesystem::rename(kept, file());
    EXPECT_TRUE(m_store->findHost("host"));
}

TEST_F(StoreTest, AValueThatIsPutAtOnceWaitsForNobody)
{
    auto other = sqlite::Database::open(file()).value();
    auto const begun = std::chrono::steady_clock::now();
    {
        auto const held = sqlite::Transaction::begin(other, sqlite::Transaction::Kind::Write).value();
        EXPECT_EQ(m_store->setValueAtOnce("a", "1").error().code, Errc::Timeout);
        EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
    }
    EXPECT_TRUE(m_store->setValueAtOnce("a", "2"));
    EXPECT_EQ(m_store->value("a").value(), "2");
}

TEST_F(StoreTest, AnUnknownHostIsNamedAndNoOther)
{
    add(plain("secret-name"));
    auto const error = m_store->findHost("nothing").error();
    EXPECT_EQ(error.code, Errc::UnknownHost);
    EXPECT_THAT(error.message, HasSubstr("nothing"));
    EXPECT_THAT(error.message, ::testing::Not(HasSubstr("secret-name")));
}

} // namespace
} // namespace termalin
