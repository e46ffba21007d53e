#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/audit_line.h"
#include "core/unique_fd.h"

namespace termalin {

/// The files of one audit and the chain of lines that runs through them.

/// The rotated files beside `file`, oldest first.
[[nodiscard]] std::vector<std::filesystem::path> rotatedAuditFiles(std::filesystem::path const& file);
/// The name that `file` gets when it is rotated after the line of this number.
[[nodiscard]] std::filesystem::path rotatedAuditName(std::filesystem::path const& file, std::int64_t last);

/// A lock across processes, held as long as the object lives; not between threads of one process that share a
/// descriptor.
class AuditLock {
public:
    enum class Part : std::uint8_t { Lines, Head };

    /// Waits up to 5 s. `lockFile`: what openAuditLock() gave. Errors: Timeout, Internal.
    static Result<AuditLock> take(UniqueFd const& lockFile, Part part);

    ~AuditLock();
    AuditLock(AuditLock&& other) noexcept : m_fd(std::exchange(other.m_fd, -1)), m_part(other.m_part) {}
    AuditLock& operator=(AuditLock&&) = delete;
    AuditLock(AuditLock const&) = delete;
    AuditLock& operator=(AuditLock const&) = delete;

private:
    AuditLock(int fd, Part part) : m_fd(fd), m_part(part) {}
    int m_fd;
    Part m_part;
};
Result<UniqueFd> openAuditLock(std::filesystem::path const& file);

/// The head as it is kept in the store under kAuditHeadKey.
inline constexpr std::string_view kAuditHeadKey = "audit.head";
[[nodiscard]] std::string formatHead(ChainEnd const& head);
Result<ChainEnd> readHead(Store& store);

/// Reads `size` bytes from `offset`; fewer at the end of the file.
Result<std::string> readAt(int fd, std::int64_t offset, std::size_t size, std::filesystem::path const& file);

/// What stands at the end of a file.
struct AuditTail {
    ChainEnd end;         ///< The last whole line of ours; number 0 if there is none.
    std::string unmarked; ///< Bytes after it that are no line of ours, without a newline at their end.
    bool newline = true;  ///< Whether the file ends in a newline, or is empty.
    bool sawHead = false; ///< Whether the line that the head names was found with the head's hash.
};
/// Looks back as far as the head's line.
Result<AuditTail> readAuditTail(int fd, std::int64_t size, ChainEnd const& head,
                                std::filesystem::path const& file);

} // namespace termalin
