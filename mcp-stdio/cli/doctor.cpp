#include "mcp-stdio/cli/commands.h"
namespace termalin::cli {
Result<int> doctor(Context& context, DoctorOptions const& options)
{
    static_cast<void>(context);
    static_cast<void>(options);
    return fail(Errc::Unsupported, "");
}
} // namespace termalin::cli
