#include <fmt/format.h>

#include "mcp-stdio/cli/commands.h"
#include "mcp-stdio/cli/console.h"

namespace termalin::cli {

Result<int> hostImport(Context& context, ImportOptions const& options)
{
    static_cast<void>(context);
    static_cast<void>(options);
    return fail(Errc::Unsupported, "");
}

} // namespace termalin::cli
