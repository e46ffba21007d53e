#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <sys/stat.h>

#include "core/audit.h"
#include "core/json.h"
#include "core/sqlite.h"
#include "core/store.h"
#include "tests/core/child.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin {
namespace {

using test::Child;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kNever = std::int64_t{1} << 40U;

std::vector<std::string> linesOf(std::filesystem::path const& file)
{
    std::vector<std::string> lines;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    return lines;
}

void writeLines(std::filesystem::path const& file, std::vector<std::string> const& lines)
{
    std::string text;
    for (auto const& line : lines)
        text += line + "\n";
    test::writeFile(file, text);
}

AuditCall call(std::string subject = "uptime")
{
    AuditCall call;
    call.client = "test client 1.0";
    call.tool = "ssh_exec";
    call.host = "web";
    call.subject = std::move(subject);
    call.decision = "allowed";
    call.because = "full";
    return call;
}

class AuditTest : public ::testing::Test {
protected:
    void SetUp() override { m_store = Store::open(m_dir / "termalin.db").value(); }

    std::filesystem::path file() const { return m_dir / "audit/audit.jsonl"; }
    std::unique_ptr<Audit> open(std::int64_t rotateAt = kNever) const
    {
        auto audit = Audit::open(file(), *m_store, rotateAt);
        EXPECT_TRUE(audit) << audit.error().message;
        return audit ? *std::move(audit) : nullptr;
    }
    /// So many calls, one line each, and the head in the store.
    void write(int count, std::int64_t rotateAt = kNever) const
    {
        auto const audit = open(rotateAt);
        for (int i = 0; i < count; ++i)
            ASSERT_TRUE(audit->begin(call("command " + std::to_string(i))));
    }
    AuditVerdict verify() const
    {
        auto const verdict = verifyAudit(file(), *m_store);
        EXPECT_TRUE(verdict) << verdict.error().message;
        return verdict.value_or(AuditVerdict{});
    }
    std::vector<std::filesystem::path> rotated() const
    {
        std::vector<std::filesystem::path> found;
        for (auto const& entry : std::filesystem::directory_iterator(m_dir / "audit"))
            if (entry.path().filename().string().starts_with("audit-"))
                found.push_back(entry.path());
        std::ranges::sort(found);
        return found;
    }

    test::TempDir m_dir;
    std::unique_ptr<Store> m_store;
};

TEST_F(AuditTest, WhoKeepsTheStoreFromBeingWrittenDelaysNobodyWhoReadsIt)
{
    auto const audit = open();
    auto other = sqlite::Database::open(m_dir / "termalin.db").value();
    auto longest = std::chrono::steady_clock::duration::zero();
    {
        auto const held = sqlite::Transaction::begin(other, sqlite::Transaction::Kind::Write).value();
        ASSERT_TRUE(audit->begin(call("anything")));
        auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
        while (std::chrono::steady_clock::now() < end) { // meanwhile the syncer's time comes
            auto const before = std::chrono::steady_clock::now();
            ASSERT_TRUE(m_store->version());
            longest = std::max(longest, std::chrono::steady_clock::now() - before);
        }
    }
    EXPECT_LT(longest, std::chrono::seconds(1));
    audit->sync();
    EXPECT_TRUE(verify().intact);
}

TEST_F(AuditTest, ALineIsInTheFileWhenBeginReturnsAndSaysWhoDidWhat)
{
    auto const audit = open();
    auto full = call("ls -l");
    full.clientProgram = "/usr/bin/client";
    auto const number = audit->begin(full);
    ASSERT_TRUE(number);
    auto const lines = linesOf(file());
    ASSERT_EQ(lines.size(), 1U);
    auto const json = parseJson(lines[0]).value();
    EXPECT_EQ(json["n"], *number);
    EXPECT_EQ(json["kind"], "begin");
    EXPECT_EQ(json["client"], "test client 1.0");
    EXPECT_EQ(json["clientProgram"], "/usr/bin/client");
    EXPECT_EQ(json["tool"], "ssh_exec");
    EXPECT_EQ(json["host"], "web");
    EXPECT_EQ(json["subject"], "ls -l");
    EXPECT_EQ(json["decision"], "allowed");
    EXPECT_EQ(json["because"], "full");
    EXPECT_THAT(json["time"].get<std::string>(), ::testing::MatchesRegex("....-..-..T..:..:..\\....Z"));

    AuditOutcome outcome;
    outcome.exitCode = 3;
    outcome.bytes = 17;
    outcome.milliseconds = 42;
    outcome.note = "still running";
    ASSERT_TRUE(audit->end(*number, outcome));
    auto const end = parseJson(linesOf(file())[1]).value();
    EXPECT_EQ(end["kind"], "end");
    EXPECT_EQ(end["of"], *number);
    EXPECT_EQ(end["result"], "ok");
    EXPECT_EQ(end["exitCode"], 3);
    EXPECT_EQ(end["bytes"], 17);
    EXPECT_EQ(end["milliseconds"], 42);
    EXPECT_EQ(end["note"], "still running");
}

TEST_F(AuditTest, EachLineHasTheHashOfTheOneBeforeAsSha256sumSeesIt)
{
    write(3);
    auto const lines = linesOf(file());
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_EQ(parseJson(lines[0]).value()["prev"], std::string(64, '0'));
    for (std::size_t i = 0; i < lines.size(); ++i) {
        auto const hash = test::mustRun({"sha256sum"}, {}, lines[i]).substr(0, 64);
        if (i + 1 < lines.size())
            EXPECT_EQ(parseJson(lines[i + 1]).value()["prev"], hash);
        else
            EXPECT_EQ(m_store->value("audit.head").value(), "3 " + hash);
    }
}

TEST_F(AuditTest, TheFileAndItsFolderAreTheUsersAlone)
{
    write(1);
    struct stat info{};
    ASSERT_EQ(::stat(file().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777U, 0600U);
    ASSERT_EQ(::stat((m_dir / "audit").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777U, 0700U);
    ::chmod(file().c_str(), 0644);
    EXPECT_EQ(Audit::open(file(), *m_store).error().code, Errc::PermissionDenied);
}

TEST_F(AuditTest, SecretsAreReplacedByAMark)
{
    auto const audit = open();
    audit->hide(Secret(std::string_view("tr0ub4dor")));
    audit->hide(Secret(std::string_view("tr0ub4dor&3")));
    audit->hide(Secret(std::string_view("it's")));
    audit->hide(Secret(std::string_view("ab")));
    ASSERT_TRUE(audit->begin(call("mysql -ptr0ub4dor&3 -p'it'\\''s' cabin ab tr0ub4dor x")));
    AuditOutcome outcome;
    outcome.note = "the password tr0ub4dor was refused";
    ASSERT_TRUE(audit->end(1, outcome));
    auto const text = test::readFile(file());
    EXPECT_THAT(text, AllOf(Not(HasSubstr("tr0ub4dor")), Not(HasSubstr("it's")), Not(HasSubstr("it'"))));
    EXPECT_EQ(parseJson(linesOf(file())[0]).value()["subject"],
              "mysql -p[hidden] -p'[hidden]' cabin [hidden] [hidden] x");
}

TEST_F(AuditTest, ALongSubjectIsCutAndItsHashKept)
{
    auto const audit = open();
    std::string const subject = std::string(8191, 'x') + "\xC3\xA4" + std::string(5000, 'y');
    ASSERT_TRUE(audit->begin(call(subject)));
    auto const json = parseJson(linesOf(file())[0]).value();
    EXPECT_EQ(json["subject"], std::string(8191, 'x')) << "no half of a character";
    EXPECT_EQ(json["subjectBytes"], subject.size());
    EXPECT_EQ(json["subjectSha256"], test::mustRun({"sha256sum"}, {}, subject).substr(0, 64));
    auto flood = call();
    flood.client = std::string(1U << 20U, 'c');
    ASSERT_TRUE(audit->begin(flood));
    EXPECT_LT(linesOf(file())[1].size(), 4096U);
}

TEST_F(AuditTest, ControlAndBidirectionalCharactersAreShown)
{
    auto const audit = open();
    std::string const hostile = "a\x1b[2J\r\n\tb\xE2\x80\xAE"
                                "c\xC2\x9B"
                                "d\xF3\xA0\x81\x81"
                                "e\xff";
    ASSERT_TRUE(audit->begin(call(hostile)));
    auto const lines = linesOf(file());
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_THAT(lines[0], HasSubstr("a\\u001b[2J\\r\\n\\tb\\u202ec\\u009bd\\udb40\\udc41e"));
    EXPECT_EQ(parseJson(lines[0]).value()["subject"], "a\x1b[2J\r\n\tb\xE2\x80\xAE"
                                                      "c\xC2\x9B"
                                                      "d\xF3\xA0\x81\x81"
                                                      "e\xEF\xBF\xBD");
    EXPECT_EQ(lastAuditLines(file(), 1).value().at(0), lines[0]);
}

TEST_F(AuditTest, AWholeChainIsIntactAcrossRotationsAndOpenings)
{
    EXPECT_TRUE(verify().intact);
    write(10, 1000);
    write(10, 1000);
    EXPECT_GT(rotated().size(), 3U);
    auto const verdict = verify();
    EXPECT_TRUE(verdict.intact) << verdict.problem;
    EXPECT_EQ(verdict.lines, 20);
    auto const last = lastAuditLines(file(), 7).value();
    ASSERT_EQ(last.size(), 7U);
    for (std::size_t i = 0; i < last.size(); ++i)
        EXPECT_EQ(parseJson(last[i]).value()["n"], 14 + static_cast<int>(i));
    EXPECT_EQ(lastAuditLines(file(), 100).value().size(), 20U);
}

TEST_F(AuditTest, EveryKindOfTamperingShowsAndGoesOnShowing)
{
    struct Case {
        std::string what;
        std::function<void()> tamper;
    };
    auto const edit = [this](auto const& change) {
        auto lines = linesOf(file());
        change(lines);
        writeLines(file(), lines);
    };
    std::vector<Case> const cases{
        {"an edited line", [&] { edit([](auto& l) { l[3].replace(l[3].find("command"), 7, "innocent"); }); }},
        {"an edited last line",
         [&] { edit([](auto& l) { l.back().replace(l.back().find("command"), 7, "comment"); }); }},
        {"a removed line", [&] { edit([](auto& l) { l.erase(l.begin() + 4); }); }},
        {"a removed first line", [&] { edit([](auto& l) { l.erase(l.begin()); }); }},
        {"a doubled line", [&] { edit([](auto& l) { l.insert(l.begin() + 4, l[4]); }); }},
        {"a foreign line", [&] { edit([](auto& l) { l.insert(l.begin() + 4, "hello"); }); }},
        {"an empty line", [&] { edit([](auto& l) { l.insert(l.begin() + 4, ""); }); }},
        {"swapped lines", [&] { edit([](auto& l) { std::swap(l[3], l[4]); }); }},
        {"a cut end", [&] { edit([](auto& l) { l.resize(7); }); }},
        {"a torn end that was whole",
         [&] { std::filesystem::resize_file(file(), std::filesystem::file_size(file()) - 9); }},
        {"an empty file", [&] { std::filesystem::resize_file(file(), 0); }},
        {"a removed file", [&] { std::filesystem::remove(file()); }},
    };
    for (auto const& [what, tamper] : cases) {
        std::filesystem::remove_all(m_dir / "audit");
        ASSERT_TRUE(m_store->removeValue("audit.head"));
        write(10);
        ASSERT_TRUE(verify().intact);
        tamper();
        auto const verdict = verify();
        EXPECT_FALSE(verdict.intact) << what;
        EXPECT_FALSE(verdict.problem.empty()) << what;
        write(12); // what is written afterwards does not cover it up, nor is it lost
        EXPECT_FALSE(verify().intact) << what;
        EXPECT_THAT(test::readFile(file()), HasSubstr("command 11")) << what;
    }
}

TEST_F(AuditTest, TamperingWhileAWriterRunsShowsToo)
{
    auto const audit = open();
    for (int i = 0; i < 5; ++i)
        ASSERT_TRUE(audit->begin(call()));
    auto lines = linesOf(file());
    lines.resize(2); // in place, so that the writer's descriptor sees it
    writeLines(file(), lines);
    for (int i = 0; i < 5; ++i)
        ASSERT_TRUE(audit->begin(call()));
    EXPECT_FALSE(verify().intact);
}

TEST_F(AuditTest, ARemovedOrEditedRotatedFileShows)
{
    write(20, 1000);
    auto const files = rotated();
    ASSERT_GT(files.size(), 3U);
    for (auto const& file : files) {
        auto const whole = test::readFile(file);
        std::filesystem::remove(file);
        EXPECT_FALSE(verify().intact) << file;
        auto edited = whole;
        edited.replace(edited.find("command"), 7, "comment");
        test::writeFile(file, edited);
        EXPECT_FALSE(verify().intact) << file;
        test::writeFile(file, whole);
        EXPECT_TRUE(verify().intact) << file;
    }
}

TEST_F(AuditTest, ATornLastLineIsToleratedAndMarked)
{
    write(3);
    auto const whole = test::readFile(file());
    // What a crash leaves of the fourth line, which the head does not know yet; the last one lacks only its
    // newline.
    write(1);
    ASSERT_TRUE(m_store->setValue("audit.head",
                                  "3 " + test::mustRun({"sha256sum"}, {}, linesOf(file())[2]).substr(0, 64)));
    auto const fourth = test::readFile(file()).substr(whole.size());
    for (auto const length : {std::size_t{1}, std::size_t{20}, fourth.size() - 2, fourth.size() - 1}) {
        auto const head = m_store->value("audit.head").value().value();
        test::writeFile(file(), whole + fourth.substr(0, length));
        EXPECT_TRUE(verify().intact) << length;
        write(2);
        auto const verdict = verify();
        EXPECT_TRUE(verdict.intact) << length << ": " << verdict.problem;
        auto const marked = test::readFile(file()).contains("\"kind\":\"torn\"");
        EXPECT_EQ(marked, length != fourth.size() - 1);
        EXPECT_EQ(lastAuditLines(file(), 100)->size(), marked ? 7U : 6U);
        ASSERT_TRUE(m_store->setValue("audit.head", head));
    }
}

TEST_F(AuditTest, BytesThatAreNoLineAndAreNotMarkedAreTampering)
{
    write(3);
    test::writeFile(file(), test::readFile(file()) + "garbage\nmore\n");
    EXPECT_FALSE(verify().intact);
    write(1);
    EXPECT_FALSE(verify().intact);
    EXPECT_EQ(parseJson(lastAuditLines(file(), 4)->at(0)).value()["damaged"], "garbage");
}

TEST_F(AuditTest, SeveralProcessesShareOneChain)
{
    auto const db = (m_dir / "termalin.db").string();
    std::vector<std::unique_ptr<Child>> children;
    for (int i = 0; i < 3; ++i)
        children.push_back(std::make_unique<Child>(
            CHILD_PROGRAM,
            std::vector<std::string>{"audit", db, file(), "client " + std::to_string(i), "60", "20000"}));
    std::set<std::string> numbers;
    for (auto const& child : children) {
        for (auto const& number : child->restOfLines())
            EXPECT_TRUE(numbers.insert(number).second) << number;
        EXPECT_EQ(child->wait(), 0);
    }
    EXPECT_EQ(numbers.size(), 180U);
    EXPECT_GT(rotated().size(), 1U);
    auto const verdict = verify();
    EXPECT_TRUE(verdict.intact) << verdict.problem;
    EXPECT_EQ(verdict.lines, 360);
}

TEST_F(AuditTest, AKillAtAnyMomentLosesNoLineAndIsNotTampering)
{
    std::mt19937 random(7); // NOLINT(cert-msc51-cpp): the same moments in each run
    auto const db = (m_dir / "termalin.db").string();
    std::int64_t last = 0;
    for (int round = 0; round < 25; ++round) {
        Child child(CHILD_PROGRAM, {"audit", db, file(), "client", "1000000", "3000"});
        std::vector<std::string> confirmed;
        auto const lines = std::uniform_int_distribution(1, 40)(random);
        for (int i = 0; i < lines; ++i)
            confirmed.push_back(child.line().value());
        child.kill();
        for (auto const& line : child.restOfLines())
            confirmed.push_back(line);
        child.wait();
        last = std::stoll(confirmed.back());
        auto const verdict = verify();
        EXPECT_TRUE(verdict.intact) << verdict.problem;
        EXPECT_GE(verdict.lines, last);
    }
}

TEST_F(AuditTest, AFullDiskIsNoSpaceAndLeavesTheChainWhole)
{
    write(2);
    Child child(CHILD_PROGRAM, {"fill-audit", m_dir / "termalin.db", file(), "90000"});
    auto const lines = child.restOfLines();
    ASSERT_GT(lines.size(), 3U);
    EXPECT_THAT(lines.back(), StartsWith("error no_space"));
    EXPECT_EQ(child.wait(), 1);
    EXPECT_TRUE(verify().intact) << verify().problem;
    write(2);
    auto const verdict = verify();
    EXPECT_TRUE(verdict.intact) << verdict.problem;
    EXPECT_THAT(test::readFile(file()), Not(HasSubstr("torn")));
}

TEST_F(AuditTest, TheHeadFollowsWhileTheAuditStaysOpen)
{
    auto const audit = open();
    ASSERT_TRUE(audit->begin(call()));
    auto const version = m_store->version().value();
    for (auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
         !m_store->value("audit.head").value() && std::chrono::steady_clock::now() < deadline;)
        std::this_thread::yield();
    EXPECT_THAT(m_store->value("audit.head").value().value_or(""), StartsWith("1 "));
    EXPECT_NE(m_store->version().value(), version);
}

TEST_F(AuditTest, ALinkInPlaceOfTheFileIsNotFollowed)
{
    write(1);
    std::filesystem::rename(file(), m_dir / "elsewhere");
    std::filesystem::create_symlink(m_dir / "elsewhere", file());
    EXPECT_EQ(Audit::open(file(), *m_store).error().code, Errc::PermissionDenied);
}

} // namespace
} // namespace termalin
