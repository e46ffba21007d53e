// Uploads over a long way, which a second SFTP program on the same connection helps to carry.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <set>

#include "ssh/connection.h"
#include "ssh/sftp.h"
#include "tests/support/process.h"
#include "tests/support/relay.h"
#include "tests/support/sshd.h"
#include "tests/support/temp_dir.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

std::string randomBytes(std::size_t size)
{
    std::minstd_rand generator(11);
    std::string bytes(size, '\0');
    for (auto& byte : bytes)
        byte = static_cast<char>(generator() >> 7U);
    return bytes;
}

/// A server some milliseconds away. Each start of an SFTP program leaves a line in started(), and runs
/// `script` before, in which $n is the number of this start.
class FarSftp : public ::testing::Test {
protected:
    void start(std::string const& script, std::vector<std::string> config = {})
    {
        auto const program = m_dir / "sftp";
        test::writeFile(program, "#!/bin/sh\necho started >>" + started().string() + "\nn=$(wc -l <" +
                                     started().string() + ")\n" + script +
                                     "\nexec /usr/lib/openssh/sftp-server\n");
        fs::permissions(program, fs::perms(0755));
        config.push_back("Subsystem sftp " + program.string());
        m_server =
            std::make_unique<test::Sshd>(test::SshdOptions{.config = std::move(config), .sftp = false});
        m_relay = std::make_unique<test::Relay>(m_server->port());
        auto route = m_server->route();
        route.hops[0].port = m_relay->port();
        auto connection =
            Connection::open(route, m_server->contextAt(m_relay->port()), Deadline::in(60s), {});
        ASSERT_TRUE(connection) << connection.error().message;
        auto sftp = Sftp::open(*connection, Deadline::in(60s), {});
        ASSERT_TRUE(sftp) << sftp.error().message;
        m_sftp = *std::move(sftp);
        m_relay->beFar(6ms);
    }
    /// Gives no more than `first` bytes before `seen`.
    Result<Upload> put(std::string_view content, std::size_t first, std::function<bool()> const& seen)
    {
        std::size_t given = 0;
        return m_sftp->upload((home() / "file").string(),
                              [&](char* to, std::size_t size) -> Result<std::size_t> {
                                  if (given >= first && !test::eventually(seen))
                                      return fail(Errc::Internal, "what the test waits for has not come");
                                  auto const more = content.substr(given).copy(to, size);
                                  given += more;
                                  return more;
                              },
                              Deadline::in(120s), {});
    }
    /// How many processes have a file open that has such a name.
    static int holders(std::string const& name)
    {
        std::set<std::string> pids;
        std::error_code ignored;
        for (auto const& process : fs::directory_iterator("/proc", ignored))
            for (auto const& fd : fs::directory_iterator(process.path() / "fd", ignored))
                if (fs::read_symlink(fd.path(), ignored).string().find(name) != std::string::npos)
                    pids.insert(process.path().filename());
        return static_cast<int>(pids.size());
    }
    [[nodiscard]] fs::path started() const { return m_dir / "started"; }
    [[nodiscard]] fs::path home() const { return m_server->home(); }
    [[nodiscard]] long starts() const
    {
        auto const lines = test::readFile(started());
        return std::ranges::count(lines, '\n');
    }

    test::TempDir m_dir;
    std::unique_ptr<test::Sshd> m_server;
    std::unique_ptr<test::Relay> m_relay;
    std::unique_ptr<Sftp> m_sftp;
};

/// From here on a second program has been asked for: 8 MiB are confirmed when so much is wanted.
constexpr std::size_t kAsked = 13U << 20U;

TEST_F(FarSftp, ALargeUploadGoesByTwoProgramsAndArrivesWhole)
{
    start("");
    // Not a whole number of pieces, and a last one that is smaller than the secret; and one that ends with
    // the piece in whose place the secret is.
    for (std::size_t const size :
         {std::size_t{62} * 261'120 + 7, std::size_t{kAsked / 261'120 + 2} * 261'120}) {
        auto const before = starts();
        auto const bytes = randomBytes(size);
        auto const done = put(bytes, kAsked, [&] { return holders((home() / ".termalin-").string()) == 2; });
        ASSERT_TRUE(done) << done.error().message;
        EXPECT_EQ(done->size, bytes.size());
        EXPECT_TRUE(test::readFile(home() / "file") == bytes);
        EXPECT_EQ(starts(), before + (before == 0 ? 2 : 1));
        EXPECT_EQ(std::distance(fs::directory_iterator(home()), fs::directory_iterator()), 1);
    }
}

TEST_F(FarSftp, WhereTheServerGivesNoSecondChannelOneIsEnough)
{
    start("", {"MaxSessions 1"});
    auto const bytes = randomBytes(16U << 20U);
    auto const done = put(bytes, kAsked, [] { return true; });
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(test::readFile(home() / "file") == bytes);
    EXPECT_EQ(starts(), 1);
}

TEST_F(FarSftp, NothingIsWrittenToAFileThatWasPutWhereTheSecondProgramLooks)
{
    // Who may change the folder lets the name lead elsewhere before the second program opens it.
    auto const victim = (m_dir / "victim").string();
    test::writeFile(victim, std::string(20U << 20U, 'v'));
    start("if [ $n = 2 ]; then cd ~ && f=$(echo .termalin-*) && mv $f taken && ln -s " + victim + " $f; fi");
    auto const bytes = randomBytes(18U << 20U);
    // What the name leads to in the end is not ours to say.
    static_cast<void>(put(bytes, kAsked, [&] { return holders(victim) == 1; }));
    EXPECT_EQ(starts(), 2);
    EXPECT_TRUE(test::readFile(victim) == std::string(20U << 20U, 'v'));
    EXPECT_TRUE(test::readFile(home() / "taken") == bytes);
}

TEST_F(FarSftp, ASecondProgramThatEndsAtOnceIsDoneWithout)
{
    start("[ $n = 1 ] || exit 1");
    auto const bytes = randomBytes(16U << 20U);
    auto const done = put(bytes, kAsked, [&] { return starts() == 2; });
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(test::readFile(home() / "file") == bytes);
}

} // namespace
} // namespace termalin::ssh
