#include "ssh/detail_sftp_upload.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <sys/random.h>

#include "ssh/detail_sftp_writer.h"

namespace termalin::ssh {

namespace {

using namespace std::chrono_literals;
using sftp::Type;

/// From here on a server's window holds an upload back: 2 MiB, OpenSSH's, in this time are 200 MiB/s.
constexpr auto kFar = 10ms;
constexpr int kMaxLinks = 40; // as Linux

constexpr std::string_view kEither = " Either the old file or the whole new one is there now; look first.";

std::string folderOf(std::string_view path)
{
    auto const slash = path.rfind('/');
    return slash == std::string_view::npos ? "." : slash == 0 ? "/" : std::string(path.substr(0, slash));
}

std::string within(std::string_view folder, std::string_view name)
{
    return std::string(folder) + (folder.ends_with('/') ? "" : "/") + std::string(name);
}

std::string temporaryName()
{
    std::array<unsigned char, 8> bytes{};
    while (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    }
    std::string name = ".termalin-";
    for (auto const byte : bytes)
        name.append({"0123456789abcdef"[byte >> 4U], "0123456789abcdef"[byte & 15U]});
    return name;
}

} // namespace

Result<void> SftpUpload::stopped() const
{
    if (m_limits.stop.stop_requested())
        return fail(Errc::Cancelled, "The upload was stopped; nothing was changed.");
    return {};
}

Result<std::string> SftpUpload::realPath(std::string_view path)
{
    auto const before = Deadline::Clock::now();
    auto real = m_client.name(m_client.sendPath(Type::Realpath, path), "find", path, m_limits);
    m_roundTrip = std::min<Deadline::Clock::duration>(m_roundTrip, Deadline::Clock::now() - before);
    return real;
}

Result<SftpUpload::Place> SftpUpload::find(std::string_view path)
{
    if (path.empty() || path.ends_with('/') || path.find('\0') != std::string_view::npos)
        return fail(Errc::InvalidArgument, quotedPath(path) + " cannot be the name of a file.");
    Place place;
    auto real = realPath(path);
    if (!real && real.error().code == Errc::NotFound) {
        // Some servers resolve only what exists.
        TRY_LET(auto const folder, realPath(folderOf(path)));
        real = within(folder, path.substr(path.rfind('/') + 1));
    }
    TRY_LET(place.path, std::move(real));
    TRY(follow(place));
    place.folder = folderOf(place.path);
    if (place.old && !place.old->isRegular())
        return fail(Errc::InvalidArgument, quotedPath(place.path) + " is " + std::string(place.old->kind()) +
                                               "; only a regular file can be written.");
    return place;
}

Result<void> SftpUpload::follow(Place& place)
{
    for (int links = 0; links < kMaxLinks; ++links) {
        auto const attributes =
            m_client.attributes(m_client.sendPath(Type::Lstat, place.path), "look at", place.path, m_limits);
        if (!attributes && attributes.error().code == Errc::NotFound)
            return {};
        TRY(attributes);
        if (!attributes->isLink()) {
            place.old = *attributes;
            return {};
        }
        auto const target = m_client.name(m_client.sendPath(Type::Readlink, place.path), "read the link",
                                          place.path, m_limits);
        TRY(target);
        auto const absolute = target->starts_with('/') ? *target : within(folderOf(place.path), *target);
        auto const real = realPath(absolute);
        if (!real && real.error().code == Errc::NotFound)
            return fail(Errc::NotFound, quotedPath(place.path) + " is a link to " + quotedPath(*target) +
                                            ", whose folder does not exist.");
        TRY_LET(place.path, real);
    }
    return fail(Errc::InvalidArgument, quotedPath(place.path) + " is a link that leads round in a circle.");
}

/// Asks for the right to write the file by opening it, without a change to it.
Result<RemoteHandle> SftpUpload::openOld(Place& place)
{
    auto opened = m_client.handle(m_client.sendOpen(place.path, sftp::kOpenWrite, {}), "write to", place.path,
                                  m_limits);
    if (opened)
        return RemoteHandle(m_client, *std::move(opened));
    auto const& error = opened.error();
    if (error.code == Errc::NotFound) {
        place.old.reset();
        return RemoteHandle();
    }
    // A program that is running cannot be written to, only replaced: one code of many reasons.
    if (error.source == "sftp status 4")
        return RemoteHandle();
    return std::unexpected(error);
}

Result<Upload> SftpUpload::run(std::string_view path)
{
    TRY_LET(auto place, find(path));
    TRY(stopped());
    RemoteHandle old;
    if (place.old) {
        TRY_LET(old, openOld(place));
    }
    TRY_LET(auto const done, beside(place, static_cast<bool>(old)));
    if (done)
        return *done;
    TRY(stopped());
    return inPlace(place, std::move(old));
}

Result<std::optional<Upload>> SftpUpload::beside(Place const& place, bool mayFallBack)
{
    auto const temporary = within(place.folder, temporaryName());
    sftp::Attributes attributes;
    if (place.old)
        attributes.mode = 0600;
    auto opened = m_client.handle(
        m_client.sendOpen(temporary, sftp::kOpenWrite | sftp::kOpenCreate | sftp::kOpenExclusive, attributes),
        "make a file in", place.folder, m_limits);
    if (!opened) {
        auto error = std::move(opened).error();
        if (!SftpClient::said(error))
            return std::unexpected(broken(std::move(error), place, temporary, {})); // it may be made yet
        if (error.code == Errc::PermissionDenied) {
            if (auto const space = m_client.space(place.folder, m_limits);
                space && !space->readOnly && (space->filesFree == 0 || space->bytesFree == 0))
                error = writeRefused(error, place, 0);
            else if (mayFallBack)
                return std::nullopt;
        }
        return std::unexpected(std::move(error));
    }
    RemoteHandle file(m_client, *std::move(opened));
    auto done = fillAndRename(place, temporary, file, mayFallBack);
    if (!done)
        return std::unexpected(broken(std::move(done).error(), place, temporary, std::move(file)));
    if (!*done)
        remove(temporary, std::move(file));
    return done;
}

Result<std::optional<Upload>> SftpUpload::fillAndRename(Place const& place, std::string const& temporary,
                                                        RemoteHandle& file, bool mayFallBack)
{
    auto const inPlaceOr = [&](Error error) -> Result<std::optional<Upload>> {
        if (SftpClient::said(error) && mayFallBack && (m_size == 0 || m_source.rewind))
            return std::nullopt;
        return std::unexpected(std::move(error));
    };
    if (place.old)
        if (auto const adopted = adoptOwner(file, *place.old, temporary); !adopted)
            return inPlaceOr(adopted.error());
    TRY_LET(m_size, writeAll(file.get(), place, m_limits, temporary));
    sftp::Attributes mode;
    if (place.old && place.old->mode)
        mode.mode = *place.old->mode & 07777U;
    if (auto const finished = finish(file, place, m_limits, mode); !finished)
        return inPlaceOr(finished.error());
    TRY(stopped());
    // Once this is sent it may happen at any moment: a stop that came now could not say what was changed.
    auto const moment = Deadline::in(10s);
    CallLimits const limits{m_limits.deadline.at() > moment.at() ? m_limits.deadline : moment, {}};
    auto renamed = m_client.ok(m_client.sendRename(temporary, place.path), "put the new file in the place of",
                               place.path, limits);
    if (!renamed && !SftpClient::said(renamed.error()))
        renamed.error().message += std::string(kEither);
    if (!renamed)
        return inPlaceOr(std::move(renamed).error());
    return Upload{place.path, m_size, !place.old, place.old ? Replaced::Renamed : Replaced::No};
}

Result<void> SftpUpload::adoptOwner(RemoteHandle const& file, sftp::Attributes const& old,
                                    std::string const& path)
{
    if (!old.owner)
        return {};
    sftp::Attributes owner;
    owner.owner = old.owner;
    auto set = m_client.ok(m_client.sendSet(file.get(), owner), "give its owner to", path, m_limits);
    if (set || !SftpClient::said(set.error()))
        return set;
    auto const now =
        m_client.attributes(m_client.sendPath(Type::Fstat, file.get()), "look at", path, m_limits);
    return now && now->owner == old.owner ? Result<void>{} : set;
}

Result<std::size_t> SftpUpload::fill(char* room, std::size_t size) const
{
    std::size_t have = 0;
    while (have < size) {
        TRY_LET(auto const got, m_source.read(room + have, size - have));
        if (got == 0)
            break;
        have += got;
    }
    return have;
}

Result<std::uint64_t> SftpUpload::writeAll(std::string const& handle, Place const& place,
                                           CallLimits const& limits, std::string const& again)
{
    SftpWriter writer(
        m_client, handle, place.path, [this](char* room, std::size_t size) { return fill(room, size); },
        m_source.size, limits);
    if (!again.empty() && m_roundTrip >= kFar)
        writer.mayDivide(again, m_client.connection());
    auto written = writer.run();
    if (!written && SftpClient::said(written.error()))
        return std::unexpected(writeRefused(written.error(), place, writer.confirmed()));
    return written;
}

/// Attributes, fsync and close, in one round trip.
Result<void> SftpUpload::finish(RemoteHandle& file, Place const& place, CallLimits const& limits,
                                sftp::Attributes const& attributes)
{
    std::optional<SftpClient::Id> set;
    std::optional<SftpClient::Id> synced;
    if (attributes.mode || attributes.size)
        set = m_client.sendSet(file.get(), attributes);
    if (m_client.canFsync())
        synced = m_client.sendFsync(file.get());
    auto const closed = m_client.sendPath(Type::Close, file.release());
    if (set)
        TRY(m_client.ok(*set, attributes.mode ? "set the mode of" : "cut to its size", place.path, limits));
    if (synced)
        TRY(m_client.ok(*synced, "bring to the disk", place.path, limits));
    return m_client.ok(closed, "close", place.path, limits);
}

Result<Upload> SftpUpload::inPlace(Place const& place, RemoteHandle file)
{
    if (m_source.rewind)
        m_source.rewind();
    if (auto const space = m_client.space(place.folder, m_limits); space && m_source.size) {
        auto const had = place.old->size.value_or(0);
        if (*m_source.size > had && *m_source.size - had > space->bytesFree)
            return fail(Errc::NoSpace, quotedPath(place.path) + " was not touched: only " +
                                           std::to_string(space->bytesFree) + " bytes are free on " +
                                           m_client.server() + '.');
    }
    // From here on half a file is the worst outcome: no stop, and time enough to come to the end.
    auto const minute = Deadline::in(60s);
    CallLimits const limits{m_limits.deadline.at() > minute.at() ? m_limits.deadline : minute, {}};
    auto const written = [&]() -> Result<void> {
        TRY_LET(m_size, writeAll(file.get(), place, limits, {}));
        sftp::Attributes size;
        size.size = m_size;
        return finish(file, place, limits, size);
    }();
    if (!written) {
        auto error = written.error();
        error.message += ' ' + quotedPath(place.path) +
                         " was being written in place: it may hold only a part of the new content now. Look "
                         "at it, or send it once more.";
        return std::unexpected(std::move(error));
    }
    return Upload{place.path, m_size, false, Replaced::InPlace};
}

Error SftpUpload::writeRefused(Error const& why, Place const& place, std::uint64_t written)
{
    auto const space = m_client.space(place.folder, {Deadline::in(3s), {}});
    auto const full = space && (space->bytesFree < 1024U * 1024U || space->filesFree == 0);
    auto text = quotedPath(place.path) + " could not be written: " + m_client.server();
    if (full)
        text += " has no room left on that disk (" + std::to_string(space->bytesFree) + " bytes free).";
    else
        text += " took no more after " + std::to_string(written) +
                " bytes; a quota, a limit on the size of a file or a failing disk do that.";
    return {Errc::NoSpace, text + " Make room, or write elsewhere.", why.source};
}

/// Tidies up after an upload that has failed, and says what is there now.
Error SftpUpload::broken(Error why, Place const& place, std::string const& temporary, RemoteHandle file)
{
    if (remove(temporary, std::move(file)) || why.message.ends_with(kEither))
        return why;
    why.message += ' ' + quotedPath(place.path) + (place.old ? " is as it was." : " was not made.") +
                   " A part of the upload may be left beside it: " + quotedPath(temporary) + '.';
    return why;
}

/// True when it is not there any more.
bool SftpUpload::remove(std::string const& temporary, RemoteHandle file)
{
    m_client.breakOff();
    if (file)
        m_client.close(file.release());
    auto const removed =
        m_client.ok(m_client.sendPath(Type::Remove, temporary), "remove", temporary, {Deadline::in(3s), {}});
    return removed || removed.error().code == Errc::NotFound;
}

} // namespace termalin::ssh
