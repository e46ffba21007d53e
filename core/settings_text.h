#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace termalin {

/// Where a setting's value stands in the text of a settings file.
struct SettingPlace {
    std::string key; ///< Dotted: of {"a": {"b": 1}} and of {"a.b": 1} alike it is "a.b".
    std::size_t begin = 0;
    std::size_t end = 0;
};

/// The values at the first and second level of a JSON object, in the order of the text.
/// Errors: InvalidArgument when the text is not a JSON object or a key is there twice; the message says
/// which.
Result<std::vector<SettingPlace>> findSettings(std::string_view text);

/// The text with one value put in the place of the old one, or added; every other byte stays. Errors: as
/// findSettings(), and when something else than an object stands where the key's own object must.
Result<std::string> withSetting(std::string_view text, std::string_view key, std::string_view jsonValue);

} // namespace termalin
