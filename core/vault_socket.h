#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/unique_fd.h"

namespace termalin {

/// Small parts that both sides of the holder's socket use. Nothing here waits longer than 2 s for the other
/// side.

/// Errors: InvalidArgument for a path that is too long.
Result<UniqueFd> connectPrivately(std::filesystem::path const& socket);
/// A listening socket of mode 0600 that takes the place of whatever stood there.
Result<UniqueFd> listenPrivately(std::filesystem::path const& socket);
/// Whether the process at the other end belongs to this user.
[[nodiscard]] bool peerIsOurs(int fd);
/// A peer that does not read or write in time ends the conversation.
void limitWaiting(int fd);
[[nodiscard]] bool sendAll(int fd, std::string_view bytes);
/// Up to `most` bytes, until the end or `until` was seen (0: until the end).
[[nodiscard]] std::string receive(int fd, std::size_t most, char until = '\0');

} // namespace termalin
