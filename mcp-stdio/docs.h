#pragma once

#include <span>
#include <string>

#include "mcp-stdio/tool.h"

namespace termalin::mcp {

/// docs/TOOLS.md, made from the table: `termalin-mcp --print-tools`.
[[nodiscard]] std::string toolsAsMarkdown(std::span<Tool const> tools);

} // namespace termalin::mcp
