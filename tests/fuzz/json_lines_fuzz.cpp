// Whatever a client sends, each line that comes back is JSON, and nothing hangs or breaks.
#include <cstdint>
#include <cstdlib>

#include "mcp-stdio/lines.h"
#include "mcp-stdio/server.h"
#include "mcp-stdio/tools/tools.h"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
    using namespace termalin;
    using namespace termalin::mcp;
    Services services; // without a gatekeeper nothing runs
    Server server(allTools(), services, [](std::string line) {
        if (!parseJson(line) || line.find('\n') != std::string::npos)
            std::abort();
    });
    LineScanner scanner;
    auto const onLine = [&](Line const& line) { server.receive(line); };
    // The first byte chooses the version, and into which pieces the stream is cut.
    std::size_t const piece = size > 0 ? data[0] / 4U + 1U : 1U;
    if (size > 0 && data[0] % 4 != 0)
        scanner.feed(
            data[0] % 4 == 1
                ? R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}})"
                  "\n"
                : R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}})"
                  "\n",
            onLine);
    std::string_view const bytes(reinterpret_cast<char const*>(data), size);
    for (std::size_t i = 1; i < bytes.size(); i += piece)
        scanner.feed(bytes.substr(i, piece), onLine);
    scanner.finish(onLine);
    return 0;
}
