#include <fmt/format.h>

#include "mcp-stdio/cli/commands.h"
#include "mcp-stdio/cli/console.h"

namespace termalin::cli {

Result<int> auditList(Context& context, std::size_t count)
{
    TRY_LET(auto const lines, lastAuditLines(context.paths().audit, count));
    if (lines.empty())
        note("The audit has no line yet ({}).", context.paths().audit.string());
    for (auto const& line : lines)
        say("{}", line);
    return kDone;
}

Result<int> auditVerify(Context& context)
{
    TRY_LET(auto* const store, context.store());
    TRY_LET(auto const verdict, verifyAudit(context.paths().audit, *store));
    if (!verdict.intact) {
        say("The audit is not intact: {}", verdict.problem);
        note("Nothing is repaired, so that what happened stays visible. Keep a copy of {} now, and find out "
             "which program "
             "or person wrote there. Lines before that place still vouch for each other; new ones are "
             "chained on.",
             context.paths().audit.parent_path().string());
        return kFailed;
    }
    say("The audit is intact: {} lines, each with the hash of the one before, up to the one that the store "
        "knows.",
        verdict.lines);
    return kDone;
}

} // namespace termalin::cli
