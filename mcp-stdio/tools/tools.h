#pragma once

#include <vector>

#include "mcp-stdio/tool.h"

namespace termalin::mcp {

// One function a tool, each in the .cpp of its family in this folder.

// hosts.cpp
Tool hostsList();
Tool generatePasswordTool();
// exec.cpp
Tool sshExec();
// sessions.cpp
Tool sessionOpen();
Tool sessionExec();
Tool sessionClose();
Tool sessionList();
// tunnels.cpp
Tool tunnelOpen();
Tool tunnelClose();
Tool tunnelList();
// sftp.cpp
Tool sftpList();
Tool sftpGet();
Tool sftpPut();
// terminal.cpp
Tool terminalHosts();
Tool terminalSessions();
Tool terminalOpen();
Tool terminalRun();
Tool terminalRunMany();
// data.cpp
Tool dataList();
Tool dataTables();
Tool dataSchema();
Tool dataQuery();

/// The tool table: everything that tools/list, validation, the documentation and the tests know about tools.
std::vector<Tool> const& allTools();

/// The rows that need the app: what its control socket offers.
std::vector<Tool> const& appTools();

} // namespace termalin::mcp
