#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

#include "core/paths.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin {
namespace {

using ::testing::HasSubstr;

/// Variables of the environment for one test; an empty value takes the variable away.
class Environment {
public:
    using Variables = std::map<std::string, std::string>;
    explicit Environment(Variables const& variables)
    {
        std::map<std::string, std::string> all{{"TERMALIN_HOME", ""},   {"XDG_DATA_HOME", ""},
                                               {"XDG_CONFIG_HOME", ""}, {"XDG_STATE_HOME", ""},
                                               {"XDG_RUNTIME_DIR", ""}, {"HOME", "/nowhere"}};
        for (auto const& [name, value] : variables)
            all[name] = value;
        for (auto const& [name, value] : all) {
            if (auto const* const old = std::getenv(name.c_str()))
                m_before[name] = old;
            else
                m_before[name] = "";
            set(name, value);
        }
    }
    ~Environment()
    {
        for (auto const& [name, value] : m_before)
            set(name, value);
    }
    Environment(Environment const&) = delete;
    Environment& operator=(Environment const&) = delete;

private:
    static void set(std::string const& name, std::string const& value)
    {
        value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    }
    std::map<std::string, std::string> m_before;
};

std::string homeOf(uid_t user)
{
    auto line = test::mustRun({"getent", "passwd", std::to_string(user)});
    for (int field = 0; field < 5; ++field)
        line = line.substr(line.find(':') + 1);
    return line.substr(0, line.find(':'));
}

mode_t modeOf(std::filesystem::path const& path)
{
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
}

TEST(Paths, UnderTermalinHomeEverythingIsBelowIt)
{
    Environment const environment(
        Environment::Variables{{"TERMALIN_HOME", "/srv/t/"}, {"XDG_DATA_HOME", "/data"}});
    auto const paths = Paths::find().value();
    EXPECT_TRUE(paths.isolated);
    EXPECT_EQ(paths.store, "/srv/t/termalin.db");
    EXPECT_EQ(paths.settings, "/srv/t/settings.json");
    EXPECT_EQ(paths.knownHosts, "/srv/t/known_hosts");
    EXPECT_EQ(paths.audit, "/srv/t/audit/audit.jsonl");
    EXPECT_EQ(paths.controlSocket, "/srv/t/run/control");
    EXPECT_EQ(paths.vaultSocket, "/srv/t/run/vault");
    EXPECT_EQ(paths.home, homeOf(::getuid()));
}

TEST(Paths, ElseTheBaseDirectoriesOfThePasswordDatabasesHome)
{
    Environment const environment(Environment::Variables{});
    auto const paths = Paths::find().value();
    auto const home = homeOf(::getuid());
    EXPECT_FALSE(paths.isolated);
    EXPECT_EQ(paths.store, home + "/.local/share/termalin/termalin.db");
    EXPECT_EQ(paths.settings, home + "/.config/termalin/settings.json");
    EXPECT_EQ(paths.knownHosts, home + "/.local/share/termalin/known_hosts");
    EXPECT_EQ(paths.audit, home + "/.local/state/termalin/audit/audit.jsonl");
    auto const runtime = "/run/user/" + std::to_string(::geteuid());
    struct stat info{};
    auto const ours = ::stat(runtime.c_str(), &info) == 0 && info.st_uid == ::geteuid();
    EXPECT_EQ(paths.runtimeDir, (ours ? runtime + "/termalin" : home + "/.local/state/termalin/run"));
}

TEST(Paths, NamedBaseDirectoriesAreUsedWhereTheyAreAbsolute)
{
    test::TempDir const runtime;
    Environment const environment(Environment::Variables{{"XDG_DATA_HOME", "/data"},
                                                         {"XDG_CONFIG_HOME", "relative"},
                                                         {"XDG_STATE_HOME", "/state"},
                                                         {"XDG_RUNTIME_DIR", runtime.path()}});
    auto const paths = Paths::find().value();
    EXPECT_EQ(paths.store, "/data/termalin/termalin.db");
    EXPECT_EQ(paths.settings, homeOf(::getuid()) + "/.config/termalin/settings.json");
    EXPECT_EQ(paths.audit, "/state/termalin/audit/audit.jsonl");
    EXPECT_EQ(paths.controlSocket, runtime.path() / "termalin/control");
}

TEST(Paths, ARuntimeFolderThatIsNotOursIsPassedOver)
{
    Environment const environment(Environment::Variables{{"XDG_RUNTIME_DIR", "/does/not/exist"}});
    EXPECT_NE(Paths::find()->runtimeDir, "/does/not/exist/termalin");
}

TEST(Paths, ARelativeHomeAndATooLongSocketAreRefused)
{
    {
        Environment const environment(Environment::Variables{{"TERMALIN_HOME", "here"}});
        EXPECT_EQ(Paths::find().error().code, Errc::InvalidArgument);
    }
    // sun_path has 108 bytes, and the last one is the closing NUL.
    auto const rest = std::string("/run/control").size();
    {
        Environment const environment(
            Environment::Variables{{"TERMALIN_HOME", "/" + std::string(107 - rest - 1, 'x')}});
        EXPECT_TRUE(Paths::find());
    }
    Environment const environment(
        Environment::Variables{{"TERMALIN_HOME", "/" + std::string(108 - rest - 1, 'x')}});
    auto const refused = Paths::find();
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("108 bytes"));
}

TEST(PrivateDir, IsMadeWithItsParentsForTheUserAlone)
{
    test::TempDir const dir;
    ASSERT_TRUE(makePrivateDir(dir / "a/b/c"));
    for (auto const* const part : {"a", "a/b", "a/b/c"})
        EXPECT_EQ(modeOf(dir / part), 0700U) << part;
    EXPECT_TRUE(makePrivateDir(dir / "a/b/c"));
}

TEST(PrivateDir, ThatIsOpenToOthersALinkOrAFileIsRefusedAndLeftAsItIs)
{
    test::TempDir const dir;
    for (mode_t const mode : {0701U, 0750U, 0770U, 0755U}) {
        auto const open = dir / std::to_string(mode);
        ASSERT_TRUE(makePrivateDir(open));
        ::chmod(open.c_str(), mode);
        auto const refused = makePrivateDir(open);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Errc::PermissionDenied);
        EXPECT_THAT(refused.error().message, HasSubstr("chmod 700"));
        EXPECT_EQ(modeOf(open), mode);
    }
    ASSERT_TRUE(makePrivateDir(dir / "real"));
    std::filesystem::create_symlink("real", dir / "link");
    EXPECT_THAT(makePrivateDir(dir / "link").error().message, HasSubstr("link"));
    test::writeFile(dir / "file", "");
    EXPECT_EQ(makePrivateDir(dir / "file").error().code, Errc::PermissionDenied);
}

TEST(DataDir, IsMadeForTheUserAloneAndMayBeReadButNotWrittenByOthers)
{
    test::TempDir const dir;
    ASSERT_TRUE(makeDataDir(dir / "a/b"));
    EXPECT_EQ(modeOf(dir / "a/b"), 0700U);
    for (mode_t const mode : {0701U, 0750U, 0755U}) {
        ::chmod((dir / "a/b").c_str(), mode);
        EXPECT_TRUE(makeDataDir(dir / "a/b"));
        EXPECT_EQ(modeOf(dir / "a/b"), mode);
    }
    for (mode_t const mode : {0720U, 0702U, 0777U, 01777U}) {
        ::chmod((dir / "a/b").c_str(), mode);
        EXPECT_EQ(makeDataDir(dir / "a/b").error().code, Errc::PermissionDenied);
    }
    std::filesystem::create_symlink("a", dir / "link");
    EXPECT_THAT(makeDataDir(dir / "link").error().message, HasSubstr("link"));
}

TEST(AtomicWrite, ReplacesAFileForTheUserAloneAndLeavesNothingElse)
{
    test::TempDir const dir;
    test::writeFile(dir / "file", "old");
    ::chmod((dir / "file").c_str(), 0644);
    ASSERT_TRUE(writeFileAtomically(dir / "file", std::string("new\0bytes", 9)));
    EXPECT_EQ(test::readFile(dir / "file"), std::string("new\0bytes", 9));
    EXPECT_EQ(modeOf(dir / "file"), 0600U);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(AtomicWrite, FollowsAChainOfLinksToAFileThatNeedNotExist)
{
    test::TempDir const dir;
    std::filesystem::create_directory(dir / "sub");
    std::filesystem::create_symlink("sub/second", dir / "first");
    std::filesystem::create_symlink("real", dir / "sub/second");
    ASSERT_TRUE(writeFileAtomically(dir / "first", "text"));
    EXPECT_TRUE(std::filesystem::is_symlink(dir / "first"));
    EXPECT_EQ(test::readFile(dir / "sub/real"), "text");

    std::filesystem::create_symlink("b", dir / "a");
    std::filesystem::create_symlink("a", dir / "b");
    EXPECT_EQ(writeFileAtomically(dir / "a", "text").error().code, Errc::InvalidArgument);
}

TEST(AtomicWrite, AFailureLeavesTheOldFileWhole)
{
    test::TempDir const dir;
    std::filesystem::create_directory(dir / "target");
    test::writeFile(dir / "target/inside", "kept");
    EXPECT_FALSE(writeFileAtomically(dir / "target", "text"));
    EXPECT_EQ(test::readFile(dir / "target/inside"), "kept");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
    EXPECT_EQ(writeFileAtomically(dir / "missing/file", "text").error().code, Errc::NotFound);
}

TEST(ReadFile, GivesTheWholeFileOrSaysWhyNot)
{
    test::TempDir const dir;
    std::string const large(100'000, 'x');
    test::writeFile(dir / "file", large);
    EXPECT_EQ(readFile(dir / "file").value(), large);
    EXPECT_EQ(readFile(dir / "file", large.size()).value(), large);
    EXPECT_EQ(readFile(dir / "file", large.size() - 1).error().code, Errc::TooLarge);
    EXPECT_EQ(readFile(dir / "missing").error().code, Errc::NotFound);
    EXPECT_EQ(readFile(dir.path()).error().code, Errc::InvalidArgument);
    ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
    EXPECT_EQ(readFile(dir / "pipe").error().code, Errc::InvalidArgument);
    EXPECT_EQ(readFile("/proc/self/status")->substr(0, 5), "Name:"); // whose size is said to be 0
}

} // namespace
} // namespace termalin
