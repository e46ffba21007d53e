#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/paths.h"
#include "core/unique_fd.h"
#include "mcp-stdio/cli/clients.h"
#include "mcp-stdio/cli/commands.h"
#include "mcp-stdio/cli/console.h"
#include "mcp-stdio/cli/program.h"

namespace termalin::cli {

namespace {

using namespace std::chrono_literals;

Result<ServerEntry> thisServer()
{
    std::error_code error;
    auto const program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error)
        return fail(
            Errc::Internal,
            fmt::format("Where this program lies cannot be found out: {}. Is /proc there?", error.message()));
    ServerEntry entry{.command = program.string(), .termalinHome = {}};
    if (auto const* const home =
            std::getenv("TERMALIN_HOME")) // NOLINT(concurrency-mt-unsafe): nothing here sets any
        entry.termalinHome = home;
    return entry;
}

Result<std::string> readIfThere(std::filesystem::path const& file)
{
    auto text = readFile(file);
    if (!text && text.error().code == Errc::NotFound)
        return std::string();
    return text;
}

Error broken(Client const& client, std::filesystem::path const& file, Error const& why)
{
    return {Errc::Unsupported,
            fmt::format("{}'s configuration {} cannot be changed: {}. It was left as it is. Repair "
                        "it and run this again, or add the server by hand: termalin-mcp install "
                        "{} --print",
                        client.label, file.string(), why.message, client.name)};
}

/// The file keeps its mode: it may hold other servers' secrets, or be meant for a group.
Result<void> writeKeepingMode(std::filesystem::path const& file, std::string const& text)
{
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);
    if (error)
        return fail(Errc::PermissionDenied, fmt::format("The folder {} cannot be made: {}.",
                                                        file.parent_path().string(), error.message()));
    struct stat before{};
    auto const existed = ::stat(file.c_str(), &before) == 0;
    TRY(writeFileAtomically(file, text));
    if (existed && ::chmod(file.c_str(), before.st_mode & 07777U) != 0)
        return std::unexpected(systemError(
            Errc::PermissionDenied, fmt::format("The mode of {} cannot be kept", file.string()), errno));
    return {};
}

Result<int> editConfiguration(Client const& client, ServerEntry const& entry,
                              std::filesystem::path const& file)
{
    TRY_LET(auto const before, readIfThere(file));
    auto const after = withServer(client, before, entry);
    if (!after)
        return std::unexpected(broken(client, file, after.error()));
    if (*after == before) {
        say("{} has it already, in {}.", client.label, file.string());
        return kDone;
    }
    TRY(writeKeepingMode(file, *after));
    say("Added to {}, in {}. Start {} anew for it to see the server.", client.label, file.string(),
        client.label);
    return kDone;
}

Result<int> useCommandLine(Client const& client, ServerEntry const& entry,
                           std::filesystem::path const& program)
{
    auto const run = [&](std::vector<std::string> words) {
        say("Running: {}", asTyped(words));
        words.front() = program.string();
        return runProgram(words, 120s);
    };
    TRY_LET(auto const file, configurationOf(client));
    TRY_LET(auto const text, readIfThere(file));
    auto const present = commandIn(client, text);
    if (!present)
        return std::unexpected(broken(client, file, present.error()));
    if (auto const same = withServer(client, text, entry); same && *same == text) {
        say("{} has it already, in {}.", client.label, file.string());
        return kDone;
    }
    // Claude Code refuses to add a server whose name it has.
    if (*present && client.id == ClientId::Claude) {
        TRY_LET(auto const removed, run({"claude", "mcp", "remove", "--scope", "user", kServerName}));
        if (removed.status != 0)
            return fail(Errc::Internal,
                        fmt::format("'claude mcp remove' failed: {}", visible(removed.output)));
    }
    TRY_LET(auto const added, run(addCommand(client, entry)));
    if (added.status != 0)
        return fail(Errc::Internal, fmt::format("{}'s own command failed with exit code {}: {}", client.label,
                                                added.status, visible(added.output)));
    say("Added to {}.", client.label);
    return kDone;
}

Result<int> printOnly(Client const& client, ServerEntry const& entry, std::filesystem::path const& file)
{
    if (!client.program.empty())
        say("{}", asTyped(addCommand(client, entry)));
    TRY_LET(auto const snippet, withServer(client, "", entry));
    // What can be piped on is on stdout; where it goes is a remark.
    note("{} {}:", client.program.empty() ? "This goes into" : "Without that command, this goes into",
         file.string());
    if (client.program.empty())
        print(snippet);
    else
        remark(snippet);
    return kDone;
}

} // namespace

Result<int> install(InstallOptions const& options)
{
    auto const* const client = findClient(options.client);
    if (client == nullptr)
        return fail(Errc::InvalidArgument,
                    fmt::format("'{}' is not a client that is known here: claude, cursor, codex "
                                "or vscode.",
                                visible(options.client)));
    TRY_LET(auto const entry, thisServer());
    TRY_LET(auto const file, configurationOf(*client));
    if (options.print)
        return printOnly(*client, entry, file);
    auto const program = client->program.empty() ? std::nullopt : findInPath(std::string(client->program));
    return program ? useCommandLine(*client, entry, *program) : editConfiguration(*client, entry, file);
}

} // namespace termalin::cli
