#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {
namespace {

Arg<std::string> const pathArg{.name = "path", .meaning = "", .limits = kPathLimits};

} // namespace

Tool sftpList()
{
    using namespace schema;
    return {
        .name = "sftp_list",
        .title = "List a folder",
        .description =
            "Lists a folder of a server over SFTP, at most 10,000 entries (then truncated). On an allowlist "
            "server only paths that the person listed as readable.",
        .effect = Effect::ReadOnly,
        .needs = Needs::Nothing,
        .gate = Gate::HostPolicy,
        .args = {hostArg, pathArg},
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
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "sftp_list is not connected to its handler");
        },
        .maxResultChars = 500'000,
    };
}

Tool sftpGet()
{
    using namespace schema;
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
        .args = {hostArg, pathArg},
        .outputSchema = object({{"path", text()},
                                {"size", integer()},
                                {"encoding", oneOf({"utf-8", "base64"})},
                                {"content", text()}}),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "sftp_get is not connected to its handler");
        },
        .maxResultChars = 500'000,
    };
}

Tool sftpPut()
{
    using namespace schema;
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
        .args = {hostArg, pathArg, content, base64},
        .outputSchema = object({{"path", text()},
                                {"size", integer()},
                                {"created", flag()},
                                {"replaced?", oneOf({"renamed", "in-place"})}}),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "sftp_put is not connected to its handler");
        },
    };
}

} // namespace termalin::mcp
