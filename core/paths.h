#pragma once

#include <filesystem>
#include <string>

#include "core/result.h"

namespace termalin {

/// Where this user's Termalin keeps its things. With TERMALIN_HOME set (absolute), everything is below it and
/// neither ~/.ssh nor SSH_AUTH_SOCK is used unless a host names it; else the XDG base directories, with the
/// home folder from the password database, as ssh does it (HOME is not asked).
struct Paths {
    std::filesystem::path home;          ///< The person's home folder, from the password database.
    bool isolated = false;               ///< TERMALIN_HOME was set.
    std::filesystem::path store;         ///< .../termalin.db
    std::filesystem::path settings;      ///< .../settings.json
    std::filesystem::path knownHosts;    ///< our own known_hosts
    std::filesystem::path audit;         ///< .../audit/audit.jsonl; rotated ones beside it
    std::filesystem::path runtimeDir;    ///< 0700; control socket and the vault's holder
    std::filesystem::path controlSocket; ///< runtimeDir/control, see docs/control-socket.md
    std::filesystem::path vaultSocket;   ///< runtimeDir/vault

    /// Reads the environment; creates nothing.
    /// Errors: InvalidArgument when TERMALIN_HOME is relative, or a socket's path would have 108 bytes or
    /// more.
    static Result<Paths> find();
};

/// Creates `dir` and its parents with mode 0700 if need be, and refuses one that belongs to another user, is
/// a link or is open to others (it is not repaired silently). Errors: PermissionDenied, NoSpace, Internal.
Result<void> makePrivateDir(std::filesystem::path const& dir);

/// The same for a folder whose files are all closed to others by their own modes: the person may have made it
/// with the usual mode of 0755. Only one that others can write in is refused.
Result<void> makeDataDir(std::filesystem::path const& dir);

/// Replaces `file` by `content`: a temporary file beside it, fsync, rename, fsync of the folder. Mode 0600. A
/// link is followed, so that a linked settings file stays one. Errors: PermissionDenied, NoSpace, Internal;
/// the old file is whole.
Result<void> writeFileAtomically(std::filesystem::path const& file, std::string_view content);

/// The whole file. Errors: NotFound, PermissionDenied, TooLarge above `limit` bytes.
Result<std::string> readFile(std::filesystem::path const& file, std::size_t limit = 16U << 20U);

} // namespace termalin
