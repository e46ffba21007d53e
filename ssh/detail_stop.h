#pragma once

#include "ssh/detail_connection.h"
#include "ssh/detail_exec.h"

namespace termalin::ssh {

/// Runs the stop ladder (the helper, then signals) for a command that was handed over, and gives what it had
/// printed. On the thread that called exec(); most often 1 s, 11 s at most.
Result<ExecOutcome> stopAndTake(ConnectionImpl& connection, ExecTask& task, Completion completion);

} // namespace termalin::ssh
