#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace termalin::mcp {

/// RFC 4648 section 4, padded.
[[nodiscard]] std::string encodeBase64(std::string_view bytes);

/// The same backwards; white space is passed over and the padding may be missing. Empty when `text` is no
/// base64.
[[nodiscard]] std::optional<std::string> decodeBase64(std::string_view text);

} // namespace termalin::mcp
