#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/command_policy.h"
#include "mcp-stdio/cli/commands.h"
#include "mcp-stdio/cli/console.h"

namespace termalin::cli {

namespace {

/// Secrets that were read before anything is changed, so that a cancelled question leaves all as it was.
struct NewSecrets {
    struct Item {
        std::string name; ///< as the vault names it
        Secret value;     ///< empty: remove the saved one
    };
    std::vector<Item> items;
};

Result<Secret> readOne(std::string const& prompt, HostOptions const& options)
{
    return options.secretFd >= 0 ? readSecretFrom(options.secretFd) : askSecret(prompt);
}

/// `keep`: an empty secret means "remove the saved one"; else it is an error.
enum class OnEmpty : std::uint8_t { Refuse, Remove };

Result<NewSecrets> readSecrets(HostOptions const& options, Host const& host, OnEmpty onEmpty)
{
    if (options.secretFd >= 0 && !options.askPassword && !options.askPassphrase)
        return fail(Errc::InvalidArgument,
                    "--secret-fd does not say what the secret is. Add --ask-password or "
                    "--ask-passphrase. Nothing was changed.");
    if (options.askPassphrase && host.keyFiles.empty())
        return fail(Errc::InvalidArgument, "--ask-passphrase is for a key file, and this host has none. Add "
                                           "--key FILE. Nothing was changed.");
    NewSecrets secrets;
    auto const take = [&](std::string name, std::string const& prompt) -> Result<void> {
        TRY_LET(auto value, readOne(prompt, options));
        if (value.empty() && onEmpty == OnEmpty::Refuse)
            return fail(Errc::InvalidArgument, "The secret is empty. Nothing was changed.");
        secrets.items.push_back({std::move(name), std::move(value)});
        return {};
    };
    if (options.askPassword)
        TRY(take("password",
                 fmt::format("Password of {}@{}", visible(host.username), visible(host.hostname))));
    if (options.askPassphrase)
        for (auto const& file : host.keyFiles)
            TRY(take("passphrase:" + file, fmt::format("Passphrase of {}", visible(file))));
    return secrets;
}

Result<void> saveSecrets(Vault& vault, std::string const& hostId, NewSecrets const& secrets)
{
    for (auto const& item : secrets.items) {
        if (item.value.empty())
            TRY(vault.removeSecret(hostId, item.name));
        else
            TRY(vault.setSecret(hostId, item.name, item.value));
    }
    return {};
}

void warnOfMissingFiles(Host const& host)
{
    auto const look = [](std::string const& file, std::string_view what) {
        std::error_code ignored;
        if (!file.empty() && file.starts_with('/') && !std::filesystem::exists(file, ignored))
            note("Warning: there is no {} {}.", what, visible(file));
    };
    for (auto const& file : host.keyFiles)
        look(file, "key file");
    for (auto const& file : host.certificateFiles)
        look(file, "certificate file");
    look(host.agentSocket, "agent socket");
    for (auto const& file : host.knownHostsFiles)
        look(file, "known_hosts file");
}

/// Shows what would be shown with the question of a widening, where there is no such question.
void showCautions(WideningPlan const& plan)
{
    if (plan.effects.empty())
        for (auto const& caution : plan.cautions)
            note("Warning: {}", caution);
}

std::string described(Host const& host)
{
    return host.id == kLocalHostId
               ? fmt::format("{} (this computer): agents: {}", visible(host.name), toString(host.policy))
               : fmt::format("{} ({}@{}): agents: {}", visible(host.name), visible(host.username),
                             addressOf(host), toString(host.policy));
}

/// A new host is saved closed to agents and opened in a second step, after the widening is on record: at no
/// moment is there an open host that nobody was told of.
Result<Host> addClosed(Store& store, Host host)
{
    host.policy = AgentPolicy::Blocked;
    host.rules.clear();
    host.reads.clear();
    return store.addHost(host);
}

} // namespace

Result<int> hostAdd(Context& context, HostOptions const& options)
{
    if (!options.address)
        return fail(Errc::InvalidArgument, "Say where the host is: host add NAME USER@ADDRESS[:PORT]");
    Host wanted;
    wanted.name = options.name;
    TRY(applyOptions(options, context.paths().home, wanted));
    TRY_LET(auto* const store, context.store());
    TRY_LET(auto const all, store->hosts());
    if (std::ranges::any_of(all, [&](Host const& host) { return host.name == options.name; }))
        return fail(Errc::InvalidArgument,
                    fmt::format("There is a host '{}' already. Change it with: termalin-mcp host "
                                "set {} ...",
                                visible(options.name), asArgument(options.name)));
    WideningPlan plan{.command = "host add",
                      .host = wanted.name,
                      .effects = widenings(Host(), wanted),
                      .cautions = cautions(wanted, all),
                      .before = nullptr};
    // Asked first and recorded below: what is to be taken back needs the id that the store will choose.
    auto consent = Consent::YesOption;
    if (!plan.effects.empty()) {
        TRY_LET(consent, askToWiden(plan, options.yes));
    }
    showCautions(plan);
    warnOfMissingFiles(wanted);
    TRY_LET(auto const secrets, readSecrets(options, wanted, OnEmpty::Refuse));
    Vault* vault = nullptr;
    if (!secrets.items.empty()) {
        TRY_LET(vault, context.openVault());
    }
    TRY_LET(auto host, addClosed(*store, wanted));
    auto const finish = [&]() -> Result<void> {
        if (vault != nullptr)
            TRY(saveSecrets(*vault, host.id, secrets));
        if (plan.effects.empty())
            return {};
        plan.before = widenableFields(host);
        TRY_LET(auto recorded, RecordedWidening::record(context, plan, consent));
        host.policy = wanted.policy;
        host.rules = wanted.rules;
        host.reads = wanted.reads;
        auto updated = store->updateHost(host);
        if (!updated) {
            recorded.undo();
            return std::unexpected(std::move(updated).error());
        }
        return {};
    };
    if (auto done = finish(); !done) {
        static_cast<void>(store->removeHost(host.id)); // the first error is the one to tell
        return std::unexpected(std::move(done).error());
    }
    say("Added {}.", described(host));
    say("Next: termalin-mcp host trust {0}, then: termalin-mcp host test {0}", asArgument(host.name));
    return kDone;
}

Result<int> hostSet(Context& context, HostOptions const& options)
{
    TRY_LET(auto* const store, context.store());
    TRY_LET(auto const before, store->findHost(options.name));
    auto wanted = before;
    TRY(applyOptions(options, context.paths().home, wanted));
    TRY_LET(auto const all, store->hosts());
    WideningPlan const plan{.command = "host set",
                            .host = wanted.name,
                            .effects = widenings(before, wanted),
                            .cautions = cautions(wanted, all),
                            .before = widenableFields(before)};
    showCautions(plan);
    warnOfMissingFiles(wanted);
    TRY_LET(auto const secrets, readSecrets(options, wanted, OnEmpty::Remove));
    Vault* vault = nullptr;
    if (!secrets.items.empty()) {
        TRY_LET(vault, context.openVault());
    }
    TRY_LET(auto const host, widen(context, plan, options.yes, [&] { return store->updateHost(wanted); }));
    if (vault != nullptr)
        TRY(saveSecrets(*vault, host.id, secrets));
    say("Changed {}.", described(host));
    return kDone;
}

namespace {

Json toJson(Host const& host)
{
    Json json{{"id", host.id},
              {"name", host.name},
              {"hostname", host.hostname},
              {"port", host.port},
              {"username", host.username},
              {"authType", toString(host.authType)},
              {"policy", toString(host.policy)},
              {"tags", host.tags},
              {"keyFiles", host.keyFiles},
              {"jump", host.jump},
              {"rules", host.rules},
              {"reads", host.reads},
              {"identitiesOnly", host.identitiesOnly}};
    if (!host.certificateFiles.empty())
        json["certificateFiles"] = host.certificateFiles;
    if (!host.agentSocket.empty())
        json["agentSocket"] = host.agentSocket;
    if (!host.hostKeyAlias.empty())
        json["hostKeyAlias"] = host.hostKeyAlias;
    if (!host.notes.empty())
        json["notes"] = host.notes;
    if (!host.proxyCommand.empty())
        json["proxyCommand"] = host.proxyCommand;
    if (!host.knownHostsFiles.empty())
        json["knownHostsFiles"] = host.knownHostsFiles;
    if (host.addressFamily != AddressFamily::Any)
        json["addressFamily"] = toString(host.addressFamily);
    for (auto const& [name, value] : {std::pair("connectTimeout", host.connectTimeout),
                                      std::pair("serverAliveInterval", host.serverAliveInterval),
                                      std::pair("serverAliveCountMax", host.serverAliveCountMax)})
        if (value)
            json[name] = *value;
    return json;
}

/// How many columns a text takes: one a code point is right for what host names are made of.
std::size_t widthOf(std::string_view text)
{
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }));
}

void printTable(std::vector<std::vector<std::string>> const& rows)
{
    std::vector<std::size_t> widths(rows.front().size());
    for (auto const& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], widthOf(row[i]));
    for (auto const& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += row[i] + (i + 1 < row.size() ? std::string(widths[i] - widthOf(row[i]) + 2, ' ') : "");
        line.erase(line.find_last_not_of(' ') + 1);
        print(line + "\n");
    }
}

} // namespace

Result<int> hostList(Context& context, ListForm form)
{
    TRY_LET(auto* const store, context.store());
    TRY_LET(auto hosts, store->hosts());
    // This computer's own shell is no saved host; it shows once agents may use it.
    std::erase_if(hosts, [](Host const& host) {
        return host.id == kLocalHostId && host.policy == AgentPolicy::Blocked;
    });
    if (form == ListForm::Json) {
        auto list = Json::array();
        for (auto const& host : hosts)
            list.push_back(toJson(host));
        print(Json{{"hosts", list}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
        return kDone;
    }
    if (hosts.empty()) {
        say("No host is saved yet. Add one: termalin-mcp host add NAME USER@ADDRESS");
        return kDone;
    }
    std::vector<std::vector<std::string>> rows{{"NAME", "LOGIN", "AGENTS", "BY", "THROUGH", "TAGS"}};
    for (auto const& host : hosts)
        rows.push_back({visible(host.name),
                        host.id == kLocalHostId
                            ? std::string("this computer")
                            : fmt::format("{}@{}", visible(host.username), addressOf(host)),
                        std::string(toString(host.policy)), std::string(toString(host.authType)),
                        !host.proxyCommand.empty() && host.jump.empty()
                            ? std::string("proxy command")
                            : visible(fmt::format("{}", fmt::join(host.jump, " > "))),
                        visible(fmt::format("{}", fmt::join(host.tags, ", ")))});
    printTable(rows);
    return kDone;
}

Result<int> hostRemove(Context& context, std::string const& name)
{
    TRY_LET(auto* const store, context.store());
    TRY_LET(auto const host, store->findHost(name));
    if (host.id == kLocalHostId)
        return fail(Errc::InvalidArgument,
                    "'local' is this computer's own shell and cannot be removed. To close it to "
                    "agents: termalin-mcp host set local --policy blocked");
    TRY(store->removeHost(host.id));
    say("Removed {} and the secrets that were saved for it.", visible(host.name));
    return kDone;
}

Result<int> hostCheck(Context& context, std::string const& name, std::string const& command)
{
    TRY_LET(auto* const store, context.store());
    TRY_LET(auto const host, store->findHost(name));
    for (auto const& warning : ruleWarnings(host))
        note("Warning: {}", warning);
    if (host.policy == AgentPolicy::Blocked) {
        say("No: '{}' is blocked for agents. They do not see it and can run nothing there.",
            visible(host.name));
        return kFailed;
    }
    if (host.policy == AgentPolicy::Full) {
        say("Yes: agents have full access to '{}', and the command runs as it is.", visible(host.name));
        return kDone;
    }
    std::vector<CommandRule> rules;
    for (auto const& text : host.rules) {
        TRY_LET(auto rule, CommandRule::parse(text));
        rules.push_back(std::move(rule));
    }
    auto const admitted = admitCommand(command, rules, LoginShell::Posix);
    if (!admitted) {
        say("No: {}", admitted.error().message);
        return kFailed;
    }
    say("Yes, by the rule: {}", visible(admitted->rule));
    say("Its words:");
    for (auto const& word : admitted->words)
        say("  {}", visible(word));
    say("What runs: {}", visible(admitted->quoted));
    if (!isPlainEverywhere(admitted->words))
        say("If the login shell of '{}' is not a POSIX shell, it is refused: only words of letters, digits "
            "and "
            "_./:=@,+- are admitted there.",
            visible(host.name));
    return kDone;
}

} // namespace termalin::cli
