#include <csignal>
#include <cstdio>
#include <string_view>
#include <sys/stat.h>

#include "core/memory.h"
#include "core/vault.h"
#include "mcp-stdio/cli/cli.h"
#include "mcp-stdio/docs.h"
#include "mcp-stdio/headless.h"
#include "mcp-stdio/tools/tools.h"

namespace {

/// What must hold before anything else: no other process of this user can look into us, nothing that we
/// make is open to others, and a reader that went away is an error and no signal.
void harden()
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // their own tools must look into us
    termalin::mcp::forbidDumps();
#endif
    ::umask(077);
    (void)std::signal(SIGPIPE, SIG_IGN);
}

} // namespace

int main(int argc, char** argv)
{
    namespace mcp = termalin::mcp;
    harden();
    termalin::keepFreedMemory();
    // An agent's client starts us without an argument and waits: nothing that the command line needs is made
    // on that way.
    if (argc == 1)
        return mcp::serveAgent();
    std::string_view const first(argv[1]);
    if (first == termalin::kVaultHolderWord)
        return termalin::runVaultHolder(argc, argv);
    if (first == "--print-tools" && argc == 2) {
        (void)std::fputs(mcp::toolsAsMarkdown(mcp::allTools()).c_str(), stdout);
        return 0;
    }
    return termalin::cli::run(argc, argv);
}
