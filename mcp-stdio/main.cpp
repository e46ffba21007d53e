#include <cstdio>
#include <string_view>

#include "mcp-stdio/serve.h"
#include "mcp-stdio/tools/tools.h"

int main(int argc, char** argv)
{
    using namespace termalin;
    if (argc == 2 && std::string_view(argv[1]) == "--print-tools") {
        Json list = Json::array();
        for (auto const& tool : mcp::allTools())
            list.push_back(tool.listing(tool.effect));
        std::puts(toLine(list).c_str());
        return 0;
    }
    mcp::Services services;
    return mcp::serveStdio(services);
}
