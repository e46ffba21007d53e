#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "core/command_policy.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> warningsOf(std::string_view text)
{
    auto const rule = CommandRule::parse(text);
    EXPECT_TRUE(rule) << text << ": " << rule.error().message;
    return rule ? rule->warnings() : std::vector<std::string>();
}

auto warnsOf(std::string const& part)
{
    return Contains(HasSubstr(part));
}

TEST(RuleLinter, IsSilentWhereARuleIsWhatItSeems)
{
    for (auto const* const rule :
         {"uptime", "df -h", "ls -la /var/www", "git log --oneline -5", "cat /var/log/*",
          "tail -n 100 /var/log/syslog", "systemctl status nginx", "sudo systemctl restart nginx",
          "journalctl -u ssh --no-pager", "systemctl status * --no-pager", "docker ps -a", "/usr/bin/free -m",
          "du -sh /srv/*"})
        EXPECT_THAT(warningsOf(rule), IsEmpty()) << rule;
}

TEST(RuleLinter, WarnsOfWhatBringsAFileUnderAReadablePath)
{
    std::vector<std::string> const reads{"/var/log/**", "/srv/*"};
    auto const together = [&](std::string_view text) {
        return CommandRule::parse(text)->warningsWith(reads);
    };
    for (auto const* const rule : {"ln **", "/bin/ln -s * /var/log/x", "cp * /srv/a", "mv **", "link * *",
                                   "sudo ln -s *", "rsync **", "busybox cp **"}) {
        EXPECT_THAT(together(rule), Contains(AllOf(HasSubstr("any file"), HasSubstr("/var/log/**, /srv/*"))))
            << rule;
        EXPECT_THAT(CommandRule::parse(rule)->warningsWith({}), IsEmpty()) << rule;
    }
    for (auto const* const rule :
         {"uptime", "cat **", "ln -s /etc/motd /srv/motd", "systemctl link *", "sudo uptime"})
        EXPECT_THAT(together(rule), IsEmpty()) << rule;
}

struct Case {
    char const* rule;
    char const* says;
};

TEST(RuleLinter, WarnsOfEveryProgramThatRunsWritesOrReadsThroughItsArguments)
{
    for (auto const& [rule, says] : {
             Case{"env *", "run any program"},
             Case{"sudo **", "as another user"},
             Case{"doas *", "as another user"},
             Case{"su *", "as another user"},
             Case{"xargs *", "run any program"},
             Case{"nohup *", "run any program"},
             Case{"timeout 5 *", "run any program"},
             Case{"nice *", "run any program"},
             Case{"stdbuf -oL *", "run any program"},
             Case{"watch *", "run any program"},
             Case{"find /var **", "-exec, -execdir"},
             Case{"find /var **", "-delete"},
             Case{"find /var **", "-fprint"},
             Case{"find /var -*", "-exec"},
             Case{"find /var -exec *", "-exec"},
             Case{"awk * /var/log/syslog", "any program text"},
             Case{"gawk **", "any program text"},
             Case{"sed -n * /etc/hosts", "s///e"},
             Case{"perl *", "program text"},
             Case{"python3.11 **", "program text"},
             Case{"/usr/bin/python3 *", "program text"},
             Case{"ruby *", "program text"},
             Case{"node *", "program text"},
             Case{"php *", "program text"},
             Case{"sh *", "any program text"},
             Case{"bash -c *", "any program text"},
             Case{"busybox *", "any program text"},
             Case{"tar **", "--checkpoint-action, --to-command, -I"},
             Case{"tar --to*", "--to-command"},
             Case{"git log **", "--output"},
             Case{"git *", "run any program"},
             Case{"git **", "-c, --config-env, --exec-path, -p"},
             Case{"git fetch *", "ext::"},
             Case{"git grep **", "--open-files-in-pager"},
             Case{"sort **", "-o, --output"},
             Case{"sort **", "--compress-program"},
             Case{"sort -o *", "-o"},
             Case{"sort --out*", "--output"},
             Case{"uniq /etc/passwd *", "replace"},
             Case{"tee *", "replace"},
             Case{"dd *", "replace"},
             Case{"cp * /srv/*", "replace"},
             Case{"mv **", "replace"},
             Case{"install **", "replace"},
             Case{"rsync **", "-e, --rsh"},
             Case{"ssh -o *", "ProxyCommand"},
             Case{"ssh **", "-o"},
             Case{"scp **", "-S, -o"},
             Case{"curl **", "-o, --output"},
             Case{"curl **", "-K, --config"},
             Case{"curl *", "file://"},
             Case{"wget **", "write files"},
             Case{"wget -O *", "write files"},
             Case{"vim *", "open a shell"},
             Case{"less /var/log/*", "open a shell"},
             Case{"more *", "open a shell"},
             Case{"man *", "open a shell"},
             Case{"journalctl -u *", "--no-pager"},
             Case{"systemctl status *", "--no-pager"},
             Case{"systemctl edit *", "change any service"},
             Case{"systemctl status **", "-H, --host"},
             Case{"systemctl *", "change any service"},
             Case{"docker run *", "as root on the host"},
             Case{"docker exec web *", "as root on the host"},
             Case{"kubectl exec **", "containers"},
             Case{"tcpdump **", "-z"},
             Case{"zip **", "-TT"},
             Case{"make *", "build file"},
             Case{"crontab *", "later"},
             Case{"at *", "later"},
             Case{"ip netns *", "run any program"},
             Case{"ip **", "run any program"},
             Case{"nsenter **", "run any program"},
             Case{"strace -o *", "run any program"},
             Case{"gdb *", "program text"},
             Case{"test -v *", "built into the shell"},
             Case{"'[' *", "built into the shell"},
             Case{"printf **", "built into the shell"},
             Case{"read *", "built into the shell"},
             Case{"unset *", "built into the shell"},
             Case{"declare *", "built into the shell"},
             Case{"let *", "built into the shell"},
             Case{"eval *", "the shell itself"},
             Case{". *", "the shell itself"},
             Case{"cat **", "every file that the account can read"},
             Case{"ls **", "every folder"},
             Case{"mysql -e *", "\\!"},
             Case{"psql **", "\\!"},
             Case{"rg **", "--pre"},
             Case{"date **", "set the clock"},
         })
        EXPECT_THAT(warningsOf(rule), warnsOf(says)) << rule;
}

TEST(RuleLinter, SaysWhatWildcardsLetIn)
{
    EXPECT_THAT(
        warningsOf("uptime **"),
        warnsOf("** admits any further words: every option of the program, and any path, with / and .."));
    EXPECT_THAT(warningsOf("foo --*"), warnsOf("--* admits every option that begins with --"));
    EXPECT_THAT(warningsOf("foo --file=*"), warnsOf("choose the value of --file"));
    EXPECT_THAT(warningsOf("foo -o * x"), warnsOf("-o * lets an agent choose what follows -o"));
    EXPECT_THAT(warningsOf("foo -- *"), IsEmpty());
    EXPECT_THAT(warningsOf("cat /tmp/*"), warnsOf("a link that another account put there"));
}

TEST(RuleLinter, WarnsOfAProgramThatCanBeAnother)
{
    EXPECT_THAT(warningsOf("./deploy"), warnsOf("is a relative path"));
    EXPECT_THAT(warningsOf("bin/deploy"), warnsOf("is a relative path"));
    EXPECT_THAT(warningsOf("/opt/x/../deploy"), warnsOf("goes through .."));
    EXPECT_THAT(warningsOf("/tmp/deploy"), warnsOf("every account can put a program"));
}

TEST(RuleLinter, DoesNotClaimWhatTheRuleDoesNotReach)
{
    EXPECT_THAT(warningsOf("git log **"), Not(warnsOf("--exec-path"))); // git's own options stand before
    EXPECT_THAT(warningsOf("find /var -name *"), Not(warnsOf("-exec")));
    EXPECT_THAT(warningsOf("systemctl status *"), Not(warnsOf("change any service")));
    EXPECT_THAT(warningsOf("sort /var/log/*"), Not(warnsOf("write any file")));
    EXPECT_THAT(warningsOf("docker ps **"), warnsOf("another daemon"));
}

// That the warnings are true, for those that surprise: run for real with the words quoted.
TEST(RuleLinter, TheSurprisingOnesAreTrue)
{
    struct Proof {
        char const* rule;
        std::vector<std::string> words;
        char const* shell;
    };
    std::vector<Proof> const proofs = {
        {"test -v *", {"test", "-v", "x[$(touch canary)]"}, "bash"},
        {"printf **", {"printf", "-v", "x[$(touch canary)]", "y"}, "bash"},
        {"read *", {"read", "x[$(touch canary)]"}, "bash"},
        {"declare *", {"declare", "x[$(touch canary)]=1"}, "bash"},
        {"let *", {"let", "x[$(touch canary)]=1"}, "bash"},
        {"find . **", {"find", ".", "-maxdepth", "0", "-exec", "touch", "canary", ";"}, "sh"},
        {"tar **",
         {"tar", "-cf", "/dev/null", "--checkpoint=1", "--checkpoint-action=exec=touch canary", "/etc/passwd",
          "/etc/group"},
         "sh"},
        {"sort **", {"sort", "-o", "canary", "/etc/passwd"}, "sh"},
        {"uniq /etc/passwd *", {"uniq", "/etc/passwd", "canary"}, "sh"},
        {"sed -n *", {"sed", "-n", "1w canary", "/etc/passwd"}, "sh"},
        {"awk *", {"awk", "BEGIN{system(\"touch canary\")}"}, "sh"},
        {"find . -fprint *", {"find", ".", "-maxdepth", "0", "-fprint", "canary"}, "sh"},
    };
    for (auto const& [rule, words, shell] : proofs) {
        test::TempDir const folder;
        auto const quoted = quoteWords(words);
        std::ignore = test::run({"env", "-C", folder.path(), shell, "-c", quoted}, {}, "1\n");
        EXPECT_TRUE(std::filesystem::exists(folder / "canary")) << quoted;
        EXPECT_THAT(warningsOf(rule), Not(IsEmpty())) << rule;
    }
}

} // namespace
} // namespace termalin
