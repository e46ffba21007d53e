#pragma once

#include <cstddef>

#include "core/secret.h"

namespace termalin {

/// A password of `length` characters (clamped to 8..128) from the system's generator, without bias: at least
/// one lower case letter, upper case letter, digit and symbol, at random places. Of the symbols only those
/// that no shell, URL or configuration file needs quoted are used: - _ . : + = @ % , ^ ~ are chosen by the
/// implementation and documented there.
[[nodiscard]] Secret generatePassword(std::size_t length);

} // namespace termalin
