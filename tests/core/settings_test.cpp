#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "core/json.h"
#include "core/settings.h"
#include "core/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace termalin {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SettingsTest : public ::testing::Test {
protected:
    void write(std::string_view text) const
    {
        test::writeFile(file(), text);
        ::chmod(file().c_str(), 0600);
    }
    Settings load() const { return Settings::load(file()); }
    std::string text() const { return test::readFile(file()); }
    std::filesystem::path file() const { return m_dir / "settings.json"; }

    test::TempDir m_dir;
};

void expectStrictest(Settings const& settings, std::string_view why)
{
    EXPECT_FALSE(settings.agentsInTerminal) << why;
    EXPECT_EQ(settings.agentsMayRun, AgentsMayRun::No) << why;
    EXPECT_TRUE(settings.agentsStopped) << why;
    EXPECT_THAT(settings.problem, HasSubstr("settings.json")) << why;
}

TEST_F(SettingsTest, AMissingFileIsTheDefaultsAndNoProblem)
{
    auto const settings = load();
    EXPECT_FALSE(settings.agentsInTerminal);
    EXPECT_EQ(settings.agentsMayRun, AgentsMayRun::No);
    EXPECT_FALSE(settings.agentsStopped);
    EXPECT_EQ(settings.outputCap, 65'536U);
    EXPECT_THAT(settings.problem, IsEmpty());
}

TEST_F(SettingsTest, ReadsEveryKeyInEitherSpelling)
{
    for (
        auto const* const spelling :
        {R"({"agents": {"inTerminal": true, "mayRun": "ask", "stopped": true, "outputCap": 4096}})",
         R"({"agents.inTerminal": true, "agents.mayRun": "ask", "agents.stopped": true, "agents.outputCap": 4096})",
         "\xEF\xBB\xBF{\"agents\":{\"inTerminal\":true,\"mayRun\":\"ask\",\r\n\"stopped\":true,\"outputCap\":"
         "4096}}"}) {
        write(spelling);
        auto const settings = load();
        EXPECT_TRUE(settings.agentsInTerminal) << spelling;
        EXPECT_EQ(settings.agentsMayRun, AgentsMayRun::Ask);
        EXPECT_TRUE(settings.agentsStopped);
        EXPECT_EQ(settings.outputCap, 4096U);
        EXPECT_THAT(settings.problem, IsEmpty());
    }
}

TEST_F(SettingsTest, ADamagedFileStopsAgentsAndIsNeverOverwritten)
{
    for (std::string const text :
         {"", "{", "[]", "null", "{\"agents\": {\"inTerminal\": true}",
          "{\"agents\": {\"inTerminal\": true}} x", "{\"agents\": true}", "{\"agents\": []}",
          "{\"agents\": null, \"agents.inTerminal\": true}",
          "{\"agents\": {\"stopped\": true}, \"agents\": {\"inTerminal\": true}}",
          "{\"agents\": {\"stopped\": true}, \"agents.stopped\": false}", "// a comment\n{}", "\xff",
          "{\"version\": 2, \"agents\": {\"inTerminal\": true}}"}) {
        write(text);
        expectStrictest(load(), text);
        auto const changed = changeSetting(file(), "agents.inTerminal", "true");
        EXPECT_FALSE(changed) << text;
        EXPECT_EQ(changed ? Errc::Internal : changed.error().code, Errc::InvalidArgument) << text;
        EXPECT_EQ(this->text(), text);
    }
}

TEST_F(SettingsTest, AnUnknownValueIsOffAndAnUnreadableStopIsAStop)
{
    for (auto const* const wrong : {"1", "\"true\"", "null", "{}", "[true]"}) {
        write(std::string("{\"agents\": {\"inTerminal\": ") + wrong + ", \"mayRun\": \"yes\"}}");
        EXPECT_FALSE(load().agentsInTerminal) << wrong;
        EXPECT_EQ(load().agentsMayRun, AgentsMayRun::Yes) << wrong;
        EXPECT_FALSE(load().agentsStopped) << wrong;
        EXPECT_THAT(load().problem, HasSubstr("agents.inTerminal")) << wrong;

        write(std::string("{\"agents\": {\"stopped\": ") + wrong +
              ", \"inTerminal\": true, \"mayRun\": \"yes\"}}");
        expectStrictest(load(), wrong);
    }
    for (auto const* const wrong : {"\"maybe\"", "\"YES\"", "true", "1"}) {
        write(std::string("{\"agents\": {\"mayRun\": ") + wrong + "}}");
        EXPECT_EQ(load().agentsMayRun, AgentsMayRun::No) << wrong;
    }
    for (auto const* const wrong : {"4095", "1048577", "-1", "1e5", "\"4096\"", "18446744073709551615"}) {
        write(std::string("{\"agents\": {\"outputCap\": ") + wrong + "}}");
        EXPECT_EQ(load().outputCap, 65'536U) << wrong;
        EXPECT_FALSE(load().agentsStopped) << wrong;
        EXPECT_THAT(load().problem, HasSubstr("agents.outputCap")) << wrong;
    }
}

TEST_F(SettingsTest, AFileThatOthersCanWriteOrThatCannotBeReadStopsAgents)
{
    write(R"({"agents": {"inTerminal": true}})");
    ::chmod(file().c_str(), 0620);
    expectStrictest(load(), "writable by the group");
    EXPECT_FALSE(changeSetting(file(), "agents.stopped", "true"));
    std::filesystem::remove(file());
    std::filesystem::create_directory(file());
    expectStrictest(load(), "a folder");
}

TEST_F(SettingsTest, AChangeKeepsEveryOtherByte)
{
    struct Case {
        std::string before, key, value, after;
    };
    std::vector<Case> const cases{
        {"{\"x\" :[1,{\"agents\":2}], \"agents\" : {\"stopped\":false , \"other\": \"}\\\"\" }}\n\n",
         "agents.stopped", "true",
         "{\"x\" :[1,{\"agents\":2}], \"agents\" : {\"stopped\":true , \"other\": \"}\\\"\" }}\n\n"},
        {"{\"agents.mayRun\":\"no\"}", "agents.mayRun", "\"ask\"", "{\"agents.mayRun\":\"ask\"}"},
        {"{\n  \"agents\": {\n    \"stopped\": true\n  }\n}\n", "agents.mayRun", "\"yes\"",
         "{\n  \"agents\": {\n    \"stopped\": true,\n    \"mayRun\": \"yes\"\n  }\n}\n"},
        {"{\"agents\": {\"stopped\": true}}", "agents.inTerminal", "true",
         "{\"agents\": {\"stopped\": true, \"inTerminal\": true}}"},
        {"{\"agents\": {}}", "agents.inTerminal", "true", "{\"agents\": {\n    \"inTerminal\": true\n  }}"},
        {"{\r\n  \"theme\": \"dark\"\r\n}\r\n", "agents.stopped", "true",
         "{\r\n  \"theme\": \"dark\",\r\n  \"agents\": {\r\n    \"stopped\": true\r\n  }\r\n}\r\n"},
        {"{}", "agents.stopped", "true", "{\n  \"agents\": {\n    \"stopped\": true\n  }\n}"},
    };
    for (auto const& [before, key, value, after] : cases) {
        write(before);
        auto const changed = changeSetting(file(), key, value);
        ASSERT_TRUE(changed) << changed.error().message;
        EXPECT_EQ(text(), after);
        EXPECT_TRUE(parseJson(text()));
        EXPECT_THAT(load().problem, IsEmpty());
    }
}

TEST_F(SettingsTest, AFirstChangeMakesAPrivateFileThatReadsBack)
{
    auto const nested = m_dir / "new" / "settings.json";
    ASSERT_TRUE(changeSetting(nested, "agents.stopped", "true"));
    ASSERT_TRUE(changeSetting(nested, "agents.mayRun", "\"ask\""));
    EXPECT_TRUE(Settings::load(nested).agentsStopped);
    EXPECT_EQ(Settings::load(nested).agentsMayRun, AgentsMayRun::Ask);
    struct stat info{};
    ASSERT_EQ(::stat(nested.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777U, 0600U);
}

TEST_F(SettingsTest, AnUnknownKeyAndAWrongValueAreRefusedByName)
{
    for (auto const& [key, value] : {std::pair{"agents.everything", "true"},
                                     {"version", "1"},
                                     {"agents.mayRun", "\"always\""},
                                     {"agents.inTerminal", "\"true\""},
                                     {"agents.outputCap", "1"},
                                     {"agents.stopped", "true, \"x\": 1"}}) {
        auto const changed = changeSetting(file(), key, value);
        ASSERT_FALSE(changed) << key;
        EXPECT_EQ(changed.error().code, Errc::InvalidArgument);
        EXPECT_THAT(changed.error().message, HasSubstr(key));
    }
    EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(SettingsTest, ALinkedFileStaysALink)
{
    auto const real = m_dir / "real.json";
    test::writeFile(real, "{}");
    ::chmod(real.c_str(), 0600);
    std::filesystem::create_symlink("real.json", file());
    ASSERT_TRUE(changeSetting(file(), "agents.stopped", "true"));
    EXPECT_TRUE(std::filesystem::is_symlink(file()));
    EXPECT_TRUE(Settings::load(real).agentsStopped);
}

TEST_F(SettingsTest, TwoWritersAtOnceLoseNothing)
{
    for (int round = 0; round < 20; ++round) {
        write("{}");
        {
            std::jthread const first(
                [this] { EXPECT_TRUE(changeSetting(file(), "agents.stopped", "true")); });
            std::jthread const second(
                [this] { EXPECT_TRUE(changeSetting(file(), "agents.inTerminal", "true")); });
        }
        EXPECT_TRUE(load().agentsStopped);
        EXPECT_TRUE(load().agentsInTerminal);
    }
}

/// Stops agents in a process of its own that may write no file beyond `bytes`, as on a full disk.
bool stopsWithRoomFor(std::filesystem::path const& file, rlim_t bytes)
{
    auto const pid = ::fork();
    if (pid == 0) {
        ::signal(SIGXFSZ, SIG_IGN);
        rlimit const limit{bytes, bytes};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        ::_exit(stopAgents(file) ? 0 : 1);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status == 0;
}

TEST_F(SettingsTest, AFullDiskDoesNotKeepAgentsFromBeingStopped)
{
    constexpr std::string_view kOld = R"({"version": 1, "agents": {"mayRun": "yes", "outputCap": 8192}})";
    for (auto const room : std::initializer_list<rlim_t>{0, 1, 20, 60, 63, 200}) {
        std::filesystem::remove(file());
        EXPECT_TRUE(stopsWithRoomFor(file(), room)) << room;
        EXPECT_TRUE(load().agentsStopped) << "a first file, room for " << room;

        write(kOld);
        EXPECT_TRUE(stopsWithRoomFor(file(), room)) << room;
        EXPECT_TRUE(load().agentsStopped) << "room for " << room << ": " << text();
    }
    auto kept = file();
    kept += ".full-disk"; // where not one byte could be written
    EXPECT_EQ(test::readFile(kept), kOld);
}

TEST_F(SettingsTest, WhoKeepsTheLockDoesNotKeepAgentsFromBeingStopped)
{
    write("{}");
    auto lock = file();
    lock += ".lock";
    UniqueFd const held(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
    EXPECT_TRUE(stopAgents(file()));
    EXPECT_TRUE(load().agentsStopped);
}

} // namespace
} // namespace termalin
