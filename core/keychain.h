#pragma once

#include <optional>
#include <string_view>

#include "core/result.h"
#include "core/secret.h"

namespace termalin {

/// The place of the person's desktop session that keeps the vault's wrapping key. Nothing of it is loaded
/// before one of these is called, none of them ever raises a dialog, and each ends within about 2 s.

/// Empty where there is no such place, it is locked, or it does not know this vault; `why` then says which.
struct KeychainAnswer {
    std::optional<Secret> key;
    std::string why;
};
[[nodiscard]] KeychainAnswer readKeychain(std::string_view vaultId);

/// Errors: Unsupported where there is no such place; VaultLocked where it is locked; Internal.
Result<void> writeKeychain(std::string_view vaultId, Secret const& key);

} // namespace termalin
