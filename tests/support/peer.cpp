#include "tests/support/peer.h"

#include <arpa/inet.h>
#include <array>
#include <fcntl.h>
#include <fstream>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdexcept>
#include <sys/socket.h>

#include "ssh/detail_crypto.h"
#include "ssh/wire.h"
#include "tests/support/relay.h"

namespace termalin::test {
namespace {

using ssh::bytesOf;
using ssh::EvpKey;
using ssh::WireReader;
using ssh::WireWriter;

constexpr std::string_view kVersion = "SSH-2.0-OddServer";
constexpr std::size_t kBlock = 16;
constexpr std::size_t kMac = 32;

enum Message : std::uint8_t {
    ServiceRequest = 5,
    ServiceAccept = 6,
    ExtInfo = 7,
    KexInit = 20,
    NewKeys = 21,
    EcdhInit = 30,
    EcdhReply = 31,
    AuthRequest = 50,
    AuthSuccess = 52,
};

void need(bool held, char const* what)
{
    if (!held)
        throw std::runtime_error(std::string("the peer: ") + what);
}

/// The same for all, and worth nothing.
EvpKey hostKey()
{
    std::string const seed(32, 'k');
    return EvpKey(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytesOf(seed), seed.size()));
}

std::string rawPublic(EVP_PKEY* key)
{
    std::string bytes(32, '\0');
    auto size = bytes.size();
    need(EVP_PKEY_get_raw_public_key(key, bytesOf(bytes), &size) == 1, "no public key");
    return bytes;
}

std::string agree(EVP_PKEY* own, std::string_view theirs)
{
    EvpKey const other(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, bytesOf(theirs), theirs.size()));
    std::unique_ptr<EVP_PKEY_CTX, ssh::Freed<EVP_PKEY_CTX_free>> const context(
        EVP_PKEY_CTX_new(own, nullptr));
    std::string secret(32, '\0');
    auto size = secret.size();
    need(other && EVP_PKEY_derive_init(context.get()) == 1 &&
             EVP_PKEY_derive_set_peer(context.get(), other.get()) == 1 &&
             EVP_PKEY_derive(context.get(), bytesOf(secret), &size) == 1,
         "no shared secret");
    return secret;
}

std::string kexInit()
{
    WireWriter out;
    out.byte(KexInit).raw(std::string(16, 'c'));
    for (auto const* const names : {"curve25519-sha256", "ssh-ed25519", "aes128-ctr", "aes128-ctr",
                                    "hmac-sha2-256", "hmac-sha2-256", "none", "none", "", ""})
        out.string(names);
    return out.byte(0).u32(0).bytes();
}

} // namespace

/// One direction's cipher, integrity key and count of packets.
struct Peer::Direction {
    std::unique_ptr<EVP_CIPHER_CTX, ssh::Freed<EVP_CIPHER_CTX_free>> cipher;
    std::string macKey;
    std::uint32_t sequence = 0;

    void keyed(std::string const& key, std::string const& iv)
    {
        cipher.reset(EVP_CIPHER_CTX_new());
        need(EVP_EncryptInit_ex(cipher.get(), EVP_aes_128_ctr(), nullptr, bytesOf(key), bytesOf(iv)) == 1,
             "no cipher");
    }
    [[nodiscard]] std::string crypt(std::string bytes) const
    {
        int size = 0;
        if (cipher)
            EVP_EncryptUpdate(cipher.get(), bytesOf(bytes), &size, bytesOf(bytes),
                              static_cast<int>(bytes.size()));
        return bytes;
    }
    [[nodiscard]] std::string mac(std::string_view packet) const
    {
        if (!cipher)
            return {};
        auto const bytes = WireWriter().u32(sequence).raw(packet).bytes();
        std::string mac(kMac, '\0');
        HMAC(EVP_sha256(), macKey.data(), static_cast<int>(macKey.size()), bytesOf(bytes), bytes.size(),
             bytesOf(mac), nullptr);
        return mac;
    }
};

Peer::Peer(UniqueFd stream)
    : m_stream(std::move(stream)), m_in(std::make_unique<Direction>()), m_out(std::make_unique<Direction>())
{
}

Peer::~Peer() = default;

void Peer::write(std::string_view bytes)
{
    while (!bytes.empty()) {
        auto const put = ::send(m_stream.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        need(put > 0, "the other side is gone");
        bytes.remove_prefix(static_cast<std::size_t>(put));
    }
}

std::string Peer::read(std::size_t size)
{
    std::string bytes(size, '\0');
    need(size == 0 || ::recv(m_stream.get(), bytes.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size),
         "the other side is gone");
    return bytes;
}

/// RFC 4253 6.
void Peer::send(std::string_view payload)
{
    auto padding = kBlock - (5 + payload.size()) % kBlock;
    padding += padding < 4 ? kBlock : 0;
    auto const packet = WireWriter()
                            .u32(static_cast<std::uint32_t>(1 + payload.size() + padding))
                            .byte(static_cast<std::uint8_t>(padding))
                            .raw(payload)
                            .raw(std::string(padding, '\0'))
                            .bytes();
    write(m_out->crypt(packet) + m_out->mac(packet));
    ++m_out->sequence;
}

std::string Peer::receive()
{
    auto packet = m_in->crypt(read(kBlock));
    auto const size = WireReader(packet).u32().value_or(0);
    need(size >= 12 && size < 100'000, "a packet of no sensible size");
    packet += m_in->crypt(read(size + 4 - kBlock));
    need(read(m_in->cipher ? kMac : 0) == m_in->mac(packet), "a packet that is not whole");
    ++m_in->sequence;
    return packet.substr(5, size - 1 - static_cast<unsigned char>(packet[4]));
}

/// RFC 8731 with the hash of RFC 5656 4, then the keys of RFC 4253 7.2.
void Peer::exchangeKeys()
{
    auto const ours = kexInit();
    send(ours);
    auto const theirs = receive();
    auto const init = receive();
    need(init.front() == EcdhInit, "no key exchange");
    auto const theirKey = std::string(WireReader(std::string_view(init).substr(1)).string().value_or(""));

    EvpKey const own(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"));
    auto const ownKey = rawPublic(own.get());
    auto const key = hostKey();
    auto const blob = WireWriter().string("ssh-ed25519").string(rawPublic(key.get())).bytes();
    auto const secret = WireWriter().mpint(agree(own.get(), theirKey)).bytes();
    auto const hash = ssh::sha256(WireWriter()
                                      .string(m_theirVersion)
                                      .string(kVersion)
                                      .string(theirs)
                                      .string(ours)
                                      .string(blob)
                                      .string(theirKey)
                                      .string(ownKey)
                                      .raw(secret)
                                      .bytes());
    auto const signature = ssh::signWith(key.get(), "ssh-ed25519", hash);
    send(WireWriter().byte(EcdhReply).string(blob).string(ownKey).string(signature).bytes());
    send(WireWriter().byte(NewKeys).bytes());
    need(receive().front() == NewKeys, "no new keys");

    auto const derived = [&](char letter) { return ssh::sha256(secret + hash + letter + hash); };
    m_in->keyed(derived('C').substr(0, 16), derived('A').substr(0, 16));
    m_out->keyed(derived('D').substr(0, 16), derived('B').substr(0, 16));
    m_in->macKey = derived('E');
    m_out->macKey = derived('F');
}

void Peer::hangUp()
{
    ::shutdown(m_stream.get(), SHUT_RDWR);
}

void Peer::greet(Accepts accepts, std::string const& signatures)
{
    write(std::string(kVersion) + "\r\n");
    while (!m_theirVersion.ends_with("\r\n"))
        m_theirVersion += read(1);
    m_theirVersion.resize(m_theirVersion.size() - 2);
    exchangeKeys();
    if (!signatures.empty())
        send(WireWriter().byte(ExtInfo).u32(1).string("server-sig-algs").string(signatures).bytes());
    need(receive().front() == ServiceRequest, "no service was asked for");
    auto const accepted = WireWriter().byte(ServiceAccept).string("ssh-userauth").bytes();
    if (accepts == Accepts::First)
        send(accepted);
    m_request = receive();
    if (accepts == Accepts::AfterTheRequest)
        send(accepted);
    need(m_request.front() == AuthRequest, "no login");
}

void Peer::welcome()
{
    greet();
    send(WireWriter().byte(AuthSuccess).bytes());
}

HostileServer::HostileServer(Play play, Begins begins, std::string signatures)
    : m_listener(listenOnLoopback(m_port))
{
    auto const key = hostKey();
    auto const blob = WireWriter().string("ssh-ed25519").string(rawPublic(key.get())).bytes();
    std::ofstream(m_dir.path() / "known_hosts")
        << "[127.0.0.1]:" << m_port << " ssh-ed25519 " << ssh::base64(blob) << '\n';
    m_thread = std::jthread([this, begins, play = std::move(play), signatures = std::move(signatures)] {
        UniqueFd client(::accept4(m_listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        {
            std::lock_guard const lock(m_mutex);
            m_stream = UniqueFd(::fcntl(client.get(), F_DUPFD_CLOEXEC, 0));
        }
        try {
            Peer peer(std::move(client));
            if (begins == Begins::AfterLogin)
                peer.welcome();
            else
                peer.greet(begins == Begins::WithLogin ? Peer::Accepts::First
                                                       : Peer::Accepts::AfterTheRequest,
                           signatures);
            play(peer);
        } catch (std::runtime_error const&) { // NOLINT(bugprone-empty-catch): the end that most plays come to
        }
    });
}

HostileServer::~HostileServer()
{
    ::shutdown(m_listener.get(), SHUT_RDWR);
    std::lock_guard const lock(m_mutex);
    if (m_stream)
        ::shutdown(m_stream.get(), SHUT_RDWR);
}

ssh::Route HostileServer::route() const
{
    ssh::Target target;
    target.name = "hostile server";
    target.hostname = "127.0.0.1";
    target.port = m_port;
    target.user = "nobody";
    target.knownHostsFiles = {(m_dir.path() / "known_hosts").string()};
    target.serverAliveInterval = std::chrono::seconds(0);
    return {{target}};
}

ssh::LoginContext HostileServer::context() const
{
    ssh::LoginContext context;
    context.ownKnownHosts = m_dir.path() / "own_known_hosts";
    context.credentials = std::make_shared<ssh::NoCredentials>();
    return context;
}

} // namespace termalin::test
