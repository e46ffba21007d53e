#include "ssh/detail_sftp_client.h"

#include <algorithm>

#include "core/output_buffer.h"
#include "ssh/detail_connection.h"

namespace termalin::ssh {

using sftp::Code;
using sftp::Type;

std::string quotedPath(std::string_view path)
{
    return '"' + visible(path) + '"';
}

SftpClient::SftpClient(std::shared_ptr<Connection> connection)
    : m_connection(std::move(connection))
    , m_server(impl(*m_connection).name())
    , m_wire(std::make_shared<SftpWire>(m_server))
{
}

SftpClient::~SftpClient()
{
    m_wire->shut({Errc::Cancelled, "The file transfer is over."});
    impl(*m_connection).wake();
}

Result<std::unique_ptr<SftpClient>> SftpClient::open(std::shared_ptr<Connection> connection,
                                                     CallLimits const& limits)
{
    std::unique_ptr<SftpClient> client(new SftpClient(std::move(connection)));
    TRY(client->start(limits));
    return client;
}

Result<void> SftpClient::start(CallLimits const& limits)
{
    m_wire->send(sftp::Encoder(Type::Init, 3).finish());
    impl(*m_connection).post(m_wire);
    auto const message = m_wire->receive(limits);
    if (!message) {
        auto error = message.error();
        error.nothingWasSent = error.code == Errc::Timeout; // no file was named yet
        return std::unexpected(std::move(error));
    }
    auto const version = sftp::parseVersion(message->bytes());
    if (!version || version->version != 3)
        return fail(Errc::Unsupported,
                    m_server + " does not speak version 3 of SFTP; run \"cat\" or \"base64\" there "
                               "instead.");
    m_posixRename = version->has("posix-rename@openssh.com", "1");
    m_fsync = version->has("fsync@openssh.com", "1");
    m_statvfs = version->has("statvfs@openssh.com", "2");
    return version->has("limits@openssh.com", "1") ? learnLimits(limits) : Result<void>{};
}

Result<void> SftpClient::learnLimits(CallLimits const& limits)
{
    auto asked = request(Type::Extended);
    asked.text("limits@openssh.com");
    TRY_LET(auto const answer, await(send(std::move(asked)), limits));
    auto const* const body = std::get_if<sftp::ExtendedReply>(&answer.reply.body);
    auto const known = body == nullptr ? std::nullopt : sftp::parseLimits(body->bytes);
    if (!known)
        return {};
    // 255 KiB is what OpenSSH takes; beyond that only memory is gained. Less than 4 KiB cannot be meant.
    auto const within = [](std::uint64_t size, std::uint32_t otherwise) {
        return size == 0 ? otherwise
                         : static_cast<std::uint32_t>(std::clamp<std::uint64_t>(size, 4096, 261'120));
    };
    m_maxRead = within(known->read, m_maxRead);
    m_maxWrite = within(known->write, m_maxWrite);
    return {};
}

sftp::Encoder SftpClient::request(Type type)
{
    return {type, ++m_lastId};
}

SftpClient::Id SftpClient::send(sftp::Encoder&& message)
{
    auto const id = message.id();
    m_underWay.emplace(id, true);
    m_wire->send(std::move(message).finish());
    impl(*m_connection).wake();
    return id;
}

void SftpClient::drop(sftp::Reply const& reply)
{
    if (auto const* const handle = std::get_if<sftp::HandleReply>(&reply.body))
        close(*handle);
}

Result<SftpClient::Answer> SftpClient::await(Id id, CallLimits const& limits)
{
    for (;;) {
        if (auto const found = m_arrived.find(id); found != m_arrived.end()) {
            auto answer = std::move(found->second);
            m_arrived.erase(found);
            return answer;
        }
        TRY_LET(auto message, m_wire->receive(limits));
        auto parsed = sftp::parseReply(message.bytes());
        auto const asked = parsed ? m_underWay.find(parsed->id) : m_underWay.end();
        if (asked == m_underWay.end()) {
            auto error =
                parsed ? Error{Errc::Unsupported, m_server + " answered an SFTP request that was not made."}
                       : parsed.error();
            m_wire->shut(error); // nothing that it says can be trusted any more
            impl(*m_connection).wake();
            return std::unexpected(std::move(error));
        }
        auto reply = *std::move(parsed);
        auto const [answered, wanted] = *asked;
        m_underWay.erase(asked);
        if (wanted)
            m_arrived.emplace(answered, Answer{std::move(message), std::move(reply)});
        else
            drop(reply);
    }
}

void SftpClient::breakOff()
{
    m_wire->unsend();
    forgetAll();
}

void SftpClient::forgetAll()
{
    for (auto& [id, wanted] : m_underWay)
        wanted = false;
    auto const arrived = std::exchange(m_arrived, {});
    for (auto const& [id, answer] : arrived)
        drop(answer.reply);
}

SftpClient::Id SftpClient::sendPath(Type type, std::string_view path)
{
    auto message = request(type);
    message.text(path);
    return send(std::move(message));
}

SftpClient::Id SftpClient::sendOpen(std::string_view path, std::uint32_t flags,
                                    sftp::Attributes const& attributes)
{
    auto message = request(Type::Open);
    message.text(path).number(flags).attributes(attributes);
    return send(std::move(message));
}

SftpClient::Id SftpClient::sendRead(std::string_view handle, std::uint64_t offset, std::uint32_t size)
{
    auto message = request(Type::Read);
    message.text(handle).number64(offset).number(size);
    return send(std::move(message));
}

SftpClient::Id SftpClient::sendSet(std::string_view handle, sftp::Attributes const& attributes)
{
    auto message = request(Type::Fsetstat);
    message.text(handle).attributes(attributes);
    return send(std::move(message));
}

SftpClient::Id SftpClient::sendRename(std::string_view from, std::string_view to)
{
    auto message = request(m_posixRename ? Type::Extended : Type::Rename);
    if (m_posixRename)
        message.text("posix-rename@openssh.com");
    message.text(from).text(to);
    return send(std::move(message));
}

SftpClient::Id SftpClient::sendFsync(std::string_view handle)
{
    auto message = request(Type::Extended);
    message.text("fsync@openssh.com").text(handle);
    return send(std::move(message));
}

void SftpClient::close(std::string_view handle)
{
    m_underWay[sendPath(Type::Close, handle)] = false;
}

Result<SftpClient::Answer> SftpClient::awaitRefusable(Id id, std::string_view attempted,
                                                      std::string_view path, CallLimits const& limits)
{
    TRY_LET(auto answer, await(id, limits));
    if (auto const* const status = std::get_if<sftp::Status>(&answer.reply.body);
        status != nullptr && status->code != Code::Ok)
        return std::unexpected(refusal(answer.reply, attempted, path));
    return answer;
}

Result<void> SftpClient::ok(Id id, std::string_view attempted, std::string_view path,
                            CallLimits const& limits)
{
    TRY_LET(auto const answer, awaitRefusable(id, attempted, path, limits));
    if (!std::holds_alternative<sftp::Status>(answer.reply.body))
        return std::unexpected(refusal(answer.reply, attempted, path));
    return {};
}

Result<std::string> SftpClient::handle(Id id, std::string_view attempted, std::string_view path,
                                       CallLimits const& limits)
{
    TRY_LET(auto answer, awaitRefusable(id, attempted, path, limits));
    if (auto* const handle = std::get_if<sftp::HandleReply>(&answer.reply.body))
        return std::move(*handle);
    return std::unexpected(refusal(answer.reply, attempted, path));
}

Result<sftp::Attributes> SftpClient::attributes(Id id, std::string_view attempted, std::string_view path,
                                                CallLimits const& limits)
{
    TRY_LET(auto const answer, awaitRefusable(id, attempted, path, limits));
    if (auto const* const attributes = std::get_if<sftp::Attributes>(&answer.reply.body))
        return *attributes;
    return std::unexpected(refusal(answer.reply, attempted, path));
}

Result<std::string> SftpClient::name(Id id, std::string_view attempted, std::string_view path,
                                     CallLimits const& limits)
{
    TRY_LET(auto const answer, awaitRefusable(id, attempted, path, limits));
    auto const* const names = std::get_if<sftp::NameReply>(&answer.reply.body);
    if (names != nullptr && names->size() == 1)
        return names->front().name;
    return std::unexpected(refusal(answer.reply, attempted, path));
}

Error SftpClient::refusal(sftp::Reply const& reply, std::string_view attempted, std::string_view path) const
{
    auto const what = m_server + " could not " + std::string(attempted) + ' ' + quotedPath(path);
    auto const* const status = std::get_if<sftp::Status>(&reply.body);
    if (status == nullptr || status->code == Code::Ok)
        return {Errc::Unsupported, what + ": its answer does not fit the question."};
    auto const source = "sftp status " + std::to_string(static_cast<std::uint32_t>(status->code));
    switch (status->code) {
    case Code::NoSuchFile: return {Errc::NotFound, what + ": there is no such file or folder.", source};
    case Code::PermissionDenied:
        return {Errc::PermissionDenied, what + ": this login is not permitted to.", source};
    case Code::OpUnsupported:
        return {Errc::Unsupported, what + ": its SFTP program has no such request.", source};
    case Code::NoConnection:
    case Code::ConnectionLost: return {Errc::Unreachable, what + ": it has lost its own connection.", source};
    default: {
        // The protocol has one code for a read-only file system, a busy file, a limit and all the rest.
        auto const said = visible(status->message).substr(0, 200);
        return {Errc::PermissionDenied,
                what +
                    (said.empty() || said == "Failure" ? ", and does not say why." : ": \"" + said + "\"."),
                source};
    }
    }
}

std::optional<sftp::Space> SftpClient::space(std::string_view path, CallLimits const& limits)
{
    if (!m_statvfs)
        return std::nullopt;
    auto message = request(Type::Extended);
    message.text("statvfs@openssh.com").text(path);
    auto const answer = await(send(std::move(message)), limits);
    if (!answer)
        return std::nullopt;
    auto const* const body = std::get_if<sftp::ExtendedReply>(&answer->reply.body);
    return body == nullptr ? std::nullopt : sftp::parseSpace(body->bytes);
}

} // namespace termalin::ssh
