#include "ssh/public_key.h"

#include <algorithm>
#include <array>

#include "ssh/wire.h"

namespace termalin::ssh {
namespace {

/// What follows the type in a blob: s a string, c the curve's name, m an mpint; and in a certificate after
/// the nonce.
struct KeyType {
    std::string_view plain;
    std::string_view certificate;
    std::string_view fields;
};

constexpr std::array<KeyType, 8> kTypes{{
    {"ssh-ed25519", "ssh-ed25519-cert-v01@openssh.com", "s"},
    {"ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256-cert-v01@openssh.com", "cs"},
    {"ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384-cert-v01@openssh.com", "cs"},
    {"ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521-cert-v01@openssh.com", "cs"},
    {"ssh-rsa", "ssh-rsa-cert-v01@openssh.com", "mm"},
    {"ssh-dss", "ssh-dss-cert-v01@openssh.com", "mmmm"},
    {"sk-ssh-ed25519@openssh.com", "sk-ssh-ed25519-cert-v01@openssh.com", "ss"},
    {"sk-ecdsa-sha2-nistp256@openssh.com", "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com", "css"},
}};

constexpr std::size_t kSmallestRsaBits = 1024; // SSH_RSA_MINIMUM_MODULUS_SIZE of OpenSSH

KeyType const* findType(std::string_view type) noexcept
{
    auto const* const found = std::ranges::find_if(
        kTypes, [&](KeyType const& row) { return type == row.plain || type == row.certificate; });
    return found == kTypes.end() ? nullptr : found;
}

std::size_t bitsOf(std::string_view magnitude) noexcept
{
    if (magnitude.empty())
        return 0;
    auto bits = (magnitude.size() - 1) * 8;
    for (auto first = static_cast<std::uint8_t>(magnitude.front()); first != 0; first >>= 1U)
        ++bits;
    return bits;
}

/// Copies the fields of one key; false if they are damaged.
bool copyFields(KeyType const& type, WireReader& in, WireWriter& out)
{
    for (std::size_t i = 0; i < type.fields.size(); ++i) {
        bool const isNumber = type.fields[i] == 'm';
        auto const field = isNumber ? in.mpint() : in.string();
        if (!field || field->empty())
            return false;
        if (type.fields[i] == 'c' && !type.plain.contains(*field))
            return false;
        if (type.plain == "ssh-rsa" && i == 1 && bitsOf(*field) < kSmallestRsaBits)
            return false;
        if (type.plain.contains("ed25519") && i == 0 && field->size() != 32)
            return false;
        isNumber ? out.mpint(*field) : out.string(*field);
    }
    return true;
}

/// The reader behind the key's fields, and the plain key.
std::optional<std::string> readPlain(WireReader& in)
{
    auto const name = in.string();
    auto const* const type = name ? findType(*name) : nullptr;
    if (type == nullptr)
        return std::nullopt;
    if (*name == type->certificate && !in.string()) // the nonce
        return std::nullopt;
    WireWriter out;
    out.string(type->plain);
    if (!copyFields(*type, in, out))
        return std::nullopt;
    return std::move(out).bytes();
}

bool readStrings(std::string_view packed, std::vector<std::string>& out)
{
    WireReader in(packed);
    while (!in.rest().empty()) {
        auto const text = in.string();
        if (!text)
            return false;
        out.emplace_back(*text);
    }
    return true;
}

/// Options are pairs of name and value; only the names matter here.
bool readOptionNames(std::string_view packed, std::vector<std::string>& out)
{
    std::vector<std::string> pairs;
    if (!readStrings(packed, pairs) || pairs.size() % 2 != 0)
        return false;
    for (std::size_t i = 0; i < pairs.size(); i += 2)
        out.push_back(std::move(pairs[i]));
    return true;
}

} // namespace

bool isCertificateType(std::string_view type) noexcept
{
    return type.ends_with("-cert-v01@openssh.com");
}

std::string_view plainType(std::string_view type) noexcept
{
    // These two are names of signatures. As names of keys they mean an RSA key, for ssh as well.
    if (type == "rsa-sha2-256" || type == "rsa-sha2-512")
        return "ssh-rsa";
    auto const* const row = findType(type);
    return row == nullptr ? std::string_view{} : row->plain;
}

std::string_view blobType(std::string_view blob) noexcept
{
    return WireReader(blob).string().value_or(std::string_view{});
}

std::optional<std::string> plainKey(std::string_view blob)
{
    WireReader in(blob);
    auto plain = readPlain(in);
    if (!plain || (!isCertificateType(blobType(blob)) && !in.done()))
        return std::nullopt;
    if (isCertificateType(blobType(blob)) && !parseCertificate(blob))
        return std::nullopt;
    return plain;
}

std::optional<Certificate> parseCertificate(std::string_view blob)
{
    if (!isCertificateType(blobType(blob)))
        return std::nullopt;
    WireReader in(blob);
    if (!readPlain(in))
        return std::nullopt;
    auto const serial = in.u64();
    auto const kind = in.u32();
    auto const keyId = in.string();
    auto const principals = in.string();
    auto const after = in.u64();
    auto const before = in.u64();
    auto const critical = in.string();
    auto const extensions = in.string();
    in.string(); // reserved
    auto const authority = in.string();
    if (in.failed())
        return std::nullopt;
    auto const signedPart = blob.substr(0, blob.size() - in.rest().size());
    auto const signature = in.string();
    if (!in.done() || *kind < 1 || *kind > 2)
        return std::nullopt;

    Certificate certificate;
    certificate.forHost = *kind == 2;
    certificate.serial = *serial;
    certificate.keyId = *keyId;
    certificate.validAfter = *after;
    certificate.validBefore = *before;
    std::vector<std::string> ignored;
    if (!readStrings(*principals, certificate.principals) ||
        !readOptionNames(*critical, certificate.criticalOptions) || !readOptionNames(*extensions, ignored))
        return std::nullopt;
    // An authority that is a certificate itself would be a chain; there are none (PROTOCOL.certkeys).
    auto plainAuthority = isCertificateType(blobType(*authority)) ? std::nullopt : plainKey(*authority);
    if (!plainAuthority)
        return std::nullopt;
    certificate.authority = std::move(*plainAuthority);
    certificate.signatureType = blobType(*signature);
    certificate.signatureHolds = verifySignature(certificate.authority, *signature, signedPart);
    return certificate;
}

} // namespace termalin::ssh
