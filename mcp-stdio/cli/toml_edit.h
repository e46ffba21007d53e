#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace termalin::cli {

/// Sets a string in a table of a TOML 1.0 text, [table] and key = "value", and leaves every other byte as it
/// is. The table is put at the end of the text where it is missing. A key that has the value already changes
/// nothing.
/// Errors: Unsupported for a text that is not TOML (with its line), or where the table is written in a form
/// that cannot be added to (an inline table, dotted keys).
Result<std::string> setTomlString(std::string_view text, std::vector<std::string> const& table,
                                  std::string const& key, std::string const& value);

/// Makes the value at the end of the keys an empty array; a text without it stays as it is. Errors:
/// Unsupported for a text that is not TOML.
Result<std::string> emptyTomlArray(std::string_view text, std::vector<std::string> const& path);

/// The text's value at the end of the keys, if it is a string. Errors: Unsupported for a text that is not
/// TOML; NotFound.
Result<std::string> tomlString(std::string_view text, std::vector<std::string> const& path);

} // namespace termalin::cli
