#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {

Tool hostsList()
{
    using namespace schema;
    return {
        .name = "hosts_list",
        .title = "List servers",
        .description =
            "Lists the servers a person has opened to agents, with id, login and policy: full runs any "
            "command, allowlist only what its rules admit. Servers closed to agents are left out. Never "
            "holds secrets. Call it first; the other tools take its ids or names.",
        .effect = Effect::ReadOnly,
        .needs = Needs::Nothing,
        .gate = Gate::Open,
        .outputSchema = object({{"hosts", list(object({{"id", text()},
                                                       {"name", text()},
                                                       {"hostname", text()},
                                                       {"port", integer()},
                                                       {"username", text()},
                                                       {"authType", text()},
                                                       {"policy", oneOf({"allowlist", "full"})},
                                                       {"tags", list(text())},
                                                       {"notes?", text()}}))}}),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "hosts_list is not connected to its handler");
        },
        .maxResultChars = 200'000,
    };
}

Tool generatePasswordTool()
{
    using namespace schema;
    static Arg<std::int64_t> const length{
        .name = "length", .meaning = "Characters, clamped to 8-128", .fallback = 20};
    return {
        .name = "generate_password",
        .title = "Generate a password",
        .description =
            "Makes one strong random password with lower case, upper case, digit and symbol. It is stored "
            "and logged nowhere.",
        .effect = Effect::ReadOnly,
        .needs = Needs::Nothing,
        .gate = Gate::Open,
        .args = {length},
        .outputSchema = object({{"password", text()}, {"length", integer()}}),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "generate_password is not connected to its handler");
        },
    };
}

} // namespace termalin::mcp
