#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace termalin {

using Json = nlohmann::json;

/// Parses without exceptions: empty when `text` is not JSON. It recurses: bound the depth of hostile text
/// first.
[[nodiscard]] inline std::optional<Json> parseJson(std::string_view text)
{
    auto value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    return value.is_discarded() ? std::nullopt : std::optional<Json>(std::move(value));
}

/// One line, for the wire. Bytes that are not UTF-8 become U+FFFD, where a plain dump() would throw.
[[nodiscard]] inline std::string toLine(Json const& value)
{
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Appends `text` as a JSON string, quotes included; bytes that are not UTF-8 become U+FFFD. For texts of
/// megabytes, where a value would be built only to be written. `text` may be a part of `to`.
void appendJsonString(std::string& to, std::string_view text);

} // namespace termalin
