#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/result.h"

namespace termalin::cli {

/// Sets one member, named by the keys that lead to it, in a JSON text, and leaves every other byte as it is:
/// comments (// and /* */) and commas before a closing bracket are understood and kept, as VS Code and Cursor
/// write them, and so are line ends and indentation. Objects on the way are made where they are missing; an
/// empty text counts as an empty object. A member that has the value already changes nothing.
/// Errors: Unsupported for a text that is not JSON (with line and column), or where something other than an
/// object stands on the way.
Result<std::string> setJsonMember(std::string_view text, std::vector<std::string> const& path,
                                  Json const& value);

/// The member's value. Errors: as above; NotFound.
Result<Json> jsonMember(std::string_view text, std::vector<std::string> const& path);

} // namespace termalin::cli
