#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ssh/detail_sftp_client.h"
#include "ssh/sftp.h"

namespace termalin::ssh {

/// Where the bytes of an upload come from.
struct UploadSource {
    std::function<Result<std::size_t>(char*, std::size_t)> read; ///< 0 at the end
    std::optional<std::uint64_t> size;                           ///< If it is known before.
    std::function<void()> rewind;                                ///< Empty: it can be read only once.
};

/// One file put in place, the old content there until the new is complete:
/// - Links are followed, a dangling one to the file that it names. Folders, devices, pipes and sockets are
///   refused, unopened.
/// - A file that this login may not write (read-only, immutable) is refused, even where the folder would
///   let it be replaced.
/// - The bytes go to ".termalin-" and 16 random hexadecimal digits in the same folder, which takes
///   the owner, group and mode (set-id bits too) of the old one, and its name at last. What SFTP cannot tell
///   is lost: ACLs, extended attributes, and other hard links, which keep the old content.
/// - In place, when the temporary file cannot be made, owned or renamed. Then the old bytes are written
///   over and the end is cut off; a stop is no longer heard once that has begun.
/// - On failure the temporary file is removed. When the line is cut nobody can remove it, and it stays; a
///   later upload lets it be, because nothing proves whose it is.
class SftpUpload {
public:
    SftpUpload(SftpClient& client, UploadSource source, CallLimits limits)
        : m_client(client), m_source(std::move(source)), m_limits(std::move(limits))
    {
    }
    Result<Upload> run(std::string_view path);

private:
    struct Place {
        std::string path, folder;
        std::optional<sftp::Attributes> old;
    };
    Result<std::string> realPath(std::string_view path);
    Result<Place> find(std::string_view path);
    Result<void> follow(Place& place);
    Result<RemoteHandle> openOld(Place& place);
    Result<void> adoptOwner(RemoteHandle const& file, sftp::Attributes const& old, std::string const& path);
    /// Nothing: it must be done in place.
    Result<std::optional<Upload>> beside(Place const& place, bool mayFallBack);
    Result<std::optional<Upload>> fillAndRename(Place const& place, std::string const& temporary,
                                                RemoteHandle& file, bool mayFallBack);
    Result<Upload> inPlace(Place const& place, RemoteHandle file);
    /// `again`: the path by which a second lane may open the file; empty: none may.
    Result<std::uint64_t> writeAll(std::string const& handle, Place const& place, CallLimits const& limits,
                                   std::string const& again);
    Result<std::size_t> fill(char* room, std::size_t size) const;
    Result<void> finish(RemoteHandle& file, Place const& place, CallLimits const& limits,
                        sftp::Attributes const& attributes);
    Error broken(Error why, Place const& place, std::string const& temporary, RemoteHandle file);
    Error writeRefused(Error const& why, Place const& place, std::uint64_t written);
    bool remove(std::string const& temporary, RemoteHandle file);
    [[nodiscard]] Result<void> stopped() const;

    SftpClient& m_client;
    UploadSource m_source;
    CallLimits m_limits;
    std::uint64_t m_size = 0;
    Deadline::Clock::duration m_roundTrip = std::chrono::hours(1); ///< the shortest seen
};

} // namespace termalin::ssh
