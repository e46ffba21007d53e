#include "ssh/detail_sftp_writer.h"

#include <algorithm>
#include <sys/random.h>

namespace termalin::ssh {
namespace {

using sftp::Type;

/// Bytes written and not confirmed, by lane. OpenSSH's window is 2 MiB; as much again covers what is on its
/// way to the disk and the way back of the answers.
constexpr std::uint64_t kWriteAhead = 4U * 1024U * 1024U;
/// At first. sshd 9.2 moves all that waits for its SFTP program each time that a packet comes on top of it: 2
/// MiB at once took it 0.6 s.
constexpr std::uint64_t kFirstAhead = 1024U * 1024U;
/// A second lane costs the server a program, and is there after five round trips.
constexpr std::uint64_t kWorthDividing = 8U * 1024U * 1024U;

} // namespace

SftpLane::SftpLane(std::shared_ptr<Connection> connection, std::string path, Deadline deadline)
{
    m_thread = std::jthread([this, connection = std::move(connection), path = std::move(path),
                             deadline](std::stop_token const& stop) {
        CallLimits const limits{.deadline = deadline, .stop = stop};
        auto client = SftpClient::open(connection, limits);
        auto handle =
            client ? (*client)->handle((*client)->sendOpen(path, sftp::kOpenRead | sftp::kOpenWrite, {}),
                                       "open", path, limits)
                   : std::unexpected(client.error());
        if (!handle) {
            m_state = State::Failed;
            return;
        }
        m_client = *std::move(client);
        m_handle = *std::move(handle);
        m_state = State::Open;
    });
}

SftpWriter::SftpWriter(SftpClient& client, std::string const& handle, std::string_view path, Fill fill,
                       std::optional<std::uint64_t> size, CallLimits const& limits)
    : m_client(client)
    , m_handle(handle)
    , m_path(path)
    , m_fill(std::move(fill))
    , m_size(size)
    , m_limits(limits)
{
}

void SftpWriter::mayDivide(std::string path, std::shared_ptr<Connection> connection)
{
    m_divided = Divided::No;
    m_lanePath = std::move(path);
    m_connection = std::move(connection);
}

Result<std::uint64_t> SftpWriter::run()
{
    while (m_more || !m_flying.empty()) {
        TRY(advanceLane());
        while (m_more && m_offset - m_confirmed < ahead())
            TRY(sendNext());
        if (m_flying.empty())
            break;
        auto const next = m_flying.front();
        m_flying.pop_front();
        TRY(settle(next));
    }
    return m_confirmed;
}

std::uint64_t SftpWriter::ahead() const
{
    return std::min(kWriteAhead, kFirstAhead + (2 * m_confirmed)) * (m_divided == Divided::Yes ? 2 : 1);
}

std::uint32_t SftpWriter::nextSize() const
{
    auto const left = m_size ? *m_size - std::min(*m_size, m_offset) : m_client.maxWrite();
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(m_client.maxWrite(), left));
}

Result<void> SftpWriter::sendNext()
{
    auto const second = m_divided == Divided::Yes && m_outSecond < m_outFirst;
    auto& by = second ? m_lane->client() : m_client;
    auto const size = nextSize();
    auto message = by.request(Type::Write);
    message.text(second ? m_lane->handle() : m_handle).number64(m_offset);
    TRY_LET(auto const got, m_fill(message.room(size), size));
    m_more = got == size && got > 0;
    if (got == 0)
        return {};
    message.shorten(static_cast<std::uint32_t>(got));
    m_flying.push_back({&by, by.send(std::move(message)), static_cast<std::uint32_t>(got)});
    (second ? m_outSecond : m_outFirst) += got;
    m_offset += got;
    return {};
}

/// Begins the next part of the way to a second lane when it is time.
Result<void> SftpWriter::advanceLane()
{
    if (m_divided == Divided::No && m_confirmed >= kWorthDividing && m_more) {
        m_lane.emplace(m_connection, m_lanePath, m_limits.deadline);
        m_divided = Divided::Opening;
    } else if (m_divided == Divided::Opening && m_lane->state() == SftpLane::State::Failed) {
        m_divided = Divided::Never;
    } else if (m_divided == Divided::Opening && m_lane->state() == SftpLane::State::Open && m_more) {
        return keepPiece();
    }
    return {};
}

/// Writes the secret where the next piece belongs, which waits for the proof.
Result<void> SftpWriter::keepPiece()
{
    auto const size = nextSize();
    if (size < m_secret.size() ||
        ::getrandom(m_secret.data(), m_secret.size(), 0) != static_cast<ssize_t>(m_secret.size())) {
        m_divided = Divided::Never;
        return {};
    }
    m_kept.bytes.resize(size);
    TRY_LET(auto const got, m_fill(m_kept.bytes.data(), size));
    m_more = got == size;
    m_kept.bytes.resize(got);
    m_kept.offset = m_offset;
    m_offset += got;
    if (got < m_secret.size()) { // the end has come: nothing is left to divide
        m_divided = Divided::Never;
        sendKept(m_client, m_handle);
        return {};
    }
    auto secret = m_client.request(Type::Write);
    secret.text(m_handle).number64(m_kept.offset);
    std::ranges::copy(m_secret, secret.room(static_cast<std::uint32_t>(m_secret.size())));
    m_flying.push_back({&m_client, m_client.send(std::move(secret)), 0});
    m_divided = Divided::Hiding;
    return {};
}

void SftpWriter::sendKept(SftpClient& by, std::string const& handle)
{
    auto const size = static_cast<std::uint32_t>(m_kept.bytes.size());
    if (size == 0)
        return;
    auto message = by.request(Type::Write);
    message.text(handle).number64(m_kept.offset).text(m_kept.bytes);
    m_flying.push_back({&by, by.send(std::move(message)), size});
    (&by == &m_client ? m_outFirst : m_outSecond) += size;
    m_kept = {};
}

Result<void> SftpWriter::settle(Flying const& flying)
{
    if (flying.size == 0 && m_divided == Divided::Proving)
        return settleProof(flying.id);
    TRY(flying.by->ok(flying.id, "write to", m_path, m_limits));
    m_confirmed += flying.size;
    (flying.by == &m_client ? m_outFirst : m_outSecond) -= flying.size;
    if (flying.size == 0) { // the secret is there
        m_divided = Divided::Proving;
        auto& second = m_lane->client();
        auto const proof =
            second.sendRead(m_lane->handle(), m_kept.offset, static_cast<std::uint32_t>(m_secret.size()));
        m_flying.push_back({&second, proof, 0});
    }
    return {};
}

Result<void> SftpWriter::settleProof(SftpClient::Id id)
{
    auto const answer = m_lane->client().await(id, m_limits);
    if (!answer && (answer.error().code == Errc::Timeout || answer.error().code == Errc::Cancelled))
        return std::unexpected(answer.error());
    auto const* const data = answer ? std::get_if<sftp::DataReply>(&answer->reply.body) : nullptr;
    auto const same = data != nullptr && data->bytes == std::string_view(m_secret.data(), m_secret.size());
    m_divided = same ? Divided::Yes : Divided::Never;
    if (same)
        sendKept(m_lane->client(), m_lane->handle());
    else
        sendKept(m_client, m_handle);
    return {};
}

} // namespace termalin::ssh
