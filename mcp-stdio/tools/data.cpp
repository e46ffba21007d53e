#include "mcp-stdio/app_link.h"
#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {
namespace {

Arg<std::string> const kConnectionArg{
    .name = "hostId", .meaning = "Id from data_list", .limits = kNameLimits};
Arg<std::optional<std::string>> const kDatabaseArg{.name = "database", .meaning = "", .limits = kNameLimits};

} // namespace

Tool dataList()
{
    using schema::flag, schema::list, schema::object, schema::oneOf, schema::text;
    return {
        .name = "data_list",
        .title = "List database connections",
        .description =
            "Lists the database connections that the person has opened to agents in the running Termalin "
            "app, and whether you may write.",
        .effect = Effect::ReadOnly,
        .needs = Needs::App,
        .gate = Gate::DataGrant,
        .outputSchema = object({{"connections", list(object({{"id", text()},
                                                             {"name", text()},
                                                             {"engine", text()},
                                                             {"agentAccess", oneOf({"read", "full"})},
                                                             {"canWrite", flag()}}))}}),
        .run = [](Args const&, Call const& call) { return call.services.insideApp->dataList(call); },
    };
}

Tool dataTables()
{
    using schema::flag, schema::integer, schema::list, schema::object, schema::text;
    return {
        .name = "data_tables",
        .title = "List tables",
        .description = "Lists tables, collections or keys of a connection. rows is an estimate.",
        .effect = Effect::ReadOnly,
        .needs = Needs::App,
        .gate = Gate::DataGrant,
        .args = {kConnectionArg, kDatabaseArg},
        .outputSchema = object({{"tables", list(object({{"name", text()},
                                                        {"schema?", text()},
                                                        {"kind", text()},
                                                        {"rows?", integer()},
                                                        {"sizeBytes?", integer()}}))},
                                {"databases?", list(text())},
                                {"truncated", flag()}}),
        .run =
            [](Args const& args, Call const& call) {
                return call.services.insideApp->dataTables(args[kConnectionArg], args[kDatabaseArg], call);
            },
        .maxResultChars = 200'000,
    };
}

Tool dataSchema()
{
    using schema::flag, schema::list, schema::object, schema::text;
    static Arg<std::string> const table{.name = "table", .meaning = "", .limits = kNameLimits};
    static Arg<std::optional<std::string>> const schemaName{
        .name = "schema", .meaning = "", .limits = kNameLimits};
    return {
        .name = "data_schema",
        .title = "Describe a table",
        .description = "Describes one table's columns, indexes and foreign keys.",
        .effect = Effect::ReadOnly,
        .needs = Needs::App,
        .gate = Gate::DataGrant,
        .args = {kConnectionArg, table, schemaName, kDatabaseArg},
        .outputSchema = object({{"table", text()},
                                {"schema?", text()},
                                {"columns", list(object({{"name", text()},
                                                         {"type", text()},
                                                         {"nullable", flag()},
                                                         {"primaryKey", flag()},
                                                         {"default?", text()},
                                                         {"comment?", text()}}))},
                                {"indexes?", list({{"type", "object"}})},
                                {"foreignKeys?", list({{"type", "object"}})}}),
        .run =
            [](Args const& args, Call const& call) {
                return call.services.insideApp->dataSchema(
                    {args[kConnectionArg], args[table], args[schemaName], args[kDatabaseArg]}, call);
            },
    };
}

Tool dataQuery()
{
    using schema::flag, schema::integer, schema::list, schema::object, schema::text;
    static Arg<std::string> const query{
        .name = "query", .meaning = "In the engine's own language", .limits = kCommandLimits};
    static Arg<std::int64_t> const maxRows{
        .name = "maxRows", .meaning = "", .fallback = 200, .limits = Limits{1, 10'000}};
    static Arg<std::int64_t> const timeoutSeconds{
        .name = "timeoutSeconds", .meaning = "", .fallback = 50, .limits = kTimeoutLimits};
    return {
        .name = "data_query",
        .title = "Run a query",
        .description = "Runs one query or command on a connection. Only reads, unless data_list says "
                       "canWrite. Integers over "
                       "2^53, decimals and times come as strings, bytes as {base64}, a cell over 64 KiB as "
                       "{cut, bytes}; the "
                       "result stops at 1 MiB.",
        .effect = Effect::Destructive,
        .needs = Needs::App,
        .gate = Gate::DataGrant,
        .args = {kConnectionArg, query, kDatabaseArg, maxRows, timeoutSeconds},
        .outputSchema = object({{"columns", list(object({{"name", text()}, {"type", text()}}))},
                                {"rows", list({{"type", "array"}})},
                                {"rowCount", integer()},
                                {"truncated", flag()},
                                {"affectedRows?", integer()},
                                {"durationMs", integer()}}),
        .run =
            [](Args const& args, Call const& call) {
                return call.services.insideApp->dataQuery({args[kConnectionArg], args[query],
                                                           args[kDatabaseArg], args[maxRows],
                                                           std::chrono::seconds(args[timeoutSeconds])},
                                                          call);
            },
        .maxResultChars = 500'000,
        .effectNow =
            [](Services const& services) {
                auto const writes = services.insideApp != nullptr
                                        ? services.insideApp->grantsDataWrites()
                                        : services.app != nullptr && services.app->grantsDataWrites();
                return writes ? Effect::Destructive : Effect::ReadOnly;
            },
    };
}

} // namespace termalin::mcp
