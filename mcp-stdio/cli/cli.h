#pragma once

namespace termalin::cli {

/// Runs the command line: `termalin-mcp host add ...` and its like. Gives the exit code: 0 done, 1 failed, 2
/// wrong use. For a call with at least one argument; from the main thread.
int run(int argc, char** argv);

} // namespace termalin::cli
