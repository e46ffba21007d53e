#pragma once

#include <string>
#include <sys/types.h>

namespace termalin::mcp {

/// The executable of the process that started `pid`, found by /proc/PID/stat and /proc/PPID/exe (proc(5));
/// empty if it cannot be read. That of `pid` itself is of no use: a process that is not dumpable does not let
/// its own be read.
[[nodiscard]] std::string programOfParent(pid_t pid);

} // namespace termalin::mcp
