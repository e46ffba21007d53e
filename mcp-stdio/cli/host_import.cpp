#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "core/account.h"
#include "mcp-stdio/cli/commands.h"
#include "mcp-stdio/cli/console.h"
#include "ssh/ssh_config_import.h"

namespace termalin::cli {

namespace {

/// The file to read: the one that was named, made absolute, else the person's own.
Result<std::filesystem::path> fileToImport(ImportOptions const& options, Paths const& paths)
{
    if (options.file.empty() && paths.isolated)
        return fail(Errc::InvalidArgument,
                    "With TERMALIN_HOME set, ~/.ssh is not looked at by itself. Name the file: "
                    "termalin-mcp host import FILE");
    std::error_code error;
    auto const file =
        options.file.empty() ? paths.home / ".ssh/config" : std::filesystem::absolute(options.file, error);
    if (!std::filesystem::exists(file, error))
        return fail(Errc::NotFound,
                    fmt::format("There is no file {} to import from.", visible(file.string())));
    return file;
}

/// Saves what is new. A host that is there already is never changed: what a person set for it stands.
Result<int> save(Store& store, std::vector<ssh::ImportedHost> const& hosts)
{
    TRY_LET(auto const present, store.hosts());
    std::size_t added = 0;
    auto failed = false;
    for (auto const& imported : hosts) {
        if (std::ranges::find(present, imported.host.name, &Host::name) != present.end()) {
            note("{} is saved already and was left as it is.", visible(imported.host.name));
            continue;
        }
        auto host = imported.host;
        host.policy = AgentPolicy::Blocked; // whatever a file says, only a person opens a host
        host.rules.clear();
        host.reads.clear();
        if (auto const done = store.addHost(host); !done) {
            note("{} was not saved: {}", visible(host.name), done.error().message);
            failed = true;
            continue;
        }
        ++added;
    }
    say("{} host{} saved, closed to agents.", added, added == 1 ? "" : "s");
    return failed ? kFailed : kDone;
}

} // namespace

Result<int> hostImport(Context& context, ImportOptions const& options)
{
    TRY_LET(auto const file, fileToImport(options, context.paths()));
    TRY_LET(auto const config, ssh::SshConfig::load(file, context.paths().home));
    auto const report = ssh::importHosts(config, ownAccount());
    print(ssh::toText(report));
    if (config.aliases().empty()) {
        // What makes ssh give up on the whole file is told with an alias, and here is none to tell it with.
        auto const why = config.resolve("any", ownAccount()).refused;
        if (!why.empty())
            return fail(Errc::NotFound, fmt::format("{} names no host, so nothing was saved. {}",
                                                    visible(file.string()), visible(why)));
        note("{} names no host; a host is a Host line without * and ?.", visible(file.string()));
    }
    if (options.dryRun) {
        say("Nothing was saved (--dry-run).");
        return kDone;
    }
    TRY_LET(auto* const store, context.store());
    return save(*store, report.hosts);
}

} // namespace termalin::cli
