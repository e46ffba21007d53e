#pragma once

#include <string>

namespace termalin::mcp {

/// 128 random bits in hexadecimal: nobody guesses it, and it is never given out twice.
[[nodiscard]] std::string randomId();

} // namespace termalin::mcp
