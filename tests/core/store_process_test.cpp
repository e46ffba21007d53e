#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include "core/paths.h"
#include "core/store.h"
#include "tests/core/child.h"
#include "tests/support/temp_dir.h"

namespace termalin {
namespace {

using test::Child;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using ::testing::StartsWith;

std::set<std::string> namesIn(std::filesystem::path const& file)
{
    std::set<std::string> names;
    auto const store = Store::open(file);
    EXPECT_TRUE(store) << store.error().message;
    if (!store)
        return names;
    auto const hosts = (*store)->hosts();
    EXPECT_TRUE(hosts) << hosts.error().message;
    if (hosts)
        for (auto const& host : *hosts)
            names.insert(host.name);
    return names;
}

class StoreProcessTest : public ::testing::Test {
protected:
    std::filesystem::path file() const { return m_dir / "termalin.db"; }
    test::TempDir m_dir;
};

TEST_F(StoreProcessTest, ManyProcessesMayOpenANewFileAtOnce)
{
    for (int round = 0; round < 5; ++round) {
        auto const fresh = m_dir / ("store" + std::to_string(round)) / "termalin.db";
        std::vector<std::unique_ptr<Child>> children;
        for (int i = 0; i < 6; ++i)
            children.push_back(
                std::make_unique<Child>(CHILD_PROGRAM, std::vector{std::string("open"), fresh.string()}));
        for (auto const& child : children) {
            EXPECT_EQ(child->line(), "opened");
            EXPECT_EQ(child->wait(), 0);
        }
        EXPECT_EQ(namesIn(fresh).size(), 1U);
    }
}

TEST_F(StoreProcessTest, TwoProcessesThatWriteAtOnceLoseNothing)
{
    Child first(CHILD_PROGRAM, {"add-hosts", file(), "first", "60"});
    Child second(CHILD_PROGRAM, {"add-hosts", file(), "second", "60"});
    EXPECT_EQ(first.restOfLines().size(), 60U);
    EXPECT_EQ(second.restOfLines().size(), 60U);
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
    EXPECT_EQ(namesIn(file()).size(), 121U);
}

TEST_F(StoreProcessTest, AKillAtAnyMomentLosesNothingThatWasConfirmed)
{
    std::mt19937 random(20'261'130); // NOLINT(cert-msc51-cpp): the same moments in each run
    std::set<std::string> confirmed;
    for (int round = 0; round < 25; ++round) {
        Child child(CHILD_PROGRAM, {"add-hosts", file(), "round" + std::to_string(round), "1000000"});
        auto const lines = std::uniform_int_distribution(0, 12)(random);
        for (int i = 0; i < lines; ++i)
            confirmed.insert(child.line().value());
        child.kill();
        for (auto const& line : child.restOfLines())
            confirmed.insert(line);
        EXPECT_EQ(child.wait(), 128 + 9);
        EXPECT_THAT(confirmed, IsSubsetOf(namesIn(file()))) << "round " << round;
    }
    EXPECT_GT(confirmed.size(), 50U);
}

TEST_F(StoreProcessTest, AFullDiskIsNoSpaceAndLosesNothing)
{
    Child child(CHILD_PROGRAM, {"fill", file(), "400000"});
    auto lines = child.restOfLines();
    EXPECT_EQ(child.wait(), 1);
    ASSERT_GT(lines.size(), 10U);
    EXPECT_THAT(lines.back(), StartsWith("error no_space"));
    lines.pop_back();
    auto names = namesIn(file());
    EXPECT_THAT(lines, IsSubsetOf(names));

    Child after(CHILD_PROGRAM, {"add-hosts", file(), "after", "3"});
    EXPECT_EQ(after.restOfLines().size(), 3U);
    EXPECT_EQ(namesIn(file()).size(), names.size() + 3);
}

TEST_F(StoreProcessTest, ABusyFileIsWaitedFor)
{
    auto const store = Store::open(file());
    ASSERT_TRUE(store);
    Child other(CHILD_PROGRAM, {"add-hosts", file(), "other", "40"});
    ASSERT_TRUE(other.line());
    for (int i = 0; i < 40; ++i)
        EXPECT_TRUE((*store)->setValue("key", std::to_string(i)));
    EXPECT_EQ(other.restOfLines().size(), 39U);
}

TEST_F(StoreProcessTest, AFolderThatCannotBeWrittenIsSaidToBeSo)
{
    auto const folder = m_dir / "sealed";
    ASSERT_TRUE(makePrivateDir(folder));
    if (::geteuid() == 0) { // root may write anywhere: another user tries
        ASSERT_EQ(::chown(m_dir.path().c_str(), 65534, 65534), 0);
        ASSERT_EQ(::chown(folder.c_str(), 65534, 65534), 0);
    }
    {
        Child child(CHILD_PROGRAM, {"open-as-nobody", folder / "termalin.db"});
        ASSERT_EQ(child.restOfLines(), std::vector<std::string>{"opened"});
    }
    ASSERT_EQ(::chmod(folder.c_str(), 0500), 0);
    {
        Child child(CHILD_PROGRAM, {"open-as-nobody", folder / "second.db"});
        EXPECT_THAT(child.line().value(), StartsWith("error permission_denied"));
    }
    ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
}

TEST_F(StoreProcessTest, AFileOrFolderOfAnotherUserIsRefused)
{
    if (::geteuid() != 0) {
        // Only root can make things that belong to somebody else; what belongs to root is there without.
        EXPECT_EQ(Store::open("/etc/termalin.db").error().code, Errc::PermissionDenied);
        return;
    }
    ASSERT_TRUE(Store::open(file()));
    ASSERT_EQ(::chown(file().c_str(), 65534, 65534), 0);
    EXPECT_THAT(Store::open(file()).error().message, HasSubstr("belongs to user 65534"));
    ASSERT_EQ(::chown(file().c_str(), 0, 0), 0);
    ASSERT_EQ(::chown(m_dir.path().c_str(), 65534, 65534), 0);
    auto const refused = Store::open(file());
    EXPECT_EQ(refused.error().code, Errc::PermissionDenied);
    EXPECT_THAT(refused.error().message, HasSubstr("belongs to user 65534"));
}

TEST_F(StoreProcessTest, AFileThatOthersMayReadOrThatIsALinkIsRefused)
{
    ASSERT_TRUE(Store::open(file()));
    ASSERT_EQ(::chmod(file().c_str(), 0640), 0);
    EXPECT_THAT(Store::open(file()).error().message, HasSubstr("chmod 600"));
    ASSERT_EQ(::chmod(file().c_str(), 0600), 0);
    std::filesystem::create_symlink("termalin.db", m_dir / "link.db");
    EXPECT_EQ(Store::open(m_dir / "link.db").error().code, Errc::PermissionDenied);
    ASSERT_EQ(::chmod(m_dir.path().c_str(), 0775), 0);
    EXPECT_THAT(Store::open(file()).error().message, HasSubstr("chmod 700"));
}

} // namespace
} // namespace termalin
