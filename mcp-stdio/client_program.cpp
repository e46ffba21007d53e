#include "mcp-stdio/client_program.h"

#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

namespace termalin::mcp {

std::string programOfParent(pid_t pid)
{
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string stat;
    std::getline(file, stat, '\0');
    // "PID (NAME) STATE PPID ...": the name may hold anything, parentheses too, so count from the last one.
    auto const name = stat.rfind(')');
    if (name == std::string::npos || name + 4 >= stat.size())
        return {};
    pid_t parent = 0;
    std::from_chars(stat.data() + name + 4, stat.data() + stat.size(), parent);
    if (parent <= 0)
        return {};
    std::error_code error;
    auto const program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", parent), error);
    return error ? std::string() : program.string();
}

} // namespace termalin::mcp
