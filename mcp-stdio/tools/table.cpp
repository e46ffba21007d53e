#include <algorithm>
#include <iterator>

#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {

std::vector<Tool> const& allTools()
{
    static std::vector<Tool> const table{
        hostsList(),       generatePasswordTool(), //
        sshExec(),                                 //
        sessionOpen(),     sessionExec(),
        sessionClose(),    sessionList(), //
        tunnelOpen(),      tunnelClose(),
        tunnelList(), //
        sftpList(),        sftpGet(),
        sftpPut(), //
        terminalHosts(),   terminalSessions(),
        terminalOpen(),    terminalRun(),
        terminalRunMany(), //
        dataList(),        dataTables(),
        dataSchema(),      dataQuery(),
    };
    return table;
}

std::vector<Tool> const& appTools()
{
    static std::vector<Tool> const table = [] {
        std::vector<Tool> rows;
        std::ranges::copy_if(allTools(), std::back_inserter(rows),
                             [](Tool const& row) { return row.needs == Needs::App; });
        return rows;
    }();
    return table;
}

} // namespace termalin::mcp
