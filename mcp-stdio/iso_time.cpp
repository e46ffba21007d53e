#include "mcp-stdio/iso_time.h"

#include <ctime>
#include <fmt/chrono.h>

namespace termalin::mcp {

std::string isoTime(std::chrono::system_clock::time_point time)
{
    auto const seconds = std::chrono::system_clock::to_time_t(time);
    std::tm parts = {};
    (void)::gmtime_r(&seconds, &parts); // fails only where the year is no int
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", parts);
}

} // namespace termalin::mcp
