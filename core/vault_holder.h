#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/vault_crypto.h"

namespace termalin {

/// The side of the vault that talks to the holder; see runVaultHolder() in vault.h.

/// The data key of this vault, if a holder of this user has it.
[[nodiscard]] std::optional<LockedKey> askHolder(std::filesystem::path const& socket,
                                                 std::string_view vaultId);

/// Starts a holder; one that was there before ends. Errors: PermissionDenied, Internal.
Result<void> spawnHolder(std::filesystem::path const& socket, std::string_view vaultId, LockedKey const& key,
                         std::chrono::seconds lifetime);

/// True when a holder was there; it has forgotten the key when this returns. Errors: Timeout when it does not
/// answer.
Result<bool> endHolder(std::filesystem::path const& socket);

} // namespace termalin
