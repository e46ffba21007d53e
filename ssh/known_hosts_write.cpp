#include <algorithm>
#include <array>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <sys/file.h>
#include <sys/stat.h>

#include "core/unique_fd.h"
#include "ssh/detail_known_hosts.h"
#include "ssh/known_hosts.h"
#include "ssh/public_key.h"
#include "ssh/wire.h"

namespace termalin::ssh {
namespace {

namespace fs = std::filesystem;

Error fileError(fs::path const& file, int number)
{
    auto const code = number == ENOSPC || number == EDQUOT ? Errc::NoSpace : Errc::PermissionDenied;
    return systemError(code, fmt::format("recording the server's key in \"{}\"", file.string()), number);
}

Result<std::string> readAll(fs::path const& file)
{
    UniqueFd const fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd && errno == ENOENT)
        return std::string{};
    if (!fd)
        return std::unexpected(fileError(file, errno));
    std::string text;
    std::array<char, 16'384> piece; // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
    for (;;) {
        auto const count = ::read(fd.get(), piece.data(), piece.size());
        if (count == 0)
            return text;
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return std::unexpected(fileError(file, errno));
        text.append(piece.data(), static_cast<std::size_t>(count));
    }
}

Result<void> writeAll(int fd, fs::path const& file, std::string_view text)
{
    while (!text.empty()) {
        auto const count = ::write(fd, text.data(), text.size());
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return std::unexpected(fileError(file, errno));
        text.remove_prefix(static_cast<std::size_t>(count));
    }
    if (::fsync(fd) != 0)
        return std::unexpected(fileError(file, errno));
    return {};
}

/// The new text in the old one's place at once: at any moment there is one or the other, whole.
Result<void> replaceFile(fs::path const& file, std::string_view text)
{
    auto name = file.string() + ".XXXXXX";
    UniqueFd const fd(::mkostemp(name.data(), O_CLOEXEC)); // makes it 0600
    if (!fd)
        return std::unexpected(fileError(file, errno));
    auto written = writeAll(fd.get(), file, text);
    if (written && ::rename(name.c_str(), file.c_str()) != 0)
        written = std::unexpected(fileError(file, errno));
    if (!written) {
        ::unlink(name.c_str());
        return written;
    }
    UniqueFd const folder(::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder)
        ::fsync(folder.get());
    return {};
}

Result<void> makePrivateFolder(fs::path const& folder)
{
    if (folder.empty() || ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST)
        return {};
    if (errno != ENOENT)
        return std::unexpected(fileError(folder, errno));
    TRY(makePrivateFolder(folder.parent_path()));
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
        return std::unexpected(fileError(folder, errno));
    return {};
}

/// Reads the file, has it changed, and writes it if that changed it, all under a lock that every process
/// which writes it takes. The lock is a file of its own since the file itself is replaced.
Result<void> change(fs::path const& given,
                    std::function<Result<std::string>(std::string const&)> const& changed)
{
    std::error_code ignored;
    auto const target = fs::weakly_canonical(given, ignored); // a link stays a link
    auto const file = ignored ? given : target;
    TRY(makePrivateFolder(file.parent_path()));
    UniqueFd const lock(::open((file.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock)
        return std::unexpected(fileError(file, errno));
    while (::flock(lock.get(), LOCK_EX) != 0)
        if (errno != EINTR)
            return std::unexpected(fileError(file, errno));
    TRY_LET(auto const before, readAll(file));
    TRY_LET(auto const after, changed(before));
    struct stat info{};
    bool const isPrivate = ::stat(file.c_str(), &info) == 0 && (info.st_mode & 077U) == 0;
    if (after == before && isPrivate)
        return {};
    return replaceFile(file, after);
}

struct NewLine {
    std::string name;
    std::string plainKey;
    std::string text;
};

Result<NewLine> newLine(std::string_view host, std::uint16_t port, ServerKey const& key)
{
    // Anything that would end the name, or mean more than this one server, must not get into the file.
    static constexpr std::string_view kNotInNames = ",*?!|@#\"'\\";
    bool const unusual =
        host.empty() || std::ranges::any_of(host, [](char c) {
            return static_cast<unsigned char>(c) <= ' ' || c == '\x7f' || kNotInNames.contains(c);
        });
    if (unusual)
        return fail(Errc::InvalidArgument,
                    "This host's name has characters that known_hosts gives a meaning of its own, so its key "
                    "cannot be recorded. Set a plain host key alias for it.");
    auto plain = plainKey(key.blob);
    if (!plain)
        return fail(Errc::InvalidArgument,
                    "The server's key is damaged or of a type that known_hosts cannot hold.");
    NewLine line;
    line.name = detail::recordedName(host, port);
    line.text = fmt::format("{} {} {}\n", line.name, blobType(*plain), base64(*plain));
    line.plainKey = std::move(*plain);
    return line;
}

Result<void> refuseRevoked(std::string_view text, fs::path const& file, NewLine const& line)
{
    while (!text.empty()) {
        auto const raw = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(raw.size() + 1, text.size()));
        auto const split = detail::splitLine(raw);
        if (split.marker == "@revoked" && split.plainKey == line.plainKey &&
            detail::matchesNames(line.name, split.names))
            return fail(Errc::HostKeyRevoked,
                        fmt::format("\"{}\" marks this key as revoked; it cannot be trusted as well. Remove "
                                    "that line if it is wrong.",
                                    file.string()));
    }
    return {};
}

bool has(std::string_view text, NewLine const& line)
{
    while (!text.empty()) {
        auto const raw = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(raw.size() + 1, text.size()));
        auto const split = detail::splitLine(raw);
        if (split.marker.empty() && split.plainKey == line.plainKey && !isCertificateType(split.keyType) &&
            detail::matchesNames(line.name, split.names))
            return true;
    }
    return false;
}

/// The line without `name` in its list of names; empty if none is left.
std::string withoutName(std::string_view raw, detail::SplitLine const& split, std::string const& name)
{
    if (!split.marker.empty() || !detail::matchesNames(name, split.names))
        return std::string(raw);
    if (split.names.starts_with('|'))
        return {};
    std::string left;
    std::string_view names = split.names;
    bool positive = false; // a list of exclusions alone matches nothing
    while (!names.empty()) {
        auto const pattern = names.substr(0, names.find(','));
        names.remove_prefix(std::min(pattern.size() + 1, names.size()));
        if (detail::lowerCase(pattern) == detail::lowerCase(name))
            continue;
        positive = positive || !pattern.starts_with('!');
        left += (left.empty() ? "" : ",") + std::string(pattern);
    }
    if (!positive)
        return {};
    auto const start = static_cast<std::size_t>(split.before - raw.data());
    return std::string(raw.substr(0, start)) + left + std::string(raw.substr(start + split.names.size()));
}

} // namespace

Result<void> trustHostKey(fs::path const& file, std::string_view host, std::uint16_t port,
                          ServerKey const& key)
{
    TRY_LET(auto const line, newLine(host, port, key));
    return change(file, [&](std::string const& before) -> Result<std::string> {
        TRY(refuseRevoked(before, file, line));
        if (has(before, line))
            return before;
        return before + (before.empty() || before.ends_with('\n') ? "" : "\n") + line.text;
    });
}

Result<void> replaceHostKey(fs::path const& file, std::string_view host, std::uint16_t port,
                            ServerKey const& key)
{
    TRY_LET(auto const line, newLine(host, port, key));
    return change(file, [&](std::string const& before) -> Result<std::string> {
        TRY(refuseRevoked(before, file, line));
        std::string after;
        for (std::string_view rest = before; !rest.empty();) {
            auto const raw = rest.substr(0, rest.find('\n'));
            rest.remove_prefix(std::min(raw.size() + 1, rest.size()));
            auto const split = detail::splitLine(raw);
            auto const kept = withoutName(raw, split, line.name);
            if (!kept.empty() || raw.empty())
                after += kept + "\n";
        }
        return has(after, line) ? after : after + line.text;
    });
}

} // namespace termalin::ssh
