#include "ssh/sftp.h"

#include <chrono>
#include <fmt/format.h>
#include <functional>

#include "core/output_buffer.h"
#include "mcp-stdio/authorize.h"
#include "mcp-stdio/base64.h"
#include "mcp-stdio/iso_time.h"
#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"
#include "mcp-stdio/tools/work.h"

namespace termalin::mcp {
namespace {

constexpr std::uint64_t kFileLimit = 4U * 1024U * 1024U;
constexpr std::size_t kListLimit = 10'000;
constexpr std::chrono::seconds kTime{120};

using Work = std::function<Result<Json>(ssh::Sftp&, Host const&, Deadline)>;

/// Does `work` over SFTP on a connection of its own, while the host as it is saved admits it.
Result<Json> withSftp(Call const& call, std::function<bool(Host const&)> admitted, Work const& work)
{
    auto const deadline = Deadline::in(kTime);
    auto const& host = *call.admission.host;
    auto& sessions = *call.services.sessions;
    auto const listed = listCall(call, {}, std::move(admitted));
    for (auto spareWelcome = true;; spareWelcome = false) {
        auto lease = sessions.lease(host, spareWelcome, deadline, call.stop);
        if (!lease)
            return std::unexpected(explained(std::move(lease).error(), listed));
        auto sftp = ssh::Sftp::open(lease->connection, deadline, call.stop);
        auto const retry =
            !sftp && lease->wasSpare && sftp.error().code == Errc::Unreachable && !call.stop.stop_requested();
        auto const result = [&]() -> Result<Json> {
            if (!sftp)
                return std::unexpected(std::move(sftp).error());
            TRY_LET(auto const now, sessions.stillTheSame(host.id, host.routeRevision));
            return work(**sftp, now, deadline);
        }();
        if (sftp)
            sftp->reset(); // before its connection
        sessions.giveBack(*std::move(lease), host, result.has_value(), call.afterReply);
        if (retry)
            continue;
        if (!result)
            return std::unexpected(explained(result.error(), listed));
        return result;
    }
}

std::function<bool(Host const&)> mayRead(std::string const& path)
{
    return [path](Host const& now) { return ruleOnRead(now, path).has_value(); };
}

/// Not every server follows links when it makes a path absolute; such a path could still lead anywhere.
Result<void> refuseLinks(ssh::Sftp& sftp, std::string const& path, Deadline deadline,
                         std::stop_token const& stop)
{
    for (std::size_t end = 0; end != std::string::npos;) {
        end = path.find('/', end + 1);
        auto const part = path.substr(0, end);
        TRY_LET(auto const file, sftp.lstat(part, deadline, stop));
        if (file.isLink)
            return fail(Errc::NotInAllowlist,
                        fmt::format("'{}' is a link, and this server does not say where a path leads behind "
                                    "its links, so nothing behind it can be read. Ask for the file itself.",
                                    visible(part)));
    }
    return {};
}

/// The path as the server makes it absolute, links followed. It, too, has to be readable: a link may lead out
/// of what the person listed.
Result<std::string> admittedPath(ssh::Sftp& sftp, Host const& host, std::string const& asked,
                                 Deadline deadline, std::stop_token const& stop)
{
    TRY(ruleOnRead(host, asked));
    TRY_LET(auto real, sftp.realPath(asked, deadline, stop));
    if (auto const ruled = ruleOnRead(host, real); !ruled)
        return fail(ruled.error().code,
                    fmt::format("'{}' leads to '{}' on the server, which the person has not "
                                "listed as readable.",
                                asked, visible(real)));
    if (host.policy != AgentPolicy::Full)
        TRY(refuseLinks(sftp, real, deadline, stop));
    return real;
}

Json describe(ssh::FileInfo const& file)
{
    Json entry{{"name", toUtf8(file.name)},
               {"path", toUtf8(file.path)},
               {"isDir", file.isDir},
               {"isLink", file.isLink},
               {"size", file.size},
               {"permissions", fmt::format("{:04o}", file.mode)},
               {"modified", isoTime(std::chrono::system_clock::from_time_t(file.modified))}};
    if (!file.linkTarget.empty())
        entry["linkTarget"] = toUtf8(file.linkTarget);
    if (!file.owner.empty() || file.uid)
        entry["owner"] = file.owner.empty() ? std::to_string(*file.uid) : toUtf8(file.owner);
    if (!file.group.empty() || file.gid)
        entry["group"] = file.group.empty() ? std::to_string(*file.gid) : toUtf8(file.group);
    return entry;
}

Result<Json> listFolder(std::string const& path, Call const& call)
{
    return withSftp(call, mayRead(path),
                    [&](ssh::Sftp& sftp, Host const& host, Deadline deadline) -> Result<Json> {
                        TRY_LET(auto const real, admittedPath(sftp, host, path, deadline, call.stop));
                        TRY_LET(auto const listing, sftp.list(real, kListLimit, deadline, call.stop));
                        auto entries = Json::array();
                        for (auto const& file : listing.entries)
                            entries.push_back(describe(file));
                        return Json{{"path", toUtf8(listing.path)},
                                    {"entries", std::move(entries)},
                                    {"truncated", listing.truncated}};
                    });
}

Result<Json> getFile(std::string const& path, Call const& call)
{
    return withSftp(
        call, mayRead(path), [&](ssh::Sftp& sftp, Host const& host, Deadline deadline) -> Result<Json> {
            TRY_LET(auto const real, admittedPath(sftp, host, path, deadline, call.stop));
            auto const content = sftp.read(real, kFileLimit, deadline, call.stop);
            if (!content && content.error().code == Errc::TooLarge)
                return fail(Errc::TooLarge,
                            fmt::format("'{}' has more than the 4 MiB that sftp_get returns. Read a part "
                                        "of it with ssh_exec and tail or sed -n.",
                                        path));
            if (!content)
                return std::unexpected(content.error());
            auto lossy = content->contains('\0');
            auto text = toUtf8(*content, &lossy);
            return Json{{"path", toUtf8(real)},
                        {"size", content->size()},
                        {"encoding", lossy ? "base64" : "utf-8"},
                        {"content", lossy ? encodeBase64(*content) : std::move(text)}};
        });
}

Result<Json> putFile(std::string const& path, std::string const& content, bool base64, Call const& call)
{
    auto bytes = base64 ? decodeBase64(content) : std::optional(content);
    if (!bytes)
        return fail(Errc::InvalidArgument,
                    "content is not base64 (RFC 4648, the letters + and /). Leave base64 out "
                    "if it is meant as text.");
    if (bytes->size() > kFileLimit)
        return fail(Errc::TooLarge,
                    fmt::format("content has {} bytes; sftp_put writes at most 4 MiB. Nothing was "
                                "written.",
                                bytes->size()));
    auto const mayWrite = [](Host const& now) { return requireFull(now, "Writing a file").has_value(); };
    return withSftp(
        call, mayWrite, [&](ssh::Sftp& sftp, Host const& host, Deadline deadline) -> Result<Json> {
            TRY(requireFull(host, "Writing a file"));
            TRY_LET(auto const upload, sftp.write(path, *bytes, deadline, call.stop));
            Json result{{"path", toUtf8(upload.path)}, {"size", upload.size}, {"created", upload.created}};
            if (upload.replaced != ssh::Replaced::No)
                result["replaced"] = upload.replaced == ssh::Replaced::Renamed ? "renamed" : "in-place";
            return result;
        });
}

Arg<std::string> const kPathArg{.name = "path", .meaning = "", .limits = kPathLimits};

} // namespace

Tool sftpList()
{
    using schema::flag, schema::integer, schema::list, schema::object, schema::text;
    return {
        .name = "sftp_list",
        .title = "List a folder",
        .description =
            "Lists a folder of a server over SFTP, at most 10,000 entries (then truncated). On an allowlist "
            "server only paths that the person listed as readable.",
        .effect = Effect::ReadOnly,
        .needs = Needs::Nothing,
        .gate = Gate::HostPolicy,
        .args = {kHostArg, kPathArg},
        .outputSchema = object({{"path", text()},
                                {"entries", list(object({{"name", text()},
                                                         {"path", text()},
                                                         {"isDir", flag()},
                                                         {"isLink", flag()},
                                                         {"linkTarget?", text()},
                                                         {"size", integer()},
                                                         {"permissions", text()},
                                                         {"owner?", text()},
                                                         {"group?", text()},
                                                         {"modified", text()}}))},
                                {"truncated", flag()}}),
        .run = [](Args const& args, Call const& call) { return listFolder(args[kPathArg], call); },
        .maxResultChars = 500'000,
    };
}

Tool sftpGet()
{
    using schema::integer, schema::object, schema::oneOf, schema::text;
    return {
        .name = "sftp_get",
        .title = "Read a file",
        .description =
            "Reads a whole file of a server, at most 4 MiB: UTF-8 as text, anything else as base64. For a "
            "part of a file use ssh_exec with tail or sed -n. On an allowlist server only paths that the "
            "person listed as readable.",
        .effect = Effect::ReadOnly,
        .needs = Needs::Nothing,
        .gate = Gate::HostPolicy,
        .args = {kHostArg, kPathArg},
        .outputSchema = object({{"path", text()},
                                {"size", integer()},
                                {"encoding", oneOf({"utf-8", "base64"})},
                                {"content", text()}}),
        .run = [](Args const& args, Call const& call) { return getFile(args[kPathArg], call); },
        .maxResultChars = 500'000,
    };
}

Tool sftpPut()
{
    using schema::flag, schema::integer, schema::object, schema::oneOf, schema::text;
    static Arg<std::string> const content{.name = "content", .meaning = "The whole new file"};
    static Arg<bool> const base64{.name = "base64", .meaning = "content is base64", .fallback = false};
    return {
        .name = "sftp_put",
        .title = "Write a file",
        .description = "Creates a file on a server or replaces its content, at most 4 MiB; owner and mode "
                       "stay. A broken "
                       "transfer leaves the old file whole. Only on servers with full policy.",
        .effect = Effect::Destructive,
        .needs = Needs::Nothing,
        .gate = Gate::FullAccessHost,
        .args = {kHostArg, kPathArg, content, base64},
        .outputSchema = object({{"path", text()},
                                {"size", integer()},
                                {"created", flag()},
                                {"replaced?", oneOf({"renamed", "in-place"})}}),
        .run = [](Args const& args,
                  Call const& call) { return putFile(args[kPathArg], args[content], args[base64], call); },
    };
}

} // namespace termalin::mcp
