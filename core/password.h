#pragma once

#include <cstddef>

#include "core/secret.h"

namespace termalin {

/// A password of `length` characters (clamped to 8..128) from the system's generator: at least one lower
/// case letter, upper case letter, digit and symbol, and a letter or digit first. All passwords of that kind
/// are equally likely. The symbols are - _ . alone: no shell, URL (RFC 3986, "unreserved") or configuration
/// file needs them quoted, and the first character can be taken for no option.
[[nodiscard]] Secret generatePassword(std::size_t length);

} // namespace termalin
