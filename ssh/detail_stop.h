#pragma once

#include "ssh/detail_connection.h"
#include "ssh/detail_exec.h"

namespace termalin::ssh {

/// Runs the stop ladder (signals, then the helper) for a command that was handed over, and gives what it had
/// printed. On the thread that called exec(); at most 4 s and a few round trips.
Result<ExecOutcome> stopAndTake(ConnectionImpl& connection, ExecTask& task, Completion completion);

} // namespace termalin::ssh
