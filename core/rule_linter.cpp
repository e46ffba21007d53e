#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/command_policy.h"
#include "core/wildcard.h"

namespace termalin {

namespace {

/// One thing that programs let their arguments do.
struct Hazard {
    /// Separated by spaces; "git/log" is the subcommand log of git.
    std::string_view programs;
    /// The options that do it, separated by spaces; empty: any argument can.
    std::string_view options;
    std::string_view letsIn; ///< Completes "... lets an agent ...".
};

// clang-format off
constexpr std::array kHazards = {
    // Programs that run what their arguments say.
    Hazard{"env nice ionice nohup timeout stdbuf setsid chrt taskset watch xargs parallel time chroot unshare nsenter "
           "setpriv flock script scriptreplay strace ltrace perf entr unbuffer numactl prlimit firejail bwrap proot faketime "
           "systemd-run systemd-inhibit dbus-run-session start-stop-daemon run-parts screen tmux byobu dtach expect "
           "cgexec setarch linux32 linux64 ld.so torsocks proxychains proxychains4 ssh-agent rlwrap", "",
           "run any program"},
    Hazard{"sudo doas su pkexec gosu su-exec sg newgrp runuser sudoedit machinectl", "",
           "run any program or shell as another user"},
    Hazard{"sh bash dash ash zsh ksh mksh fish csh tcsh rbash pwsh busybox toybox", "", "run any program text"},
    Hazard{"perl python ruby irb node nodejs deno bun php lua luajit tclsh wish guile erl elixir java jshell R Rscript octave "
           "gdb lldb ghci runghc scala groovy awk gawk mawk nawk original-awk bc dc m4 sqlite", "",
           "run any program text (such as awk's system() or perl -e) or a script file"},
    Hazard{"eval exec command builtin source . trap alias enable", "", "run any command of the shell itself"},
    Hazard{"test [ printf read unset declare typeset local export readonly let mapfile readarray getopts wait", "",
           "run a command although it is quoted: these are built into the shell, and bash, zsh or ksh evaluate an "
           "argument such as x[$(command)] as arithmetic"},
    Hazard{"find", "-exec -execdir -ok -okdir", "run any program"},
    Hazard{"find", "-delete", "delete files"},
    Hazard{"find", "-fprint -fprint0 -fprintf -fls", "write any file"},
    Hazard{"fd fdfind", "-x --exec -X --exec-batch", "run any program"},
    Hazard{"rg", "--pre --hostname-bin", "run any program"},
    Hazard{"sed gsed ed ex red", "", "read and write any file and run commands, by the script's e, r, w and s///e"},
    Hazard{"vi vim nvim view rvim gvim vimdiff emacs nano joe mcedit micro ne editor sensible-editor mc ranger nnn", "",
           "open a shell (such as :!command) and write files"},
    Hazard{"less more most pg man info zless zmore bat batcat pager sensible-pager perldoc pydoc", "",
           "open a shell (!command), an editor or any other file, where it has a terminal"},
    Hazard{"man", "-P --pager -H --html -C --config-file", "run any program"},
    Hazard{"tar bsdtar gtar", "--checkpoint-action --to-command -I --use-compress-program -F --info-script --new-volume-script "
           "--rsh-command --rmt-command", "run any program"},
    Hazard{"tar bsdtar gtar", "-x --extract --get -C --directory -P -f --file -c --create --remove-files -r -u --delete",
           "create, replace or remove files"},
    Hazard{"git", "-c --config-env --exec-path -p --paginate", "run any program, by a setting of git"},
    Hazard{"git", "-C --git-dir --work-tree", "use another repository, whose configuration names programs"},
    Hazard{"git/log git/show git/diff git/format-patch git/stash git/whatchanged git/diff-tree git/reflog git/shortlog git/range-diff",
           "--output", "write any file"},
    Hazard{"git/log git/show git/diff git/blame git/whatchanged git/grep git/reflog",
           "--ext-diff --textconv -O --open-files-in-pager", "run programs"},
    Hazard{"git/diff git/grep", "--no-index", "read any file"},
    Hazard{"git/clone git/fetch git/pull git/push git/ls-remote git/remote git/submodule git/archive", "",
           "run any program, by --upload-pack and its like or an ext:: address"},
    Hazard{"git/rebase git/bisect git/filter-branch git/submodule git/difftool git/mergetool git/config git/hook git/alias "
           "git/commit git/merge git/am git/cherry-pick git/worktree git/checkout git/apply git/daemon git/instaweb", "",
           "change the repository and run programs (hooks, --exec, run)"},
    Hazard{"hg svn bzr cvs", "", "run programs by a setting on the command line (such as --config)"},
    Hazard{"sort", "-o --output", "write any file"},
    Hazard{"sort", "--compress-program", "run any program"},
    Hazard{"sort wc du", "--files0-from", "read any file"},
    Hazard{"split csplit", "--filter", "run any program"},
    Hazard{"tcpdump", "-z", "run any program"},
    Hazard{"tcpdump tshark dumpcap", "-w -F -r", "write and read any file"},
    Hazard{"zip", "-TT -T --unzip-command --test", "run any program"},
    Hazard{"ssh slogin", "-o -F -E -S", "run any program here (ProxyCommand), and write files"},
    Hazard{"ssh slogin mosh telnet rlogin", "", "work on any other server that this one reaches"},
    Hazard{"scp sftp", "-S -o -F -D", "run any program"},
    Hazard{"rsync", "-e --rsh --rsync-path --files-from --daemon --config --log-file", "run any program or read any file"},
    Hazard{"ssh-keygen ssh-add", "", "load a library (-D, -s) and replace key files"},
    Hazard{"openssl", "", "read and write files, load an engine and open connections"},
    Hazard{"docker podman nerdctl crictl lxc lxc-attach kubectl oc k3s helm", "",
           "run programs in containers (run, exec), and by a mount as root on the host"},
    Hazard{"docker/ps docker/logs docker/images docker/inspect podman/ps podman/logs kubectl/get kubectl/logs kubectl/describe",
           "-H --host --kubeconfig -s --server", "talk to another daemon or cluster"},
    Hazard{"ip", "-b -batch -force", "run a file of commands"},
    Hazard{"ip/netns ip/vrf", "", "run any program"},
    Hazard{"make gmake ninja cmake ctest ant gradle mvn npm npx yarn pnpm cargo go pip pip3 pipx uv gem bundle rake tox just "
           "composer vagrant ansible ansible-playbook terraform gcc g++ cc c++ clang ld as ar", "",
           "run what a build file, package or option names, and write files"},
    Hazard{"crontab at batch anacron incrontab", "", "leave programs that run later"},
    Hazard{"apt apt-get aptitude dpkg rpm yum dnf zypper apk pacman snap flatpak brew opkg", "",
           "install and remove programs, and run some by an option (such as apt -o)"},
    Hazard{"mysql mariadb psql sqlite3 mongo mongosh redis-cli sqlplus cqlsh duckdb lftp ftp", "",
           "run commands and write files by the client's own commands (such as \\! or .shell)"},
    Hazard{"nmap", "", "run scripts, write files and scan networks"},
    Hazard{"nc ncat netcat socat", "", "open any connection, run programs and write files"},
    Hazard{"exiftool ffmpeg convert magick gs latex tex pdflatex", "", "run programs or read and write files by their arguments"},
    Hazard{"busctl dbus-send gdbus qdbus", "", "call any service of the system"},
    Hazard{"nginx apachectl apache2 httpd sshd logrotate syslog-ng rsyslogd haproxy", "-c -f -g -C -D -t -s",
           "load another configuration, which can name programs and files"},

    // Programs that write, send or change.
    Hazard{"tee dd cp mv install ln link rm rmdir unlink shred truncate mkdir mkfifo mknod touch chmod chown chgrp chattr setfacl "
           "split csplit patch uniq cpio unzip unrar 7z 7za gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd zip rsync scp sftp sponge "
           "rename fallocate mktemp ctags", "", "create, replace or remove files"},
    Hazard{"curl", "-o --output -O --remote-name -D --dump-header -c --cookie-jar --trace --trace-ascii --stderr --libcurl "
           "--etag-save --hsts --alt-svc --output-dir", "write any file"},
    Hazard{"curl", "-K --config -T --upload-file -F --form -d --data -b --cookie --netrc-file -E --cert --key",
           "read any file and send it away"},
    Hazard{"curl wget aria2c http https xh links lynx w3m elinks", "",
           "send data to any address, use this server's place in the network, and (curl) read file:// addresses"},
    Hazard{"wget aria2c", "", "write files"},
    Hazard{"wget", "--use-askpass -e --execute --post-file --body-file -i --input-file --config",
           "run a program or read any file"},
    Hazard{"dig host nslookup drill", "-f -k", "read any file"},
    Hazard{"date", "-s --set", "set the clock"},
    Hazard{"date", "-f --file", "read any file"},
    Hazard{"hostname domainname timedatectl hostnamectl localectl sysctl nmcli iptables ip6tables nft ufw firewall-cmd tc route ifconfig "
           "ethtool iw modprobe insmod rmmod mount umount swapon swapoff fdisk parted mkfs wipefs losetup cryptsetup lvm", "",
           "change the system"},
    Hazard{"dmesg", "-C --clear -c --read-clear -D --console-off -n --console-level", "change the kernel's log"},
    Hazard{"kill pkill killall skill snice renice", "", "stop or slow down any process of the account"},
    Hazard{"reboot shutdown halt poweroff init telinit", "", "stop the server"},
    Hazard{"passwd chpasswd useradd usermod userdel adduser deluser groupadd groupmod groupdel visudo vipw vigr chsh chfn", "",
           "change accounts"},
    Hazard{"mail mailx sendmail mutt msmtp wall write logger", "", "send messages, and files with them"},
    Hazard{"systemctl/edit systemctl/set-environment systemctl/import-environment systemctl/link systemctl/enable "
           "systemctl/start systemctl/restart systemctl/reload systemctl/stop systemctl/kill systemctl/mask systemctl/disable "
           "systemctl/isolate systemctl/set-property systemctl/revert", "", "change any service whose name fits"},
    Hazard{"systemctl journalctl loginctl hostnamectl timedatectl", "-H --host -M --machine", "reach another machine or container"},
    Hazard{"systemctl journalctl", "--root --image -D --directory --file", "read files of any folder"},
    Hazard{"journalctl", "--vacuum-size --vacuum-time --vacuum-files --rotate --flush --sync --relinquish-var --cursor-file "
           "--setup-keys", "delete logs or write files"},

    // Programs that read.
    Hazard{"grep egrep fgrep zgrep rg ack ag", "-f --file -r -R --recursive --include", "read any file or whole folders"},
    Hazard{"jq yq", "-f --from-file --rawfile --slurpfile --argfile -i --in-place -L", "read or write other files"},
    Hazard{"ps", "", "see the environment of processes (ps e), where secrets may be"},
    Hazard{"file ldd", "-f --files-from -m --magic-file -C --compile -z -Z", "read or write other files"},
    Hazard{"ldd", "", "run the program it looks at"},
};
// clang-format on

/// Programs that show a file's content, or the names below a folder, for any argument.
constexpr std::string_view kReaders = " cat head tail tac nl zcat bzcat xzcat od hexdump xxd strings base32 "
                                      "base64 cut column paste join comm fold fmt rev "
                                      "wc diff cmp sdiff grep egrep fgrep zgrep rg md5sum sha1sum sha256sum "
                                      "sha512sum cksum b2sum sort uniq jq yq getfacl ";
constexpr std::string_view kListers =
    " ls dir vdir tree du find stat lsof fuser locate readlink realpath namei ";

std::vector<std::string_view> wordsOf(std::string_view list)
{
    std::vector<std::string_view> words;
    while (!list.empty()) {
        auto const end = std::min(list.find(' '), list.size());
        if (end > 0)
            words.push_back(list.substr(0, end));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return words;
}

bool isIn(std::string_view list, std::string_view word)
{
    return list.contains(fmt::format(" {} ", word));
}

/// As the person wrote it.
std::string shown(std::string pattern)
{
    std::ranges::replace(pattern, kAnyRun, '*');
    return pattern;
}

/// "python3" of "/usr/bin/python3.11", then "python".
std::vector<std::string_view> namesOf(std::string_view program)
{
    program.remove_prefix(program.rfind('/') + 1); // npos + 1 is 0
    std::vector<std::string_view> names{program};
    auto const letters = program.find_last_not_of("0123456789.-");
    if (letters != std::string_view::npos && letters + 1 < program.size())
        names.push_back(program.substr(0, letters + 1));
    return names;
}

/// A rule, as the linter looks at it.
class Linter {
public:
    Linter(std::vector<std::string> const& patterns, bool rest)
        : m_patterns(patterns), m_rest(rest), m_names(namesOf(patterns.front()))
    {
    }

    std::vector<std::string> run()
    {
        lintProgram();
        if (m_rest || std::ranges::any_of(m_patterns, &Linter::isWild)) {
            for (auto const& hazard : kHazards)
                lintHazard(hazard);
            lintReading();
            lintOptions();
            lintPager();
        }
        return std::move(m_warnings);
    }

    /// A file that an agent may not read can come to have a name that it may.
    std::vector<std::string> runWith(std::span<std::string const> reads)
    {
        constexpr std::string_view kPlacing = " ln link cp mv install rsync dd tar cpio ";
        constexpr std::string_view kWrappers = " sudo doas busybox toybox env nice nohup ";
        auto const wrapped = isIn(kWrappers, program()) && m_patterns.size() > 1;
        auto const name = wrapped ? namesOf(m_patterns[1]).front() : program();
        if (!reads.empty() && isIn(kPlacing, name) &&
            (m_rest || std::ranges::any_of(m_patterns, &Linter::isWild)))
            warn(fmt::format(
                "{} lets an agent bring any file under a readable path ({}), by a link or a copy, and "
                "read it there.",
                name, fmt::join(reads, ", ")));
        return std::move(m_warnings);
    }

private:
    static bool isWild(std::string_view pattern) { return pattern.contains(kAnyRun); }
    [[nodiscard]] std::string_view program() const { return m_names.front(); }

    void warn(std::string sentence)
    {
        if (std::ranges::find(m_warnings, sentence) == m_warnings.end())
            m_warnings.push_back(std::move(sentence));
    }

    void lintProgram()
    {
        std::string_view const path = m_patterns.front();
        if (path.contains('/') && !path.starts_with('/'))
            warn(fmt::format(
                "{} is a relative path: which program that is depends on the folder in which the command "
                "runs.",
                path));
        if (fmt::format("/{}/", path).contains("/../"))
            warn(fmt::format("{} goes through .. : which program that is can change with a link.", path));
        for (auto const* const folder : {"/tmp/", "/var/tmp/", "/dev/shm/"})
            if (path.starts_with(folder))
                warn(fmt::format("{} is in a folder where every account can put a program.", path));
    }

    /// Whether the rule is about this program, or may be about this subcommand of it.
    [[nodiscard]] bool concerns(std::string_view entry) const
    {
        auto const slash = entry.find('/');
        if (std::ranges::find(m_names, entry.substr(0, slash)) == m_names.end())
            return false;
        if (slash == std::string_view::npos)
            return true;
        auto const subcommand = entry.substr(slash + 1);
        for (std::size_t i = 1; i < m_patterns.size(); ++i) {
            if (m_patterns[i].starts_with('-') && !isWild(m_patterns[i]))
                continue; // an option of the program itself
            return matchesWildcard(m_patterns[i], subcommand);
        }
        return m_rest;
    }

    /// Whether an agent can choose this option, or its value.
    [[nodiscard]] bool reaches(std::string_view option) const
    {
        if (m_rest && !isGlobalOnly(option))
            return true;
        for (std::size_t i = 1; i < m_patterns.size(); ++i) {
            std::string_view const pattern = m_patterns[i];
            if (pattern == option && ((i + 1 < m_patterns.size() && isWild(m_patterns[i + 1])) ||
                                      (m_rest && i + 1 == m_patterns.size())))
                return true;
            auto const star = pattern.find(kAnyRun);
            if (star == std::string_view::npos || !pattern.starts_with('-'))
                continue;
            auto const fixed = pattern.substr(0, star);
            if (option.starts_with(fixed) || fixed.starts_with(option))
                return true;
            if (option.size() == 2 && !fixed.starts_with("--")) // one letter of several after one dash
                return true;
        }
        return false;
    }

    /// git's own options come before the subcommand: `git log **` does not reach them.
    [[nodiscard]] bool isGlobalOnly(std::string_view option) const
    {
        constexpr std::string_view kGlobal =
            " -c --config-env --exec-path -p --paginate -C --git-dir --work-tree ";
        return program() == "git" && isIn(kGlobal, option) && m_patterns.size() > 1 &&
               !m_patterns[1].starts_with('-') && !isWild(m_patterns[1]);
    }

    void lintHazard(Hazard const& hazard)
    {
        auto const entries = wordsOf(hazard.programs);
        auto const entry = std::ranges::find_if(entries, [&](auto name) { return concerns(name); });
        if (entry == entries.end())
            return;
        auto name = std::string(*entry);
        std::ranges::replace(name, '/', ' ');
        if (hazard.options.empty())
            return warn(fmt::format("{} lets an agent {}.", name, hazard.letsIn));
        std::string reached;
        for (auto const option : wordsOf(hazard.options))
            if (reaches(option))
                reached += fmt::format("{}{}", reached.empty() ? "" : ", ", option);
        if (!reached.empty())
            warn(fmt::format("{} with {} lets an agent {}.", name, reached, hazard.letsIn));
    }

    void lintReading()
    {
        if (isIn(kReaders, program()) && m_rest)
            warn(fmt::format(
                "{} with ** reads every file that the account can read, passwords and keys included.",
                program()));
        if (isIn(kListers, program()) && m_rest)
            warn(
                fmt::format("{} with ** looks into every folder that the account can look into.", program()));
        for (std::string_view const pattern : m_patterns)
            for (auto const* const folder : {"/tmp/", "/var/tmp/", "/dev/shm/"})
                if (pattern.starts_with(folder) && isWild(pattern))
                    warn(fmt::format("{} admits a link that another account put there, to any file.",
                                     shown(std::string(pattern))));
    }

    void lintOptions()
    {
        if (m_rest)
            warn("** admits any further words: every option of the program, and any path, with / and .. in "
                 "it.");
        for (std::size_t i = 1; i < m_patterns.size(); ++i) {
            auto const& pattern = m_patterns[i];
            if (pattern.starts_with('-') && isWild(pattern)) {
                auto const option = pattern.substr(0, pattern.find(kAnyRun));
                if (option.contains('='))
                    warn(fmt::format("{} lets an agent choose the value of {}.", shown(pattern),
                                     option.substr(0, option.find('='))));
                else
                    warn(fmt::format("{} admits every option that begins with {}, and its value.",
                                     shown(pattern), option));
            }
            auto const& before = m_patterns[i - 1];
            if (i > 1 && pattern.starts_with(kAnyRun) && before.starts_with('-') && before != "-" &&
                before != "--" && !isWild(before))
                warn(fmt::format("{} {} lets an agent choose what follows {}.", before, shown(pattern),
                                 before));
        }
    }

    void lintPager()
    {
        constexpr std::string_view kPaged = " systemctl journalctl loginctl machinectl git hg ";
        auto const off = std::ranges::find(m_patterns, "--no-pager") != m_patterns.end();
        if (isIn(kPaged, program()) && !off)
            warn(fmt::format(
                "{} starts a pager where it has a terminal, and a pager opens a shell; add --no-pager.",
                program()));
    }

    std::vector<std::string> const& m_patterns;
    bool m_rest;
    std::vector<std::string_view> m_names;
    std::vector<std::string> m_warnings;
};

} // namespace

std::vector<std::string> CommandRule::warnings() const
{
    return Linter(m_patterns, m_rest).run();
}

std::vector<std::string> CommandRule::warningsWith(std::span<std::string const> reads) const
{
    return Linter(m_patterns, m_rest).runWith(reads);
}

} // namespace termalin
