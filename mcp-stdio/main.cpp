#include <cstdio>
#include <string_view>

#include "mcp-stdio/docs.h"
#include "mcp-stdio/serve.h"
#include "mcp-stdio/tools/tools.h"

int main(int argc, char** argv)
{
    using namespace termalin;
    if (argc == 2 && std::string_view(argv[1]) == "--print-tools") {
        std::fputs(mcp::toolsAsMarkdown(mcp::allTools()).c_str(), stdout);
        return 0;
    }
    mcp::Services services;
    return mcp::serveStdio(services);
}
