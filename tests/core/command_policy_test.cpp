#include <algorithm>
#include <array>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#include "core/command_policy.h"
#include "core/output_buffer.h"
#include "core/unicode.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

std::vector<CommandRule> rulesOf(std::initializer_list<std::string_view> texts)
{
    std::vector<CommandRule> rules;
    for (auto const text : texts) {
        auto rule = CommandRule::parse(text);
        EXPECT_TRUE(rule) << text << ": " << rule.error().message;
        if (rule)
            rules.push_back(*std::move(rule));
    }
    return rules;
}

bool admits(std::string_view rule, std::string_view command)
{
    return admitCommand(command, rulesOf({rule}), LoginShell::Posix).has_value();
}

/// The words, or what the refusal says.
std::string refusalOf(std::string_view command)
{
    auto const words = splitCommand(command);
    if (words)
        return "accepted as " + quoteWords(*words);
    EXPECT_EQ(words.error().code, Errc::NotInAllowlist);
    return words.error().message;
}

// --- The lexer -------------------------------------------------------------------------------------------

TEST(SplitCommand, SplitsAtSpacesAndTabsAndTakesQuotesAway)
{
    EXPECT_THAT(splitCommand("ls -la /var/www").value(), ElementsAre("ls", "-la", "/var/www"));
    EXPECT_THAT(splitCommand(" \t ls\t\t-l ").value(), ElementsAre("ls", "-l"));
    EXPECT_THAT(splitCommand("ls 'a b' \"c d\" e'f g'h\"i j\"").value(),
                ElementsAre("ls", "a b", "c d", "ef ghi j"));
    EXPECT_THAT(splitCommand("ls '' \"\"").value(), ElementsAre("ls", "", ""));
    EXPECT_THAT(splitCommand(R"(echo "it's" 'say "hi"')").value(), ElementsAre("echo", "it's", "say \"hi\""));
    EXPECT_THAT(splitCommand("echo a~b a#b ''~x a=b a^b %1 a,b :+@").value(),
                ElementsAre("echo", "a~b", "a#b", "~x", "a=b", "a^b", "%1", "a,b", ":+@"));
    EXPECT_THAT(splitCommand("echo '$(x) `y` \\ * ? [a] {b} ~ # ; & | < > ( ) !'").value(),
                ElementsAre("echo", "$(x) `y` \\ * ? [a] {b} ~ # ; & | < > ( ) !"));
    EXPECT_THAT(splitCommand("echo \"; & | < > ( ) { } * ? [ ] ~ #\"").value(),
                ElementsAre("echo", "; & | < > ( ) { } * ? [ ] ~ #"));
    EXPECT_THAT(splitCommand("echo gr\xC3\xBC\xC3\x9F \xF0\x9F\x90\xA7").value(),
                ElementsAre("echo", "gr\xC3\xBC\xC3\x9F", "\xF0\x9F\x90\xA7"));
}

TEST(SplitCommand, RefusesEveryUnquotedCharacterThatAShellActsOnAndNamesItsByte)
{
    for (char const special : std::string_view(";&|<>(){}$`\\*?[]!")) {
        for (auto const& command : {std::string("ls a") + special + "b", std::string("ls ") + special,
                                    "ls 'x'" + std::string(1, special), std::string(1, special) + "ls"}) {
            auto const at = command.find(special) + 1;
            EXPECT_THAT(refusalOf(command),
                        HasSubstr(std::string(1, special) + " at byte " + std::to_string(at) + " "))
                << command;
        }
    }
}

TEST(SplitCommand, RefusesTildeAndHashOnlyWhereAWordBegins)
{
    EXPECT_THAT(refusalOf("ls ~"), HasSubstr("~ at byte 4 "));
    EXPECT_THAT(refusalOf("~/x"), HasSubstr("~ at byte 1 "));
    EXPECT_THAT(refusalOf("ls #x"), HasSubstr("# at byte 4 "));
    EXPECT_TRUE(splitCommand("git log HEAD~1 issue#4"));
}

TEST(SplitCommand, RefusesWhatExpandsInsideDoubleQuotes)
{
    for (char const special : std::string_view("$`\\!"))
        EXPECT_THAT(refusalOf("ls \"a" + std::string(1, special) + "b\""),
                    HasSubstr(std::string(1, special) + " at byte 6 "));
}

TEST(SplitCommand, RefusesQuotesThatAreNotClosed)
{
    EXPECT_THAT(refusalOf("ls 'abc"), HasSubstr("' at byte 4 is not closed"));
    EXPECT_THAT(refusalOf("ls a\"b c"), HasSubstr("\" at byte 5 is not closed"));
    EXPECT_THAT(refusalOf("ls 'a\"b"), HasSubstr("' at byte 4 is not closed"));
}

TEST(SplitCommand, RefusesAssignmentsAndReservedWordsWhereTheCommandIsNamed)
{
    for (auto const* const command :
         {"A=1 ls", "LD_PRELOAD=/tmp/x.so ls", "_a9+=b ls", "PATH= ls", "A='x y' ls", "A=1"})
        EXPECT_THAT(refusalOf(command), HasSubstr("sets a variable")) << command;
    EXPECT_TRUE(splitCommand("make A=1"));
    EXPECT_TRUE(splitCommand("1A=b ls")); // no name: a command
    EXPECT_TRUE(splitCommand("'A'=1 ls"));
    for (auto const* const word :
         {"if",     "then",   "else",    "elif",      "fi",     "do",       "done",   "case",
          "esac",   "while",  "until",   "for",       "in",     "function", "select", "time",
          "coproc", "repeat", "foreach", "nocorrect", "noglob", "-"}) {
        EXPECT_THAT(refusalOf(std::string(word) + " x"), HasSubstr("reserved word")) << word;
        EXPECT_TRUE(splitCommand(std::string("echo ") + word));
        EXPECT_TRUE(splitCommand("'" + std::string(word) + "'"));
    }
    EXPECT_THAT(refusalOf("[[ a"), HasSubstr("[ at byte 1 "));
}

TEST(SplitCommand, RefusesAnEmptyCommandAndAnEmptyName)
{
    for (auto const* const command : {"", " ", "\t  \t"})
        EXPECT_THAT(refusalOf(command), HasSubstr("it is empty"));
    EXPECT_THAT(refusalOf("'' x"), HasSubstr("name at byte 1 is empty"));
    EXPECT_THAT(refusalOf("  \"\""), HasSubstr("name at byte 3 is empty"));
}

TEST(SplitCommand, RefusesAJobAsTheCommandEvenInQuotesBecauseBashTakesItAsOne)
{
    EXPECT_THAT(test::run({"bash", "-c", "'%1' x"}).out, HasSubstr("fg: no job control"));
    for (auto const* const command : {"%1", "'%1' x", "\"%\"", "%+ &"})
        EXPECT_FALSE(splitCommand(command)) << command;
    EXPECT_THAT(refusalOf("'%1' x"), HasSubstr("%1 at byte 1 names a job"));
    EXPECT_TRUE(splitCommand("echo %1"));
}

TEST(SplitCommand, RefusesMoreThan8KiB)
{
    EXPECT_TRUE(splitCommand("ls " + std::string(8189, 'a')));
    EXPECT_THAT(refusalOf("ls " + std::string(8190, 'a')), HasSubstr("8193 bytes"));
}

TEST(SplitCommand, RefusesEveryControlAndInvisibleCharacterEvenInQuotesAndShowsItSafely)
{
    for (char32_t codePoint = 0; codePoint <= 0xE1000; ++codePoint) {
        if (!isInvisible(codePoint) || codePoint == U'\t' || (codePoint >= 0xD800 && codePoint <= 0xDFFF))
            continue;
        std::string bytes;
        appendUtf8(bytes, codePoint);
        for (auto const& command : {"ls a" + bytes + "b", "ls '" + bytes + "'"}) {
            auto const refusal = refusalOf(command);
            ASSERT_THAT(refusal, HasSubstr("at byte 5")) << visible(command);
            ASSERT_EQ(refusal.find(bytes), std::string::npos) << "the message must not repeat it as it is";
        }
    }
    EXPECT_THAT(refusalOf("ls\ntouch x"), HasSubstr("\\x0A at byte 3 is a line break"));
    EXPECT_THAT(refusalOf(std::string("ls \0 x", 6)), HasSubstr("\\x00 at byte 4"));
    EXPECT_THAT(splitCommand("ls '\t'").value(), ElementsAre("ls", "\t"));
}

TEST(SplitCommand, RefusesWhatIsNotUtf8)
{
    EXPECT_THAT(refusalOf("ls \xFF"), HasSubstr("\\xFF at byte 4 is not UTF-8"));
    EXPECT_THAT(refusalOf("ls '\xC3'"), HasSubstr("\\xC3 at byte 5 is not UTF-8"));
    EXPECT_THAT(refusalOf("ls \xED\xA0\x80"), HasSubstr("is not UTF-8"));
    EXPECT_THAT(refusalOf("ls \xC0\xBB"), HasSubstr("is not UTF-8")); // an overlong ;
}

// --- Rules -----------------------------------------------------------------------------------------------

TEST(CommandRule, ALiteralWordIsThatWordAndTheNumberOfWordsCounts)
{
    EXPECT_TRUE(admits("df -h", "df -h"));
    EXPECT_TRUE(admits("df -h", "'df' \"-h\""));
    EXPECT_FALSE(admits("df -h", "df"));
    EXPECT_FALSE(admits("df -h", "df -h /"));
    EXPECT_FALSE(admits("df -h", "df -H"));
    EXPECT_FALSE(admits("uptime", "UPTIME"));
    EXPECT_FALSE(admits("uptime", "/usr/bin/uptime"));
    EXPECT_TRUE(admits("cat ../notes", "cat ../notes")); // as the person wrote it
}

TEST(CommandRule, AStarIsOneWordOrAPartOfItAndNeverASlashAnEmptyWordOrAnOption)
{
    EXPECT_TRUE(admits("cat *", "cat a.txt"));
    EXPECT_TRUE(admits("cat *", "cat 'a b;c'"));
    EXPECT_FALSE(admits("cat *", "cat"));
    EXPECT_FALSE(admits("cat *", "cat a b"));
    EXPECT_FALSE(admits("cat *", "cat a/b"));
    EXPECT_FALSE(admits("cat *", "cat ''"));
    EXPECT_FALSE(admits("cat *", "cat -n"));
    EXPECT_FALSE(admits("cat *", "cat -"));
    EXPECT_FALSE(admits("cat *n", "cat -n"));
    EXPECT_TRUE(admits("cat -*", "cat -n"));
    EXPECT_TRUE(admits("cat -*", "cat -"));
    EXPECT_FALSE(admits("cat *", "cat .."));
    EXPECT_TRUE(admits("cat *", "cat ..."));
    EXPECT_TRUE(admits("cat *", "cat a..b"));
    EXPECT_TRUE(admits("cat /var/log/*", "cat /var/log/syslog"));
    EXPECT_TRUE(admits("cat /var/log/*", "cat /var/log/"));
    EXPECT_FALSE(admits("cat /var/log/*", "cat /var/log/apt/history.log"));
    EXPECT_FALSE(admits("cat /var/log/*", "cat /var/log/.."));
    EXPECT_FALSE(admits("cat /*/*/x", "cat /var/../x"));
    EXPECT_FALSE(admits("cat *x", "cat ../x"));
    EXPECT_TRUE(admits("cat /var/*/a*b*c", "cat /var/x/abbcbc"));
    EXPECT_FALSE(admits("cat /var/*/a*b*c", "cat /var/x/ab/c"));
}

TEST(CommandRule, AStarDoesNotAdmitAFolderAboveBehindAnOptionOrAHost)
{
    EXPECT_TRUE(admits("ls --ignore=*", "ls --ignore=x"));
    EXPECT_FALSE(admits("ls --ignore=*", "ls --ignore=.."));
    EXPECT_FALSE(admits("tar --file=*/x", "tar --file=../x"));
    EXPECT_FALSE(admits("scp *:*", "scp host:.."));
    EXPECT_FALSE(admits("ls *", "ls a,.."));
}

TEST(CommandRule, TwoStarsAtTheEndAreAnyFurtherWords)
{
    for (auto const* const command : {"ls", "ls -la", "ls /etc ../.. -- ''", "ls --color=always"})
        EXPECT_TRUE(admits("ls **", command)) << command;
    EXPECT_FALSE(admits("ls **", "lsof"));
    EXPECT_TRUE(admits("git log **", "git log"));
    EXPECT_FALSE(admits("git log **", "git"));
    EXPECT_FALSE(admits("git log **", "git -c x log"));
}

TEST(CommandRule, AQuotedStarIsAStar)
{
    EXPECT_TRUE(admits("grep 'a*b' *", "grep 'a*b' file"));
    EXPECT_FALSE(admits("grep 'a*b' *", "grep axb file"));
    EXPECT_TRUE(admits("ls '**'", "ls '**'"));
    EXPECT_FALSE(admits("ls '**'", "ls x y"));
    EXPECT_TRUE(admits("ls \"/var/my site\"/*", "ls '/var/my site/x'"));
    EXPECT_TRUE(admits("awk '{print $1}' *", "awk '{print $1}' file"));
}

TEST(CommandRule, ARuleThatCannotBeReadIsAnErrorAndNeverSkipped)
{
    for (auto const* const text : {"",
                                   "  ",
                                   "*",
                                   "**",
                                   "l* x",
                                   "'' x",
                                   "ls ** -l",
                                   "ls a**",
                                   "ls ***",
                                   "ls a**b",
                                   "ls; rm",
                                   "ls $x",
                                   "ls 'x",
                                   "A=1 ls",
                                   "if x",
                                   "ls ?",
                                   "ls [a]",
                                   "ls \n",
                                   "ls \xE2\x80\x8B",
                                   "~/bin/x",
                                   "ls \xFF"}) {
        auto const rule = CommandRule::parse(text);
        ASSERT_FALSE(rule) << text;
        EXPECT_EQ(rule.error().code, Errc::InvalidArgument);
        EXPECT_THAT(rule.error().message, HasSubstr("cannot be used"));
    }
}

TEST(CommandRule, ReadingACommandThatWasQuotedAgainGivesARuleForExactlyIt)
{
    for (auto const* const command : {"ls -la", "grep 'a*b' \"it's\"", "echo '**' 'a;b'"}) {
        auto const quoted = quoteWords(splitCommand(command).value());
        EXPECT_TRUE(admits(quoted, command)) << quoted;
    }
}

// --- What runs -------------------------------------------------------------------------------------------

TEST(AdmitCommand, RunsTheWordsQuotedAgainAndNamesTheRule)
{
    auto const admitted =
        admitCommand("journalctl  -u \"ssh\"", rulesOf({"uptime", "journalctl -u *"}), LoginShell::Posix);
    ASSERT_TRUE(admitted);
    EXPECT_EQ(admitted->quoted, "'journalctl' '-u' 'ssh'");
    EXPECT_EQ(admitted->rule, "journalctl -u *");
    EXPECT_THAT(admitted->words, ElementsAre("journalctl", "-u", "ssh"));
}

TEST(AdmitCommand, WithoutARuleThatFitsThePersonIsNamedAsTheOneWhoCanAddOne)
{
    for (auto const& rules : {rulesOf({}), rulesOf({"uptime"})}) {
        auto const refused = admitCommand("touch x", rules, LoginShell::Posix);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Errc::NotInAllowlist);
        EXPECT_THAT(refused.error().message, HasSubstr("'touch' 'x'"));
        EXPECT_THAT(refused.error().message, HasSubstr("--allow"));
    }
}

TEST(AdmitCommand, JudgesTheWordsOfACommandAndNotWhatTheyMention)
{
    auto const rules = rulesOf({"last *", "grep * /var/log/syslog", "awk *"});
    for (auto const* const command :
         {"last reboot", "grep 'rm -rf' /var/log/syslog", "grep \"sudo; shutdown | sh\" /var/log/syslog",
          "awk '{print $1; exit}'"})
        EXPECT_TRUE(admitCommand(command, rules, LoginShell::Posix)) << command;
}

TEST(AdmitCommand, OnAnotherShellOnlyPlainWordsRunAndTheyRunUnquoted)
{
    auto const rules = rulesOf({"ls **", "'a=b' **", "'if' **", "'begin'"});
    EXPECT_EQ(admitCommand("ls '-la' /var", rules, LoginShell::Other)->quoted, "ls -la /var");
    for (auto const* const command : {"ls 'a b'", "ls ''", "ls '~'", "ls a%b", "ls '*'", "ls gr\xC3\xBC",
                                      "ls 'a\tb'", "'a=b' x", "'if' x", "'begin'", "ls a^b"})
        EXPECT_FALSE(admitCommand(command, rules, LoginShell::Other)) << command;
}

// --- Real shells -----------------------------------------------------------------------------------------

struct AttackRow {
    std::string_view command; ///< C stands for the canary file
    bool bashRunsIt;
    bool dashRunsIt;
    std::string_view refusal; ///< Part of the message.
};

constexpr std::string_view kNoRule = "No rule of this host admits";
constexpr std::array kAttacks = {
    AttackRow{"ls; touch C", true, true, "; at byte 3 "},
    AttackRow{"ls && touch C", true, true, "& at byte 4 "},
    AttackRow{"ls /nowhere || touch C", true, true, "| at byte 13 "},
    AttackRow{"ls & touch C", true, true, "& at byte 4 "},
    AttackRow{"ls | tee C", true, true, "| at byte 4 "},
    AttackRow{"ls\ntouch C", true, true, "\\x0A at byte 3 "},
    AttackRow{"ls\r\ntouch C", true, true, "\\x0D at byte 3 "},
    AttackRow{"ls $(touch C)", true, true, "$ at byte 4 "},
    AttackRow{"ls `touch C`", true, true, "` at byte 4 "},
    AttackRow{"ls \"$(touch C)\"", true, true, "$ at byte 5 "},
    AttackRow{"ls \"`touch C`\"", true, true, "` at byte 5 "},
    AttackRow{"ls <(touch C)", true, false, "< at byte 4 "},
    AttackRow{"ls > C", true, true, "> at byte 4 "},
    AttackRow{"ls >> C", true, true, "> at byte 4 "},
    AttackRow{"ls 2> C", true, true, "> at byte 5 "},
    AttackRow{"ls >| C", true, true, "> at byte 4 "},
    AttackRow{"ls &> C", true, true, "& at byte 4 "},
    AttackRow{"ls <<<$(touch C)", true, false, "< at byte 4 "},
    AttackRow{"ls ${x:=$(touch C)}", true, true, "$ at byte 4 "},
    AttackRow{"ls $((a[$(touch C)]))", true, true, "$ at byte 4 "},
    AttackRow{"ls {a,$(touch C)}", true, true, "{ at byte 4 "},
    AttackRow{"ls \xC2\xA0; touch C", true, true, "\\u{00A0} at byte 4 "},
    AttackRow{"ls \xE2\x80\x8B; touch C", true, true, "\\u{200B} at byte 4 "},
    AttackRow{"LD_PRELOAD=/tmp/x.so ls", false, false, "LD_PRELOAD= at byte 1 "},
    AttackRow{"x=$(touch C) ls", true, true, "$ at byte 3 "},
    AttackRow{"(touch C)", true, true, "( at byte 1 "},
    AttackRow{"{ touch C; }", true, true, "{ at byte 1 "},
    AttackRow{"! touch C", true, true, "! at byte 1 "},
    AttackRow{"if touch C; then ls; fi", true, true, "; at byte "},
    AttackRow{"time touch C", true, true, "time at byte 1 "},
    AttackRow{"\"touch\" C", true, true, kNoRule},
    AttackRow{"t'ou'ch C", true, true, kNoRule},
    AttackRow{"to\\uch C", true, true, "\\ at byte 3 "},
    AttackRow{"\\touch C", true, true, "\\ at byte 1 "},
    AttackRow{"$'touch' C", true, false, "$ at byte 1 "},
    AttackRow{"env touch C", true, true, kNoRule},
    AttackRow{"command touch C", true, true, kNoRule},
    AttackRow{"exec touch C", true, true, kNoRule},
    AttackRow{"eval \"touch C\"", true, true, kNoRule},
    AttackRow{"sh -c \"touch C\"", true, true, kNoRule},
    AttackRow{"bash -c 'touch C'", true, true, kNoRule},
    AttackRow{"awk 'BEGIN{system(\"touch C\")}'", true, true, kNoRule},
    AttackRow{"sed -n '1e touch C' /etc/passwd", true, true, kNoRule},
    AttackRow{"sort -o C /etc/passwd", true, true, kNoRule},
    AttackRow{"uniq /etc/passwd C", true, true, kNoRule},
    AttackRow{"/bin/../bin/touch C", true, true, kNoRule},
    AttackRow{"cat /var/log/../../etc/shadow", false, false, kNoRule},
    AttackRow{"systemctl status --host=root@evil x", false, false, kNoRule},
    AttackRow{"df -h /", false, false, kNoRule},
    AttackRow{"UPTIME", false, false, kNoRule},
    AttackRow{"", false, false, "it is empty"},
};

constexpr std::array<std::string_view, 12> kHarmless = {
    "systemctl status \"x; touch C\"",
    "ls 'a$(touch C)'",
    "ls 'a`touch C`' \"; touch C\" '&& touch C'",
    "journalctl -u \"ssh\" --no-pager",
    "ls -la \"/var/www/my site\"",
    "tail -n 100 /var/log/syslog",
    "df -h",
    "uptime",
    "git log --oneline -5",
    "ls --\tx",
    "git log 'x' '$(touch C)' \"> C\"",
    "ls \"it's\" '\"; touch C; \"' \"'; touch C; '\"",
};

class AllowlistInRealShells : public ::testing::Test {
protected:
    /// Whether the canary is there after `shell -c command`; it is gone afterwards.
    bool createsCanary(std::string const& shell, std::string const& command)
    {
        test::run({"env", "-C", m_folder.path(), shell, "-c", command});
        std::error_code ignored;
        return std::filesystem::remove(canary(), ignored);
    }
    [[nodiscard]] std::string canary() const { return m_folder / "canary"; }
    [[nodiscard]] std::string withCanary(std::string_view row) const
    {
        std::string command;
        for (auto const byte : row)
            command += byte == 'C' ? "canary" : std::string(1, byte);
        return command;
    }

    test::TempDir m_folder;
    std::vector<CommandRule> m_rules =
        rulesOf({"ls **", "cat /var/log/*", "df -h", "systemctl status *", "journalctl -u * --no-pager",
                 "git log **", "tail -n * /var/log/*", "uptime"});
};

TEST_F(AllowlistInRealShells, EveryAttackWorksAsARawStringAndIsRefused)
{
    for (auto const& row : kAttacks) {
        auto const command =
            row.command.starts_with("UPTIME") ? std::string(row.command) : withCanary(row.command);
        EXPECT_EQ(createsCanary("bash", command), row.bashRunsIt) << row.command;
        EXPECT_EQ(createsCanary("dash", command), row.dashRunsIt) << row.command;
        auto const admitted = admitCommand(command, m_rules, LoginShell::Posix);
        ASSERT_FALSE(admitted) << row.command;
        EXPECT_EQ(admitted.error().code, Errc::NotInAllowlist);
        EXPECT_THAT(admitted.error().message, HasSubstr(std::string(row.refusal))) << row.command;
    }
    EXPECT_FALSE(admitCommand("ls " + std::string(9000, 'a'), m_rules, LoginShell::Posix));
}

TEST_F(AllowlistInRealShells, WhatIsAdmittedDoesNothingButWhatItsWordsSay)
{
    for (auto const row : kHarmless) {
        auto const command = withCanary(row);
        auto const admitted = admitCommand(command, m_rules, LoginShell::Posix);
        ASSERT_TRUE(admitted) << row << ": " << admitted.error().message;
        for (auto const* const shell : {"bash", "dash", "zsh", "mksh"})
            EXPECT_FALSE(createsCanary(shell, admitted->quoted)) << shell << ": " << admitted->quoted;
    }
}

TEST_F(AllowlistInRealShells, AGitOptionThatWritesAFileIsAdmittedByTheRuleAsWrittenAndTheLinterSaysSo)
{
    EXPECT_TRUE(admits("git log **", "git log --output=x"));
    auto const warnings = CommandRule::parse("git log **")->warnings();
    EXPECT_THAT(warnings, ::testing::Contains(HasSubstr("--output")));
}

TEST_F(AllowlistInRealShells, AQuotedNameIsNoReservedWordAndNoAlias)
{
    for (auto const* const shell : {"bash", "dash", "zsh", "mksh"})
        for (auto const* const name : {"if", "while", "{", "!", "time", "[[", "function", "case", "A=1", "~",
                                       "#x", "=ls", "noglob", "repeat"}) {
            auto const quoted = quoteWords(Words{name, "x"});
            auto const result =
                test::run({"env", "-C", m_folder.path(), shell, "-c", quoted + "\necho went on"});
            EXPECT_TRUE(result.out.ends_with("went on\n")) << shell << ' ' << quoted << ": " << result.out;
            EXPECT_THAT(result.out, AnyOf(HasSubstr("not found"), HasSubstr("No such file")))
                << shell << ' ' << quoted;
        }
}

// --- The property ----------------------------------------------------------------------------------------

/// Random commands: some that keep to the grammar, some that are anything, both full of what shells act on.
class CommandMaker {
public:
    explicit CommandMaker(unsigned seed) : m_random(seed) {}

    std::string next() { return upTo(3) == 0 ? anything() : wellFormed(); }

private:
    std::size_t upTo(std::size_t most)
    {
        return std::uniform_int_distribution<std::size_t>(0, most)(m_random);
    }

    static constexpr std::array<std::string_view, 59> kPieces = {"a",
                                                                 "b",
                                                                 "ls",
                                                                 "-",
                                                                 "--",
                                                                 "-n",
                                                                 "/",
                                                                 "..",
                                                                 ".",
                                                                 ",",
                                                                 ":",
                                                                 "@",
                                                                 "%",
                                                                 "^",
                                                                 "+",
                                                                 "=",
                                                                 "A=",
                                                                 "~",
                                                                 "#",
                                                                 "1",
                                                                 "\xC3\xBC",
                                                                 "\xE2\x82\xAC",
                                                                 "\xF0\x9F\x90\xA7",
                                                                 ";",
                                                                 "&",
                                                                 "|",
                                                                 "<",
                                                                 ">",
                                                                 "(",
                                                                 ")",
                                                                 "{",
                                                                 "}",
                                                                 "$",
                                                                 "$(x)",
                                                                 "`",
                                                                 "\\",
                                                                 "\\n",
                                                                 "\\0",
                                                                 "\\c",
                                                                 "*",
                                                                 "?",
                                                                 "[",
                                                                 "]",
                                                                 "!",
                                                                 "!!",
                                                                 "{a,b}",
                                                                 "${x}",
                                                                 "$'",
                                                                 "\\'",
                                                                 "'\\''",
                                                                 "%s",
                                                                 "\\\\",
                                                                 "if",
                                                                 "in",
                                                                 "do",
                                                                 "-e",
                                                                 "=ls",
                                                                 "~root",
                                                                 "\t"};

    std::string piece() { return std::string(kPieces.at(upTo(kPieces.size() - 1))); }
    std::string pieces(std::size_t most, std::string_view without)
    {
        std::string text;
        for (auto left = upTo(most); left > 0; --left) {
            auto const next = piece();
            if (next.find_first_of(without) == std::string::npos)
                text += next;
        }
        return text;
    }
    std::string wellFormed()
    {
        std::string command;
        for (auto words = 1 + upTo(4); words > 0; --words) {
            for (auto parts = 1 + upTo(2); parts > 0; --parts) {
                auto const kind = upTo(3);
                command += kind == 0   ? pieces(4, ";&|<>(){}$`\\*?[]!'\"\t")
                           : kind == 1 ? '"' + pieces(4, "$`\\!\"") + '"'
                           : kind == 2 ? '\'' + pieces(6, "'") + '\''
                                       : "\"'\"" + pieces(1, ";&|<>(){}$`\\*?[]!'\"\t");
            }
            command += upTo(4) == 0 ? "\t" : " ";
        }
        return command;
    }
    std::string anything()
    {
        std::string command;
        for (auto left = upTo(12); left > 0; --left) {
            auto const kind = upTo(5);
            command += kind == 0 ? " " : kind == 1 ? "'" : kind == 2 ? "\"" : piece();
        }
        return command;
    }

    std::mt19937 m_random;
};

struct ShellUnderTest {
    std::vector<std::string> program;
    std::string emit; ///< Defines emit(): each word, a NUL after it, and a \001 after the last.
};

std::vector<ShellUnderTest> shellsUnderTest()
{
    std::string const usual = "emit() { printf '%s\\0' \"$@\"; printf '\\001'; }\n";
    return {{{"bash"}, usual},
            {{"dash"}, usual},
            {{"busybox", "sh"}, usual},
            {{"zsh", "-f"}, usual},
            {{"zsh", "-f", "-o", "rcquotes", "-o", "extendedglob"}, usual},
            // Without a printf of its own, it would start a program for each.
            {{"mksh"},
             "emit() { for word; do print -nr -- \"$word\"; print -n '\\0000'; done; print -n '\\001'; }\n"}};
}

/// What each of `lines` gives to emit in that shell. Each line is one argument list.
std::vector<Words> wordsInShell(ShellUnderTest const& shell, std::vector<std::string> const& lines)
{
    std::vector<Words> seen;
    for (std::size_t at = 0; at < lines.size();) {
        auto script = shell.emit;
        while (at < lines.size() && script.size() < 80'000) // one argument can have 128 KiB
            script += "emit " + lines[at++] + '\n';
        auto arguments = shell.program;
        arguments.insert(arguments.end(), {"-c", script});
        auto const result = test::run(arguments);
        Words words;
        std::string word;
        for (auto const byte : result.out) {
            if (byte == '\001')
                seen.push_back(std::exchange(words, {}));
            else if (byte == '\0')
                words.push_back(std::exchange(word, {}));
            else
                word += byte;
        }
    }
    return seen;
}

TEST(AllowlistProperty, WhatTheLexerAcceptsReachesEveryShellAsExactlyTheseWords)
{
    CommandMaker maker(20240817);
    std::vector<Words> expected;
    std::vector<std::string> quoted;
    std::vector<std::string> raw;
    for (int i = 0; i < 20'000; ++i) {
        auto const command = maker.next();
        auto words = splitCommand(command);
        if (!words)
            continue;
        quoted.push_back(quoteWords(*words));
        raw.push_back(command);
        expected.push_back(*std::move(words));
    }
    ASSERT_GT(expected.size(), 5000U) << "too few random commands are accepted to say anything";
    for (auto const& shell : shellsUnderTest()) {
        auto const seen = wordsInShell(shell, quoted);
        ASSERT_EQ(seen.size(), expected.size()) << shell.program.front();
        for (std::size_t i = 0; i < expected.size(); ++i)
            ASSERT_EQ(seen[i], expected[i]) << shell.program.front() << " read " << quoted[i];
    }
    // The split itself is a POSIX shell's: dash, which extends the standard least, reads the same words.
    auto const seen = wordsInShell(shellsUnderTest()[1], raw);
    ASSERT_EQ(seen.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(seen[i], expected[i]) << "dash read " << raw[i];
}

TEST(AllowlistProperty, AnyWordsAtAllSurviveQuoting)
{
    std::mt19937 random(7); // NOLINT(cert-msc51-cpp): the same cases in every run
    std::uniform_int_distribution<int> byte(2, 255);
    std::uniform_int_distribution<int> length(0, 12);
    std::vector<Words> expected;
    std::vector<std::string> quoted;
    for (int i = 0; i < 1000; ++i) {
        Words words{"x"};
        for (int j = length(random); j > 0; --j) {
            std::string word;
            for (int k = length(random); k > 0; --k) {
                auto const drawn = static_cast<char>(byte(random));
                word += length(random) < 3 ? '\'' : drawn;
            }
            auto valid = toUtf8(word);
            std::erase_if(valid, [](char c) { return c == '\001' || c == '\x7F' || c == '\0'; });
            words.push_back(std::move(valid));
        }
        quoted.push_back(quoteWords(words));
        expected.push_back(std::move(words));
    }
    for (auto const& shell : shellsUnderTest())
        EXPECT_EQ(wordsInShell(shell, quoted), expected) << shell.program.front();
}

} // namespace
} // namespace termalin
