#include "mcp-stdio/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "mcp-stdio/cli/commands.h"
#include "mcp-stdio/cli/console.h"

namespace termalin::cli {

namespace {

/// The options of all commands, filled by the parser.
struct Arguments {
    HostOptions host;
    TrustOptions trust;
    ImportOptions import;
    DoctorOptions doctor;
    InstallOptions install;
    bool json = false;
    bool yes = false;
    int secretFd = -1;
    std::size_t count = 20;
    std::vector<std::string> words;
};

/// What the chosen command runs.
using Action = std::function<Result<int>(Context&)>;

/// The command line: its commands and options, and which action they choose.
class Parser {
public:
    Parser()
    {
        m_app.set_version_flag("--version", "termalin-mcp " TERMALIN_VERSION);
        m_app.require_subcommand(1);
        m_app.failure_message([](CLI::App const* app, CLI::Error const& error) {
            auto const unknown = app->remaining(true);
            auto const hint = error.get_name() == "RequiredError" && !unknown.empty()
                                  ? " ('" + visible(unknown.front()) + "' is not known here)"
                                  : std::string();
            return error.what() + hint + "\nRun with --help for more information.\n";
        });
        m_app.footer(
            "Without an argument it is an MCP server on stdin and stdout, for an agent's client to start; "
            "see: termalin-mcp install --help\n"
            "Exit codes: 0 done, 1 failed, 2 wrong use. Manual: man termalin-mcp");
        addHost();
        addAgents();
        addAudit();
        addVault();
        addRest();
    }

    CLI::App& app() { return m_app; }
    [[nodiscard]] Action const& action() const { return m_action; }

private:
    CLI::App* command(CLI::App* parent, std::string const& name, std::string const& what, Action action)
    {
        auto* const sub = parent->add_subcommand(name, what);
        sub->callback([this, action = std::move(action)] { m_action = action; });
        return sub;
    }

    CLI::App* group(std::string const& name, std::string const& what)
    {
        auto* const sub = m_app.add_subcommand(name, what);
        sub->require_subcommand(1);
        return sub;
    }

    /// An option whose empty value means something, which the parser's own vectors would drop.
    template <class T>
    static void optional(CLI::App* app, std::string const& name, std::optional<T>& target,
                         std::string const& what, std::string const& value)
    {
        auto const take = [&target](std::string const& text) {
            if constexpr (std::is_same_v<T, std::string>)
                target = text;
            else {
                if (!target)
                    target.emplace();
                target->push_back(text);
            }
        };
        auto* const option = app->add_option_function<std::string>(name, take, what)->type_name(value);
        option->trigger_on_parse();
        option->multi_option_policy(std::is_same_v<T, std::string> ? CLI::MultiOptionPolicy::Throw
                                                                   : CLI::MultiOptionPolicy::TakeLast);
    }

    void addHostOptions(CLI::App* app)
    {
        auto& host = m_args.host;
        optional(app, "--key", host.keys, "A private key file to log in with; may be given several times",
                 "FILE");
        optional(app, "--certificate", host.certificates, "A certificate for a key, beside KEY-cert.pub",
                 "FILE");
        optional(app, "--identities-only", host.identitiesOnly, "Offer only the named keys: yes or no",
                 "YES|NO");
        optional(app, "--jump", host.jumps, "A saved host to go through; several in the order of the way",
                 "NAME");
        optional(app, "--policy", host.policy, "What agents may do: blocked (default), allowlist or full",
                 "POLICY");
        optional(app, "--allow", host.rules,
                 "A command that agents may run under allowlist, such as 'systemctl status * --no-pager'",
                 "RULE");
        optional(app, "--allow-read", host.reads,
                 "Files that agents may read under allowlist, such as '/var/log/**'", "PATTERN");
        optional(app, "--agent", host.agent, "An ssh-agent's socket, or none", "SOCKET");
        optional(app, "--known-hosts", host.knownHosts, "Known keys, in place of your own known_hosts files",
                 "FILE");
        optional(app, "--host-key-alias", host.hostKeyAlias, "Look the server's key up under this name",
                 "NAME");
        optional(app, "--proxy-command", host.proxyCommand, "A program to connect through (%h %p %r %n)",
                 "COMMAND");
        optional(app, "--tag", host.tags, "A word to group hosts by; may be given several times", "TAG");
        optional(app, "--note", host.note, "A note that agents can read", "TEXT");
        auto* const password =
            app->add_flag("--ask-password", host.askPassword, "Ask for a password and keep it in the vault");
        app->add_flag("--ask-passphrase", host.askPassphrase,
                      "Ask for the key file's passphrase and keep it in the vault")
            ->excludes(password);
        addSecretFd(app, host.secretFd);
        app->add_flag("--yes", host.yes, "Agree to what gives agents more, without being asked");
        app->footer("In host set, an option that can be given several times replaces the whole list, and an "
                    "empty value clears it.");
    }

    static void addSecretFd(CLI::App* app, int& target)
    {
        app->add_option("--secret-fd", target,
                        "Read the secret from this descriptor, one line, in place of the terminal")
            ->type_name("N")
            ->check(CLI::Range(0, 1'000'000));
    }

    void addHost()
    {
        auto* const host = group("host", "Saved hosts, and what agents may do there");
        auto& options = m_args.host;
        auto* add =
            command(host, "add", "Save a host", [this](Context& c) { return hostAdd(c, m_args.host); });
        add->add_option("NAME", options.name, "Its name")->required();
        add->add_option_function<std::string>(
               "LOGIN", [&options](std::string const& text) { options.address = text; },
               "USER@ADDRESS[:PORT], an IPv6 address in brackets")
            ->required();
        addHostOptions(add);

        auto* set = command(host, "set", "Change a saved host",
                            [this](Context& c) { return hostSet(c, m_args.host); });
        set->add_option("NAME", options.name, "Its name or id")->required();
        set->add_option_function<std::string>(
            "LOGIN", [&options](std::string const& text) { options.address = text; },
            "A new USER@ADDRESS[:PORT]");
        optional(set, "--name", options.newName, "A new name", "NAME");
        addHostOptions(set);

        command(host, "list", "Show the saved hosts", [this](Context& c) {
            return hostList(c, m_args.json ? ListForm::Json : ListForm::Table);
        })->add_flag("--json", m_args.json, "As JSON");
        command(host, "remove", "Remove a saved host and its secrets",
                [this](Context& c) { return hostRemove(c, m_args.host.name); })
            ->add_option("NAME", options.name, "Its name or id")
            ->required();
        auto* check = command(host, "check", "Would an agent's command be admitted? Exit code 0 yes, 1 no",
                              [this](Context& c) { return hostCheck(c, m_args.host.name, joinedWords()); });
        check->add_option("NAME", options.name, "The host's name or id")->required();
        check
            ->add_option("COMMAND", m_args.words, "The command, after --; several words are joined by spaces")
            ->required();
        addHostNetwork(host);
    }

    void addHostNetwork(CLI::App* host)
    {
        auto* trust = command(host, "trust", "Trust the key that a server shows",
                              [this](Context& c) { return hostTrust(c, m_args.trust); });
        trust->add_option("NAME", m_args.trust.name, "The host's name or id")->required();
        trust
            ->add_option("--fingerprint", m_args.trust.fingerprint,
                         "Accept exactly this key, without a question")
            ->type_name("SHA256:...")
            // A script's empty variable must not turn "only this key" into "whatever key is shown".
            ->check([](std::string const& text) {
                return text.empty() ? std::string("is empty; give the fingerprint that ssh-keygen -l prints")
                                    : std::string();
            });
        trust->add_flag("--replace", m_args.trust.replace,
                        "The server's key has really changed: replace the old one");
        trust->add_flag("--yes", m_args.trust.yes, "Trust whatever key is shown, without being asked");
        command(host, "test", "Log in and say what was used",
                [this](Context& c) { return hostTest(c, m_args.host.name); })
            ->add_option("NAME", m_args.host.name, "The host's name or id")
            ->required();
        auto* import =
            command(host, "import", "Save the hosts of an OpenSSH configuration, blocked for agents",
                    [this](Context& c) { return hostImport(c, m_args.import); });
        import->add_option("FILE", m_args.import.file, "The configuration; without it ~/.ssh/config");
        import->add_flag("--dry-run", m_args.import.dryRun, "Only show what would be saved");
    }

    void addAgents()
    {
        auto* const agents = group("agents", "What agents may do in general");
        command(agents, "show", "Show the settings", agentsShow);
        command(agents, "stop", "Stop everything that agents do, at once", agentsStop);
        command(agents, "resume", "Let agents work again", [this](Context& c) {
            return agentsResume(c, m_args.yes);
        })->add_flag("--yes", m_args.yes, "Without being asked");
        auto* set = command(agents, "set", "Change a setting",
                            [this](Context& c) { return agentsSet(c, m_args.words, m_args.yes); });
        set->add_option("SETTING", m_args.words, "inTerminal=true|false, mayRun=no|ask|yes, outputCap=BYTES")
            ->required();
        set->add_flag("--yes", m_args.yes, "Agree to what gives agents more, without being asked");
    }

    void addAudit()
    {
        auto* const audit = group("audit", "The record of what agents and this command line did");
        command(audit, "list", "Show the newest lines",
                [this](Context& c) { return auditList(c, m_args.count); })
            ->add_option("-n,--lines", m_args.count, "How many (20)")
            ->type_name("N")
            ->check(CLI::Range(1, 1'000'000));
        command(audit, "verify", "Check that no line was changed or cut off", auditVerify);
    }

    void addVault()
    {
        auto* const vault = group("vault", "The encrypted store of passwords and passphrases");
        auto const add = [&](std::string const& name, std::string const& what, auto function) {
            addSecretFd(command(vault, name, what,
                                [this, function](Context& c) { return function(c, m_args.secretFd); }),
                        m_args.secretFd);
        };
        add("init", "Make the vault", vaultInit);
        add("unlock", "Open it for agents' logins, for 12 hours at most", vaultUnlock);
        command(vault, "lock", "Lock it", vaultLock);
        add("passwd", "Change the master password (with --secret-fd: the present one, then the new one)",
            vaultPasswd);
    }

    void addRest()
    {
        auto* looking =
            command(&m_app, "doctor", "Look for what keeps agents from working, and say what to do",
                    [this](Context& c) { return doctor(c, m_args.doctor); });
        looking->add_option("NAME", m_args.doctor.name, "Only this host");
        looking->add_flag("--offline", m_args.doctor.offline, "Connect to no host");
        auto* telling = command(&m_app, "install", "Tell an MCP client about this server",
                                [this](Context&) { return install(m_args.install); });
        telling->add_option("CLIENT", m_args.install.client, "claude, cursor, codex or vscode")->required();
        telling->add_flag("--print", m_args.install.print, "Only show what would be done");
    }

    [[nodiscard]] std::string joinedWords() const
    {
        std::string all;
        for (auto const& word : m_args.words)
            all += (all.empty() ? "" : " ") + word;
        return all;
    }

    Arguments m_args;
    Action m_action;
    CLI::App m_app{"The agent's SSH: lets AI agents work on your servers, within what you allow.",
                   "termalin-mcp"};
};

/// The arguments, last first as the parser takes them. "--option=" becomes two words: the parser would take
/// it for an option whose value is missing, and an empty value clears a list.
std::vector<std::string> reversedArguments(int argc, char** argv)
{
    std::vector<std::string> words(argv + 1, argv + argc);
    auto const end = std::ranges::find(words, "--");
    std::vector<std::string> split;
    for (auto word = words.begin(); word != words.end(); ++word) {
        auto const empty = word < end && word->starts_with("--") && word->find('=') == word->size() - 1;
        split.push_back(empty ? word->substr(0, word->size() - 1) : *word);
        if (empty)
            split.emplace_back();
    }
    std::ranges::reverse(split);
    return split;
}

Result<int> perform(Action const& action)
{
    TRY_LET(auto paths, Paths::find());
    Context context(std::move(paths));
    return action(context);
}

} // namespace

int run(int argc, char** argv)
{
    Parser parser;
    try {
        parser.app().parse(reversedArguments(argc, argv));
    } catch (CLI::ParseError const& error) {
        // --help and --version come this way too, with exit code 0.
        auto const code = parser.app().exit(error);
        auto const unknown = parser.app().remaining(true);
        if (code == 0 && !unknown.empty())
            remark(
                fmt::format("There is no '{}' here; the above is what there is.", visible(unknown.front())));
        return code == 0 && unknown.empty() ? kDone : kWrongUse;
    }
    auto const result = perform(parser.action());
    auto code = result ? *result : report(result.error());
    if (std::fflush(stdout) != 0) {
        remark("The answer could not be written to the output.");
        code = code == kDone ? kFailed : code;
    }
    return code;
}

} // namespace termalin::cli
