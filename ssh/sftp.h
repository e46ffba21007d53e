#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ssh/connection.h"

namespace termalin::ssh {

struct FileInfo {
    std::string name; ///< The server's bytes; a caller that shows them cleans them.
    std::string path;
    bool isDir = false; ///< Of a link: its target's.
    bool isLink = false;
    std::string linkTarget; ///< Of a link; empty if it could not be read.
    std::uint64_t size = 0;
    std::uint32_t mode = 0; ///< Permission bits, 07777.
    std::optional<std::uint32_t> uid, gid;
    std::string owner, group;  ///< From the long name, where the server gives one; empty otherwise.
    std::int64_t modified = 0; ///< Seconds since 1970.
};

struct Listing {
    std::string path; ///< As the server made it absolute.
    std::vector<FileInfo> entries;
    bool truncated = false;
};

enum class Replaced : std::uint8_t { No, Renamed, InPlace };

struct Upload {
    std::string path; ///< The file that was written, links resolved.
    std::uint64_t size = 0;
    bool created = false;
    Replaced replaced = Replaced::No;
};

/// SFTP version 3 (draft-ietf-secsh-filexfer-02) with OpenSSH's extensions on one channel of a connection,
/// requests pipelined. All members may be called from any thread; calls on one Sftp run one after another.
/// Errors of all: NotFound, PermissionDenied, NoSpace, Unsupported (no such subsystem), Unreachable, Timeout,
/// Cancelled, TooLarge.
class Sftp {
public:
    /// Errors: also Unsupported when the server has no SFTP; the message says what to use.
    static Result<std::unique_ptr<Sftp>> open(std::shared_ptr<Connection> connection, Deadline deadline,
                                              std::stop_token const& stop);
    virtual ~Sftp() = default;

    /// REALPATH: absolute, links followed where the server does so.
    virtual Result<std::string> realPath(std::string_view path, Deadline deadline,
                                         std::stop_token const& stop) = 0;
    /// At most `limit` entries; "." and ".." are left out.
    virtual Result<Listing> list(std::string_view path, std::size_t limit, Deadline deadline,
                                 std::stop_token const& stop) = 0;
    virtual Result<FileInfo> stat(std::string_view path, Deadline deadline, std::stop_token const& stop) = 0;
    virtual Result<FileInfo> lstat(std::string_view path, Deadline deadline, std::stop_token const& stop) = 0;
    /// The whole of a regular file. Errors: TooLarge above `limit` (also when it grows meanwhile, or has no
    /// size, as in /proc); InvalidArgument for a folder, device, pipe or socket, which is not opened.
    virtual Result<std::string> read(std::string_view path, std::uint64_t limit, Deadline deadline,
                                     std::stop_token const& stop) = 0;
    /// Writes a whole file: beside the old one, then in its place. When it fails before an in-place write
    /// has begun, the old file is whole and the temporary one removed.
    virtual Result<Upload> write(std::string_view path, std::string_view content, Deadline deadline,
                                 std::stop_token const& stop) = 0;

    /// Streams of any size. `sink` gets pieces in order and says whether to go on; `source` fills a buffer
    /// and says how much, 0 at the end. Both run on the calling thread.
    virtual Result<std::uint64_t> download(std::string_view path,
                                           std::function<Result<void>(std::string_view)> const& sink,
                                           Deadline deadline, std::stop_token const& stop) = 0;
    virtual Result<Upload> upload(std::string_view path,
                                  std::function<Result<std::size_t>(char*, std::size_t)> const& source,
                                  Deadline deadline, std::stop_token const& stop) = 0;
};

} // namespace termalin::ssh
