#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/result.h"

/// The messages of SFTP version 3 (draft-ietf-secsh-filexfer-02) as bytes. Pure; what comes from a server is
/// taken for hostile: every length is checked against what is there before it is used.
namespace termalin::ssh::sftp {

enum class Type : std::uint8_t {
    Init = 1,
    Version = 2,
    Open = 3,
    Close = 4,
    Read = 5,
    Write = 6,
    Lstat = 7,
    Fstat = 8,
    Setstat = 9,
    Fsetstat = 10,
    Opendir = 11,
    Readdir = 12,
    Remove = 13,
    Realpath = 16,
    Stat = 17,
    Rename = 18,
    Readlink = 19,
    Status = 101,
    Handle = 102,
    Data = 103,
    Name = 104,
    Attrs = 105,
    Extended = 200,
    ExtendedReply = 201,
};

enum class Code : std::uint32_t { // NOLINT(performance-enum-size): as on the wire
    Ok = 0,
    Eof = 1,
    NoSuchFile = 2,
    PermissionDenied = 3,
    Failure = 4,
    BadMessage = 5,
    NoConnection = 6,
    ConnectionLost = 7,
    OpUnsupported = 8,
};

inline constexpr std::uint32_t kOpenRead = 1, kOpenWrite = 2, kOpenCreate = 8, kOpenTruncate = 16,
                               kOpenExclusive = 32;

/// No message of a server may be longer: OpenSSH's own limit is 256 KiB.
inline constexpr std::size_t kMaxMessage = 1024U * 1024U;

struct Attributes {
    std::optional<std::uint64_t> size;
    std::optional<std::pair<std::uint32_t, std::uint32_t>> owner; ///< uid, gid
    std::optional<std::uint32_t> mode;                            ///< The file type's bits included.
    std::optional<std::pair<std::uint32_t, std::uint32_t>> times; ///< Access, modification.

    [[nodiscard]] bool isDir() const { return hasType(0040000); }
    [[nodiscard]] bool isLink() const { return hasType(0120000); }
    /// Also when the server does not say: some give no mode.
    [[nodiscard]] bool isRegular() const { return !mode || (*mode & 0170000U) == 0 || hasType(0100000); }
    /// "a folder", "a device", ...
    [[nodiscard]] std::string_view kind() const;

private:
    [[nodiscard]] bool hasType(std::uint32_t type) const { return mode && (*mode & 0170000U) == type; }
};

/// Builds one message, its length in front.
class Encoder {
public:
    Encoder(Type type, std::uint32_t id); ///< For INIT `id` is the version.
    Encoder& number(std::uint32_t value);
    Encoder& number64(std::uint64_t value);
    Encoder& text(std::string_view value); ///< Any bytes, with their length in front.
    Encoder& attributes(Attributes const& value);
    /// Room for `size` bytes of a text whose length field says so; the caller fills them in.
    char* room(std::uint32_t size);
    /// Takes back what was not filled of the last room().
    void shorten(std::uint32_t filled);
    [[nodiscard]] std::string finish() &&; ///< Sets the length.
    [[nodiscard]] std::uint32_t id() const noexcept { return m_id; }

private:
    void setNumber(std::size_t at, std::uint32_t value);

    std::string m_bytes;
    std::uint32_t m_id;
    std::size_t m_room = 0; ///< where the length of the last room() stands
};

struct Status {
    Code code{};
    std::string message;
};
struct NameEntry {
    std::string name, longName;
    Attributes attributes;
};
using HandleReply = std::string;
using NameReply = std::vector<NameEntry>;
struct DataReply {
    std::string_view bytes; ///< Within the message.
};
struct ExtendedReply {
    std::string_view bytes; ///< Within the message.
};

struct Reply {
    std::uint32_t id = 0;
    std::variant<Status, HandleReply, DataReply, NameReply, Attributes, ExtendedReply> body;
};

/// A server's answer to a request; `message` without the length in front. Errors: Unsupported, when it is
/// none.
Result<Reply> parseReply(std::string_view message);

/// What a server says of itself at the start.
struct ServerVersion {
    std::uint32_t version = 0;
    std::vector<std::pair<std::string, std::string>> extensions;

    [[nodiscard]] bool has(std::string_view name, std::string_view value) const;
};
Result<ServerVersion> parseVersion(std::string_view message);

/// The answer to limits@openssh.com (OpenSSH's PROTOCOL, 4.8); 0: no limit is known.
struct Limits {
    std::uint64_t packet = 0, read = 0, write = 0, handles = 0;
};
[[nodiscard]] std::optional<Limits> parseLimits(std::string_view body);

/// The answer to statvfs@openssh.com (PROTOCOL, 4.3), as far as it concerns us.
struct Space {
    std::uint64_t bytesFree = 0; ///< For an ordinary user.
    std::uint64_t filesFree = 0;
    bool readOnly = false;
};
[[nodiscard]] std::optional<Space> parseSpace(std::string_view body);

/// Owner and group out of a long name, which has the form of `ls -l`; both empty when it has not, or when
/// it is not clear where they end.
[[nodiscard]] std::pair<std::string, std::string> ownerAndGroup(std::string_view longName);

} // namespace termalin::ssh::sftp
