#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>

#include "ssh/sftp.h"
#include "tests/support/process.h"
#include "tests/support/program.h"
#include "tests/support/sshd.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr auto kServer = "/usr/lib/openssh/sftp-server";

Deadline soon()
{
    return Deadline::in(60s);
}

std::string randomBytes(std::size_t size, unsigned seed = 1)
{
    std::minstd_rand generator(seed);
    std::string bytes(size, '\0');
    for (auto& byte : bytes)
        byte = static_cast<char>(generator() >> 7U);
    return bytes;
}

struct stat statOf(fs::path const& path)
{
    struct stat is{};
    if (::lstat(path.c_str(), &is) != 0)
        throw std::runtime_error("no " + path.string());
    return is;
}

std::vector<std::string> namesIn(fs::path const& folder)
{
    std::vector<std::string> names;
    for (auto const& entry : fs::directory_iterator(folder))
        names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
}

/// A server, and one SFTP channel to it.
class SftpTest : public ::testing::Test {
protected:
    void start(test::SshdOptions options = {})
    {
        m_server = std::make_unique<test::Sshd>(std::move(options));
        m_connection = m_server->connect();
        auto opened = Sftp::open(m_connection, soon(), {});
        if (!opened)
            throw std::runtime_error(opened.error().message + '\n' + m_server->log());
        m_sftp = *std::move(opened);
    }
    /// sshd takes the quotes out of its configuration, so a command of several words is put in a file.
    test::SshdOptions startedBy(std::string const& command) const
    {
        test::writeFile(m_scripts / "sftp", "#!/bin/sh\n" + command + '\n');
        fs::permissions(m_scripts / "sftp", fs::perms(0755));
        return {.config = {"Subsystem sftp " + (m_scripts / "sftp").string()}, .sftp = false};
    }
    fs::path home() const { return m_server->home(); }
    Result<Upload> put(fs::path const& path, std::string_view content)
    {
        return m_sftp->write(path.string(), content, soon(), {});
    }
    Result<std::string> get(fs::path const& path, std::uint64_t limit = 4U << 20U)
    {
        return m_sftp->read(path.string(), limit, soon(), {});
    }
    /// An upload without end, whose server is killed at its tenth piece.
    Result<Upload> uploadUntilKilled(fs::path const& path)
    {
        auto pieces = 0;
        return m_sftp->upload(path.string(),
                              [&](char* to, std::size_t size) -> Result<std::size_t> {
                                  if (++pieces == 10)
                                      m_server->killSessions();
                                  std::memset(to, 'x', size);
                                  return size;
                              },
                              soon(), {});
    }

    test::TempDir m_scripts;
    std::unique_ptr<test::Sshd> m_server;
    std::shared_ptr<Connection> m_connection;
    std::unique_ptr<Sftp> m_sftp;
};

TEST_F(SftpTest, WhatIsWrittenIsReadAgainAtAnySize)
{
    start();
    for (std::size_t const size : {0U, 1U, 32'768U, 261'120U, 261'121U, 1'000'003U, 12U << 20U}) {
        auto const bytes = randomBytes(size);
        auto const done = put(home() / "file", bytes);
        ASSERT_TRUE(done) << done.error().message;
        EXPECT_EQ(done->size, size);
        EXPECT_TRUE(test::readFile(home() / "file") == bytes);
        auto const back = get(home() / "file", 16U << 20U);
        ASSERT_TRUE(back) << back.error().message;
        EXPECT_TRUE(*back == bytes);
    }
    EXPECT_EQ(namesIn(home()), std::vector<std::string>{"file"});
}

TEST_F(SftpTest, ANewFileHasTheModeThatTheServersUmaskLeaves)
{
    start({.config = {std::string("Subsystem sftp ") + kServer + " -u 0027"}, .sftp = false});
    auto const done = put(home() / "new", "text");
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(done->created);
    EXPECT_EQ(done->replaced, Replaced::No);
    EXPECT_EQ(done->path, fs::canonical(home()) / "new");
    EXPECT_EQ(statOf(home() / "new").st_mode & 07777U, 0640U);
}

TEST_F(SftpTest, AReplacedFileKeepsItsModeAndNeverShowsMore)
{
    start();
    for (mode_t const mode : {0600U, 0644U, 0755U, 04755U}) {
        test::writeFile(home() / "file", "old");
        ASSERT_EQ(::chmod((home() / "file").c_str(), mode), 0);
        auto const before = statOf(home() / "file").st_ino;
        auto const done = put(home() / "file", "new");
        ASSERT_TRUE(done) << done.error().message;
        EXPECT_EQ(done->replaced, Replaced::Renamed);
        EXPECT_FALSE(done->created);
        EXPECT_EQ(statOf(home() / "file").st_mode & 07777U, mode);
        EXPECT_NE(statOf(home() / "file").st_ino, before);
        EXPECT_EQ(test::readFile(home() / "file"), "new");
    }
}

TEST_F(SftpTest, TheTemporaryFileIsForItsOwnerAloneUntilItTakesTheOldOnesPlace)
{
    start();
    test::writeFile(home() / "secret", "old");
    ASSERT_EQ(::chmod((home() / "secret").c_str(), 0600), 0);
    mode_t seen = 0;
    auto pieces = 0;
    auto const done = m_sftp->upload((home() / "secret").string(),
                                     [&](char* to, std::size_t size) -> Result<std::size_t> {
                                         for (auto const& name : namesIn(home()))
                                             if (name.starts_with(".termalin-"))
                                                 seen = statOf(home() / name).st_mode & 07777U;
                                         EXPECT_EQ(test::readFile(home() / "secret"), "old");
                                         if (++pieces > 3)
                                             return 0;
                                         std::memset(to, 'x', size);
                                         return size;
                                     },
                                     soon(), {});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(seen, 0600U);
    EXPECT_EQ(statOf(home() / "secret").st_mode & 07777U, 0600U);
}

TEST_F(SftpTest, AnotherOwnersFileStaysHisWhenTheLoginMayGiveItBack)
{
    if (!test::Sshd::canBeOthers()) {
        GTEST_SKIP() << "needs root";
    }
    start();
    test::writeFile(home() / "his", "old");
    ASSERT_EQ(::chown((home() / "his").c_str(), 64'400, 64'401), 0);
    ASSERT_EQ(::chmod((home() / "his").c_str(), 0640), 0);
    auto const done = put(home() / "his", "new");
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->replaced, Replaced::Renamed);
    auto const is = statOf(home() / "his");
    EXPECT_EQ(is.st_uid, 64'400U);
    EXPECT_EQ(is.st_gid, 64'401U);
    EXPECT_EQ(is.st_mode & 07777U, 0640U);
    EXPECT_EQ(test::readFile(home() / "his"), "new");
}

TEST_F(SftpTest, AnotherOwnersFileIsWrittenInPlaceByOneWhoMayWriteButNotGiveAway)
{
    if (!test::Sshd::canBeOthers()) {
        GTEST_SKIP() << "needs root";
    }
    start({.ordinaryUser = true});
    test::writeFile(home() / "shared", "a much longer old text");
    ASSERT_EQ(::chmod((home() / "shared").c_str(), 0666), 0);
    auto const before = statOf(home() / "shared");
    auto const done = put(home() / "shared", "new");
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->replaced, Replaced::InPlace);
    auto const after = statOf(home() / "shared");
    EXPECT_EQ(after.st_ino, before.st_ino);
    EXPECT_EQ(after.st_uid, 0U);
    EXPECT_EQ(test::readFile(home() / "shared"), "new");
    EXPECT_EQ(namesIn(home()), std::vector<std::string>{"shared"});
}

TEST_F(SftpTest, InAFolderThatMayNotBeWrittenTheFileIsWrittenInPlaceAndANewOneIsRefused)
{
    if (!test::Sshd::canBeOthers()) {
        GTEST_SKIP() << "needs root";
    }
    start({.ordinaryUser = true});
    auto const folder = home() / "locked";
    fs::create_directory(folder);
    test::writeFile(folder / "mine", "old");
    ASSERT_EQ(::chown((folder / "mine").c_str(), 64'321, 64'321), 0);
    auto const done = put(folder / "mine", "new");
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->replaced, Replaced::InPlace);
    EXPECT_EQ(test::readFile(folder / "mine"), "new");
    auto const refused = put(folder / "other", "new");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::PermissionDenied);
    EXPECT_NE(refused.error().message.find(folder.string()), std::string::npos);
}

TEST_F(SftpTest, AReadOnlyFileIsRefusedThoughItsFolderWouldLetItBeReplaced)
{
    if (!test::Sshd::canBeOthers()) {
        GTEST_SKIP() << "needs root";
    }
    start({.ordinaryUser = true});
    test::writeFile(home() / "fixed", "old");
    ASSERT_EQ(::chown((home() / "fixed").c_str(), 64'321, 64'321), 0);
    ASSERT_EQ(::chmod((home() / "fixed").c_str(), 0444), 0);
    auto const done = put(home() / "fixed", "new");
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::PermissionDenied);
    EXPECT_EQ(test::readFile(home() / "fixed"), "old");
    EXPECT_EQ(namesIn(home()), std::vector<std::string>{"fixed"});
}

TEST_F(SftpTest, LinksAreFollowedToTheFileAndADanglingOneToTheFileThatItNames)
{
    start();
    fs::create_directory(home() / "real");
    test::writeFile(home() / "real/file", "old");
    fs::create_symlink("real/file", home() / "link");
    fs::create_symlink("link", home() / "linkToLink");
    auto const done = put(home() / "linkToLink", "new");
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->path, fs::canonical(home()) / "real/file");
    EXPECT_TRUE(fs::is_symlink(home() / "link"));
    EXPECT_EQ(test::readFile(home() / "real/file"), "new");

    fs::create_symlink("real/later", home() / "dangling");
    auto const made = put(home() / "dangling", "made");
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_TRUE(made->created);
    EXPECT_TRUE(fs::is_symlink(home() / "dangling"));
    EXPECT_EQ(test::readFile(home() / "real/later"), "made");

    fs::create_symlink("round", home() / "round");
    auto const circle = put(home() / "round", "x");
    ASSERT_FALSE(circle);
    EXPECT_TRUE(fs::is_symlink(home() / "round"));
}

TEST_F(SftpTest, AHardLinkedFileIsReplacedAndItsOtherNamesKeepTheOldContent)
{
    start();
    test::writeFile(home() / "one", "old");
    fs::create_hard_link(home() / "one", home() / "two");
    auto const done = put(home() / "one", "new");
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->replaced, Replaced::Renamed);
    EXPECT_EQ(test::readFile(home() / "one"), "new");
    EXPECT_EQ(test::readFile(home() / "two"), "old");
}

TEST_F(SftpTest, WhatIsNoRegularFileIsNeitherOpenedNorWritten)
{
    start();
    fs::create_directory(home() / "folder");
    ASSERT_EQ(::mkfifo((home() / "pipe").c_str(), 0600), 0);
    UniqueFd const socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (home() / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    for (fs::path const& path :
         {home() / "folder", home() / "pipe", home() / "socket", fs::path("/dev/null")}) {
        SCOPED_TRACE(path);
        auto const written = put(path, "x");
        ASSERT_FALSE(written);
        EXPECT_EQ(written.error().code, Errc::InvalidArgument) << written.error().message;
        auto const read = get(path);
        ASSERT_FALSE(read);
        EXPECT_EQ(read.error().code, Errc::InvalidArgument) << read.error().message;
    }
    for (auto const* const name : {"", "/", "folder/"})
        EXPECT_FALSE(m_sftp->write(name, "x", soon(), {})) << name;
}

TEST_F(SftpTest, WhatIsNotThereIsNotFoundAndNamed)
{
    start();
    for (auto const& missing : {get(home() / "nothing").error(), put(home() / "no/where", "x").error(),
                                m_sftp->list((home() / "nothing").string(), 10, soon(), {}).error(),
                                m_sftp->stat((home() / "nothing").string(), soon(), {}).error()}) {
        EXPECT_EQ(missing.code, Errc::NotFound) << missing.message;
        EXPECT_NE(missing.message.find(home().string()), std::string::npos) << missing.message;
    }
}

TEST_F(SftpTest, AFileThatMayNotBeReadIsPermissionDenied)
{
    if (!test::Sshd::canBeOthers()) {
        GTEST_SKIP() << "needs root";
    }
    start({.ordinaryUser = true});
    test::writeFile(home() / "rootsOwn", "secret");
    ASSERT_EQ(::chmod((home() / "rootsOwn").c_str(), 0600), 0);
    auto const read = get(home() / "rootsOwn");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Errc::PermissionDenied);
}

TEST_F(SftpTest, TheLimitOfAReadHoldsForFilesThatHaveNoSizeToo)
{
    start();
    test::writeFile(home() / "ten", "0123456789");
    EXPECT_EQ(get(home() / "ten", 10).value(), "0123456789");
    auto const over = get(home() / "ten", 9);
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Errc::TooLarge);

    auto const version = get("/proc/version");
    ASSERT_TRUE(version) << version.error().message;
    EXPECT_EQ(*version, test::readFile("/proc/version"));
    ASSERT_EQ(statOf("/proc/version").st_size, 0);
    auto const cut = get("/proc/version", 5);
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code, Errc::TooLarge);
}

TEST_F(SftpTest, AFileThatGrowsWhileItIsReadIsReadToWhereItEndsThen)
{
    start();
    auto const first = randomBytes(3U << 20U, 1);
    auto const second = randomBytes(2U << 20U, 2);
    test::writeFile(home() / "log", first);
    auto grown = false;
    std::string got;
    auto const done = m_sftp->download((home() / "log").string(),
                                       [&](std::string_view piece) -> Result<void> {
                                           if (!std::exchange(grown, true))
                                               std::ofstream(home() / "log", std::ios::app | std::ios::binary)
                                                   << second;
                                           got += piece;
                                           return {};
                                       },
                                       soon(), {});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_GE(got.size(), first.size());
    EXPECT_TRUE((first + second).starts_with(got));
}

TEST_F(SftpTest, ASinkThatHasHadEnoughEndsTheDownloadAndTheChannelServesTheNextCall)
{
    start();
    test::writeFile(home() / "big", randomBytes(20U << 20U));
    auto const done = m_sftp->download(
        (home() / "big").string(),
        [](std::string_view) { return Result<void>(fail(Errc::Cancelled, "enough")); }, soon(), {});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, "enough");
    EXPECT_TRUE(put(home() / "next", "x"));
    EXPECT_EQ(get(home() / "next").value(), "x");
}

TEST_F(SftpTest, AStoppedUploadLeavesTheOldFileWholeAndNothingElse)
{
    start();
    test::writeFile(home() / "file", "old");
    std::stop_source stop;
    auto pieces = 0;
    auto const done = m_sftp->upload((home() / "file").string(),
                                     [&](char* to, std::size_t size) -> Result<std::size_t> {
                                         if (++pieces == 5)
                                             stop.request_stop();
                                         std::memset(to, 'x', size);
                                         return size;
                                     },
                                     soon(), stop.get_token());
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::Cancelled) << done.error().message;
    EXPECT_EQ(test::readFile(home() / "file"), "old");
    EXPECT_EQ(namesIn(home()), std::vector<std::string>{"file"});
}

TEST_F(SftpTest, AnUploadPastItsDeadlineLeavesTheOldFileWholeAndNothingElse)
{
    start();
    test::writeFile(home() / "file", "old");
    auto const deadline = Deadline::in(300ms);
    auto const done = m_sftp->upload((home() / "file").string(),
                                     [&](char* to, std::size_t size) -> Result<std::size_t> {
                                         std::memset(to, 'x', size);
                                         return size; // for ever
                                     },
                                     deadline, {});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::Timeout) << done.error().message;
    EXPECT_EQ(test::readFile(home() / "file"), "old");
    EXPECT_EQ(namesIn(home()), std::vector<std::string>{"file"});
}

TEST_F(SftpTest, AServerKilledInTheMiddleLeavesTheOldFileWhole)
{
    start();
    test::writeFile(home() / "file", "old");
    auto const done = uploadUntilKilled(home() / "file");
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::Unreachable) << done.error().message;
    EXPECT_EQ(test::readFile(home() / "file"), "old");
    EXPECT_FALSE(get(home() / "file"));
    auto left = namesIn(home());
    std::erase(left, "file");
    ASSERT_EQ(left.size(), 1U);
    EXPECT_NE(done.error().message.find("is as it was"), std::string::npos) << done.error().message;
    EXPECT_NE(done.error().message.find((home() / left[0]).string()), std::string::npos);

    m_connection = m_server->connect();
    m_sftp = *Sftp::open(m_connection, soon(), {});
    test::writeFile(home() / "big", randomBytes(40U << 20U));
    auto const down = m_sftp->download((home() / "big").string(),
                                       [&](std::string_view) -> Result<void> {
                                           m_server->killSessions();
                                           return {};
                                       },
                                       soon(), {});
    ASSERT_FALSE(down);
    EXPECT_EQ(down.error().code, Errc::Unreachable) << down.error().message;
}

TEST_F(SftpTest, AServerKilledWhileAFileIsWrittenInPlaceMayLeaveAPartAndThatIsSaid)
{
    if (!test::Sshd::canBeOthers()) {
        GTEST_SKIP() << "needs root";
    }
    start({.ordinaryUser = true});
    test::writeFile(home() / "shared", "old");
    ASSERT_EQ(::chmod((home() / "shared").c_str(), 0666), 0);
    auto const done = uploadUntilKilled(home() / "shared");
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::Unreachable);
    EXPECT_NE(done.error().message.find("may hold only a part"), std::string::npos) << done.error().message;
    EXPECT_EQ(namesIn(home()), std::vector<std::string>{"shared"});
}

TEST_F(SftpTest, AFullDiskIsNoSpaceAndLeavesTheOldFileWhole)
{
    if (!test::Sshd::canBeOthers()) {
        GTEST_SKIP() << "needs root";
    }
    test::TempDir const mounts;
    auto const at = mounts.path().string();
    start(startedBy("exec unshare -m sh -c 'mount -t tmpfs -o size=1m none " + at + " && echo old >" + at +
                    "/file && exec " + kServer + "'"));
    auto const file = mounts / "file";
    auto const done = put(file, randomBytes(3U << 20U));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::NoSpace) << done.error().message;
    EXPECT_NE(done.error().message.find(file.string()), std::string::npos);
    EXPECT_EQ(get(file).value(), "old\n");
    EXPECT_EQ(m_sftp->list(mounts.path().string(), 10, soon(), {}).value().entries.size(), 1U);
    EXPECT_TRUE(put(file, "small")); // the room was given back
}

TEST_F(SftpTest, AServerThatTakesNoMoreIsNoSpaceAndLeavesTheOldFileWhole)
{
    start(startedBy(std::string("ulimit -f 64; trap '' XFSZ; exec ") + kServer));
    test::writeFile(home() / "file", "old");
    auto const done = put(home() / "file", randomBytes(1U << 20U));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::NoSpace) << done.error().message;
    EXPECT_EQ(test::readFile(home() / "file"), "old");
    EXPECT_EQ(namesIn(home()), std::vector<std::string>{"file"});
}

TEST_F(SftpTest, AFolderOfAHundredThousandIsListedUpToTheLimit)
{
    start();
    fs::create_directory(home() / "many");
    for (int i = 0; i < 100'000; ++i)
        std::ofstream(home() / "many" / std::to_string(i));
    auto const listed = m_sftp->list((home() / "many").string(), 10'000, soon(), {});
    ASSERT_TRUE(listed) << listed.error().message;
    EXPECT_EQ(listed->entries.size(), 10'000U);
    EXPECT_TRUE(listed->truncated);
    auto const few = m_sftp->list((home() / "many").string(), 0, soon(), {});
    EXPECT_TRUE(few && few->entries.empty() && few->truncated);
}

TEST_F(SftpTest, AListingTellsEachEntryAsItIs)
{
    start();
    auto const folder = home() / "folder";
    fs::create_directory(folder);
    fs::create_directory(folder / "sub");
    test::writeFile(folder / "new\nline", "12345");
    test::writeFile(folder / "bad\xff utf8", "");
    fs::create_symlink("sub", folder / "toFolder");
    fs::create_symlink("new\nline", folder / "toFile");
    fs::create_symlink("nowhere", folder / "dangling");
    ASSERT_EQ(::chmod((folder / "new\nline").c_str(), 0604), 0);

    auto const listed = m_sftp->list(folder.string() + "/../folder", 100, soon(), {});
    ASSERT_TRUE(listed) << listed.error().message;
    EXPECT_EQ(listed->path, fs::canonical(folder));
    EXPECT_FALSE(listed->truncated);
    std::map<std::string, FileInfo> entries;
    for (auto const& entry : listed->entries)
        entries[entry.name] = entry;
    ASSERT_EQ(entries.size(), 6U);
    auto const& file = entries.at("new\nline");
    EXPECT_EQ(file.size, 5U);
    EXPECT_EQ(file.mode, 0604U);
    EXPECT_EQ(file.path, fs::canonical(folder) / "new\nline");
    EXPECT_EQ(file.modified, statOf(folder / "new\nline").st_mtime);
    EXPECT_EQ(file.uid, ::getuid());
    EXPECT_FALSE(file.owner.empty());
    EXPECT_FALSE(file.isDir || file.isLink);
    EXPECT_TRUE(entries.contains("bad\xff utf8"));
    EXPECT_TRUE(entries.at("sub").isDir);
    EXPECT_TRUE(entries.at("toFolder").isDir && entries.at("toFolder").isLink);
    EXPECT_EQ(entries.at("toFolder").linkTarget, "sub");
    EXPECT_EQ(entries.at("toFile").linkTarget, "new\nline");
    EXPECT_FALSE(entries.at("toFile").isDir);
    EXPECT_TRUE(entries.at("dangling").isLink);
    EXPECT_EQ(entries.at("dangling").linkTarget, "nowhere");

    auto const notOne = m_sftp->list((folder / "new\nline").string(), 10, soon(), {});
    ASSERT_FALSE(notOne);
    EXPECT_EQ(notOne.error().code, Errc::InvalidArgument) << notOne.error().message;
}

TEST_F(SftpTest, UploadsAndDownloadsAtOnceOnOneConnectionSurviveKeyExchanges)
{
    start({.config = {"RekeyLimit 256K"}});
    auto const bytes = randomBytes(3U << 20U, 7);
    test::writeFile(home() / "source", bytes);
    std::vector<std::future<bool>> all;
    for (int i = 0; i < 4; ++i)
        all.push_back(std::async(std::launch::async, [&, i] {
            auto const sftp = Sftp::open(m_connection, soon(), {});
            auto const path = home() / ("copy" + std::to_string(i));
            if (i % 2 == 0)
                return sftp && (*sftp)->write(path.string(), bytes, soon(), {}) &&
                       test::readFile(path) == bytes;
            auto const got = sftp ? (*sftp)->read((home() / "source").string(), 64U << 20U, soon(), {})
                                  : Result<std::string>(std::unexpected(sftp.error()));
            return got && *got == bytes;
        }));
    for (auto& each : all)
        EXPECT_TRUE(each.get());
    EXPECT_TRUE(m_connection->alive()) << m_connection->whyClosed();
}

TEST_F(SftpTest, CallsFromManyThreadsOnOneChannelTakeTurns)
{
    start();
    std::vector<std::future<bool>> all;
    for (int i = 0; i < 8; ++i)
        all.push_back(std::async(std::launch::async, [&, i] {
            auto const bytes = randomBytes(300'000, static_cast<unsigned>(i) + 1);
            auto const path = home() / std::to_string(i);
            return put(path, bytes) && get(path).value_or("") == bytes;
        }));
    for (auto& each : all)
        EXPECT_TRUE(each.get());
}

TEST_F(SftpTest, AServerWithoutSftpIsUnsupportedAndSaysWhatToDo)
{
    for (auto const& subsystem :
         std::vector<std::vector<std::string>>{{},
                                               {"Subsystem sftp /nonexistent/sftp-server"},
                                               {"Subsystem sftp echo This account is not available"},
                                               {"Subsystem sftp true"}}) {
        SCOPED_TRACE(subsystem.empty() ? "none" : subsystem.front());
        test::Sshd const server({.config = subsystem, .sftp = false});
        auto const connection = server.connect();
        auto const opened = Sftp::open(connection, soon(), {});
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, Errc::Unsupported) << opened.error().message;
        EXPECT_NE(opened.error().message.find("base64"), std::string::npos);
        auto const still = connection->exec({.command = "echo here", .onOutput = {}}, soon(), {});
        ASSERT_TRUE(still) << still.error().message;
        EXPECT_EQ(still->output.text, "here\n");
    }
}

TEST_F(SftpTest, ASilentServerIsATimeout)
{
    auto const seconds = test::uniqueSeconds();
    test::Sshd const server({.config = {"Subsystem sftp sleep " + seconds}, .sftp = false});
    auto const connection = server.connect();
    auto const opened = Sftp::open(connection, Deadline::in(300ms), {});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::Timeout);
    EXPECT_TRUE(opened.error().nothingWasSent);
    EXPECT_TRUE(connection->alive());
    // The server, which may have started it only now, leaves alone what it runs when the line ends.
    connection->close();
    EXPECT_TRUE(test::eventually([&] { return server.sessions().empty(); }));
    for (auto const pid : test::processesWith("sleep " + seconds))
        ::kill(pid, SIGKILL);
}

/// The protocol of draft-ietf-secsh-filexfer-02 as far as a listing goes, of a folder whose end never comes:
/// each answer names as many times "." as the first argument says.
constexpr auto kEndlessFolder = R"py(
import struct, sys
def text(t): return struct.pack(">I", len(t)) + t
def reply(b):
    sys.stdout.buffer.write(text(b))
    sys.stdout.buffer.flush()
def names(count, name): return struct.pack(">I", count) + count * (text(name) + text(b"") + bytes(4))
while len(head := sys.stdin.buffer.read(4)) == 4:
    m = sys.stdin.buffer.read(struct.unpack(">I", head)[0])
    kind, number = m[0], m[1:5]
    if kind == 1: reply(b"\2" + struct.pack(">I", 3))
    elif kind == 16: reply(b"\x68" + number + names(1, b"/d"))
    elif kind == 11: reply(b"\x66" + number + text(b"handle"))
    elif kind == 12: reply(b"\x68" + number + names(int(sys.argv[1]), b"."))
    else: reply(b"\x65" + number + struct.pack(">I", 0) + text(b"") + text(b""))
)py";

TEST_F(SftpTest, AServerThatNeverStopsAnsweringIsHeldToTheDeadlineAndTheStop)
{
    test::writeFile(m_scripts / "endless.py", kEndlessFolder);
    start(startedBy("exec python3 " + (m_scripts / "endless.py").string() + " 1"));
    auto const late = m_sftp->list("/d", 100, Deadline::in(1s), {});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Errc::Timeout) << late.error().message;

    std::stop_source stop;
    auto listing = std::async(std::launch::async,
                              [&] { return m_sftp->list("/d", 100, Deadline::in(60s), stop.get_token()); });
    stop.request_stop();
    auto const stopped = listing.get();
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code, Errc::Cancelled) << stopped.error().message;
}

TEST_F(SftpTest, AnAnswerWithoutANameIsNoPartOfAListing)
{
    test::writeFile(m_scripts / "endless.py", kEndlessFolder);
    start(startedBy("exec python3 " + (m_scripts / "endless.py").string() + " 0"));
    auto const listing = m_sftp->list("/d", 100, soon(), {});
    ASSERT_FALSE(listing);
    EXPECT_EQ(listing.error().code, Errc::Unsupported) << listing.error().message;
}

TEST_F(SftpTest, WithoutLimitsAndPosixRenameItStillWorks)
{
    start({.config = {std::string("Subsystem sftp ") + kServer + " -P posix-rename,limits,statvfs,fsync"},
           .sftp = false});
    auto const bytes = randomBytes(2U << 20U);
    ASSERT_TRUE(put(home() / "file", "old"));
    auto const done = put(home() / "file", bytes);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(test::readFile(home() / "file") == bytes);
    EXPECT_TRUE(get(home() / "file").value() == bytes);
    EXPECT_EQ(namesIn(home()), std::vector<std::string>{"file"});
}

} // namespace
} // namespace termalin::ssh
