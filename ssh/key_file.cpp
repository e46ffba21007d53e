#include "ssh/key_file.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include "core/unique_fd.h"
#include "ssh/detail_crypto.h"
#include "ssh/detail_openssh_key.h"
#include "ssh/public_key.h"
#include "ssh/wire.h"

namespace termalin::ssh {
namespace {

using Kind = KeyFileError::Kind;

constexpr std::size_t kLargestKeyFile = 1024 * 1024; // MAX_KEY_FILE_SIZE of OpenSSH
constexpr std::string_view kOpenSshBegin = "-----BEGIN OPENSSH PRIVATE KEY-----";
constexpr std::string_view kOpenSshEnd = "-----END OPENSSH PRIVATE KEY-----";

std::unexpected<KeyFileError> wrong(Kind kind, std::string message)
{
    return std::unexpected(KeyFileError{kind, std::move(message)});
}

std::expected<std::string, KeyFileError> readBytes(std::string const& path, bool secret)
{
    UniqueFd const fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!fd && (errno == ENOENT || errno == ENOTDIR))
        return wrong(Kind::Missing, fmt::format("there is no file \"{}\"", path));
    struct stat info{};
    if (!fd || ::fstat(fd.get(), &info) != 0)
        return wrong(Kind::Unreadable,
                     systemError({}, fmt::format("\"{}\" cannot be read", path), errno).message);
    if (!S_ISREG(info.st_mode))
        return wrong(Kind::Unreadable, fmt::format("\"{}\" is not a file", path));
    // Only what is ours can be judged: on some systems a key that is root's is meant for a group.
    if (secret && info.st_uid == ::getuid() && (info.st_mode & 077U) != 0)
        return wrong(Kind::TooOpen,
                     fmt::format("\"{0}\" can be read by others (mode {1:04o}), so it is not used, as ssh "
                                 "does not; run \"chmod 600 {0}\"",
                                 path, info.st_mode & 07777U));
    std::string text;
    std::array<char, 16384> piece{};
    for (;;) {
        auto const count = ::read(fd.get(), piece.data(), piece.size());
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return wrong(Kind::Unreadable,
                         systemError({}, fmt::format("\"{}\" cannot be read", path), errno).message);
        if (count == 0)
            break;
        text.append(piece.data(), static_cast<std::size_t>(count));
        if (text.size() > kLargestKeyFile)
            return wrong(Kind::Damaged, fmt::format("\"{}\" is too large to be a key", path));
    }
    ::explicit_bzero(piece.data(), piece.size());
    return text;
}

/// The key of a line "type base64 comment"; empty if it is none.
std::string keyOfLine(std::string_view text)
{
    auto const line = text.substr(0, text.find_first_of("\r\n"));
    auto const blank = line.find_first_of(" \t");
    if (blank == std::string_view::npos)
        return {};
    auto const rest = line.substr(std::min(line.find_first_not_of(" \t", blank), line.size()));
    auto blob = fromBase64(rest.substr(0, rest.find_first_of(" \t")));
    if (!blob || blobType(*blob) != line.substr(0, blank) || !plainKey(*blob))
        return {};
    return std::move(*blob);
}

int givePassphrase(char* buffer, int size, int /*writing*/, void* given)
{
    auto& asked = *static_cast<std::pair<Secret const*, bool>*>(given);
    asked.second = true;
    if (asked.first == nullptr)
        return -1;
    auto const text = asked.first->reveal();
    if (std::cmp_greater(text.size(), size))
        return -1;
    text.copy(buffer, text.size());
    return static_cast<int>(text.size());
}

struct PemRead {
    EvpKey key;
    bool askedForPassphrase = false;
};

PemRead readPem(std::string_view text, Secret const* passphrase)
{
    std::unique_ptr<BIO, Freed<BIO_free_all>> const in(
        BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    std::pair<Secret const*, bool> asked{passphrase, false};
    EvpKey key(PEM_read_bio_PrivateKey(in.get(), nullptr, &givePassphrase, &asked));
    ERR_clear_error();
    return {std::move(key), asked.second};
}

/// Whether the armour and the base64 are whole, which needs no passphrase.
bool isWholePem(std::string_view text)
{
    std::unique_ptr<BIO, Freed<BIO_free_all>> const in(
        BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    char* name = nullptr;
    char* header = nullptr;
    unsigned char* data = nullptr;
    long size = 0;
    bool const whole = PEM_read_bio(in.get(), &name, &header, &data, &size) == 1;
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_clear_free(data, whole ? static_cast<std::size_t>(size) : 0);
    ERR_clear_error();
    return whole;
}

/// Signs with a key that was read from a file.
class FileKey : public Signer {
public:
    FileKey(std::string path, EvpKey key)
        : m_path(std::move(path)), m_key(std::move(key)), m_public(sshBlob(m_key.get()))
    {
    }
    [[nodiscard]] std::string_view publicKey() const override { return m_public; }
    Result<std::string> sign(std::string_view data, std::string_view algorithm) override
    {
        auto signature = signWith(m_key.get(), algorithm, data);
        if (signature.empty())
            return fail(Errc::Unsupported,
                        fmt::format("{} cannot make a signature of the kind {}.", describe(), algorithm));
        return signature;
    }
    [[nodiscard]] std::string describe() const override { return fmt::format("key file \"{}\"", m_path); }

private:
    std::string m_path;
    EvpKey m_key;
    std::string m_public;
};

} // namespace

std::expected<KeyFile, KeyFileError> KeyFile::read(std::filesystem::path const& file)
{
    KeyFile key;
    key.m_path = file.string();
    auto text = readBytes(key.m_path, true);
    if (!text && (text.error().kind == Kind::Missing || text.error().kind == Kind::TooOpen)) {
        // A public key may be read by all, and an agent may hold the private half of it.
        auto const other = readBytes(key.m_path, false);
        key.m_public = keyOfLine(other.value_or(std::string{}));
        if (key.m_public.empty() && text.error().kind == Kind::Missing)
            key.m_public = keyOfLine(readBytes(key.m_path + ".pub", false).value_or(std::string{}));
        if (!key.m_public.empty())
            return key;
    }
    if (!text)
        return std::unexpected(std::move(text).error());
    Secret content(std::move(*text));
    auto const whole = content.reveal();
    key.m_public = keyOfLine(whole);
    if (!key.m_public.empty())
        return key;

    auto const damaged = [&] {
        return wrong(Kind::Damaged, fmt::format("\"{}\" is not a private key, or is damaged", key.m_path));
    };
    if (auto const begin = whole.find(kOpenSshBegin); begin != std::string_view::npos) {
        auto const from = begin + kOpenSshBegin.size();
        auto const end = whole.find(kOpenSshEnd, from);
        auto bytes =
            end == std::string_view::npos ? std::nullopt : fromBase64(whole.substr(from, end - from));
        if (!bytes)
            return damaged();
        key.m_content = Secret(std::move(*bytes));
        auto const parsed = detail::parseOpenSshKey(key.m_content.reveal());
        if (parsed.publicKey.empty())
            return damaged();
        key.m_form = Form::OpenSsh;
        key.m_encrypted = parsed.cipher != "none";
        key.m_public = parsed.publicKey;
        return key;
    }
    if (!whole.contains("-----BEGIN ") || !isWholePem(whole))
        return damaged();
    key.m_form = Form::Pem;
    auto const tried = readPem(whole, nullptr);
    key.m_encrypted = tried.askedForPassphrase;
    if (tried.key)
        key.m_public = sshBlob(tried.key.get());
    else if (!tried.askedForPassphrase)
        return damaged();
    else
        key.m_public = keyOfLine(readBytes(key.m_path + ".pub", false).value_or(std::string{}));
    if (tried.key && key.m_public.empty())
        return wrong(Kind::Unsupported,
                     fmt::format("\"{}\" holds a key of a type that SSH does not use", key.m_path));
    key.m_content = std::move(content);
    return key;
}

std::expected<std::shared_ptr<Signer>, KeyFileError> KeyFile::open(Secret const* passphrase) const
{
    if (m_form == Form::PublicOnly)
        return wrong(
            Kind::Missing,
            fmt::format("\"{}\" has only the public half of its key, and no agent has the other", m_path));
    if (m_form == Form::OpenSsh) {
        auto key = detail::openOpenSshKey(detail::parseOpenSshKey(m_content.reveal()), passphrase, m_path);
        if (!key)
            return std::unexpected(std::move(key).error());
        return std::make_shared<FileKey>(m_path, std::move(*key));
    }
    if (m_encrypted && (passphrase == nullptr || passphrase->empty()))
        return wrong(Kind::NeedsPassphrase, fmt::format("\"{}\" needs its passphrase", m_path));
    auto tried = readPem(m_content.reveal(), passphrase);
    if (!tried.key)
        return wrong(m_encrypted ? Kind::WrongPassphrase : Kind::Damaged,
                     m_encrypted ? fmt::format("the passphrase of \"{}\" is wrong", m_path)
                                 : fmt::format("\"{}\" is damaged", m_path));
    if (sshBlob(tried.key.get()).empty())
        return wrong(Kind::Unsupported,
                     fmt::format("\"{}\" holds a key of a type that SSH does not use", m_path));
    return std::make_shared<FileKey>(m_path, std::move(tried.key));
}

Result<std::string> readPublicKeyFile(std::filesystem::path const& file)
{
    auto const text = readBytes(file.string(), false);
    if (!text)
        return fail(text.error().kind == Kind::Missing ? Errc::NotFound : Errc::PermissionDenied,
                    text.error().message);
    auto key = keyOfLine(*text);
    if (key.empty())
        return fail(Errc::InvalidArgument,
                    fmt::format("\"{}\" is not a public key or certificate", file.string()));
    return key;
}

} // namespace termalin::ssh
