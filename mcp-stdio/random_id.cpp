#include "mcp-stdio/random_id.h"

#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

namespace termalin::mcp {

std::string randomId()
{
    std::array<unsigned char, 16> bytes{};
    if (::getentropy(bytes.data(), bytes.size()) != 0)
        std::abort(); // it does not fail for so few bytes, getentropy(3)
    std::string id;
    for (auto const byte : bytes)
        id += fmt::format("{:02x}", byte);
    return id;
}

} // namespace termalin::mcp
