#include "ssh/known_hosts.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "core/unique_fd.h"
#include "ssh/detail_crypto.h"
#include "ssh/detail_known_hosts.h"
#include "ssh/public_key.h"
#include "ssh/wire.h"

namespace termalin::ssh {
namespace {

constexpr off_t kLargestFile = 64L * 1024 * 1024;
constexpr std::string_view kBlank = " \t";

void skipBlank(std::string_view& text)
{
    text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
}

/// The first word, taken off `text` together with the blanks behind it.
std::string_view takeWord(std::string_view& text)
{
    auto const word = text.substr(0, text.find_first_of(kBlank));
    text.remove_prefix(word.size());
    skipBlank(text);
    return word;
}

Result<std::string> readFile(std::filesystem::path const& file)
{
    // Not blocking, since a pipe in a file's place would hold up the login for ever.
    UniqueFd const fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    auto const attempted = fmt::format("reading the trusted host keys in \"{}\"", file.string());
    if (!fd) {
        if (errno == ENOENT || errno == ENOTDIR)
            return std::string{};
        return std::unexpected(systemError(Errc::PermissionDenied, attempted, errno));
    }
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0)
        return std::unexpected(systemError(Errc::PermissionDenied, attempted, errno));
    if (!S_ISREG(info.st_mode) && !S_ISCHR(info.st_mode)) // /dev/null is a usual way to say "none"
        return fail(Errc::PermissionDenied, attempted + ": it is not a file");
    std::string text;
    std::array<char, 16'384> piece; // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
    for (;;) {
        auto const count = ::read(fd.get(), piece.data(), piece.size());
        if (count == 0)
            return text;
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return std::unexpected(systemError(Errc::PermissionDenied, attempted, errno));
        text.append(piece.data(), static_cast<std::size_t>(count));
        if (std::cmp_greater(text.size(), kLargestFile))
            return fail(Errc::TooLarge, attempted + ": it is larger than 64 MiB");
    }
}

/// The names under which ssh looks a server up, the one that counts first.
std::vector<std::string> lookupNames(std::string_view host, std::uint16_t port)
{
    std::vector<std::string> names{detail::recordedName(host, port)};
    if (port != 22 && port != 0)
        names.emplace_back(host);
    return names;
}

/// Signature algorithms and key types, the ones we would rather have first.
constexpr std::array<std::string_view, 6> kPlainTypes{
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa", "ssh-dss"};

} // namespace

std::string fingerprint(std::string_view keyBlob)
{
    auto const plain = isCertificateType(blobType(keyBlob)) ? plainKey(keyBlob) : std::nullopt;
    auto text = base64(sha256(plain ? std::string_view(*plain) : keyBlob));
    text.erase(text.find_last_not_of('=') + 1);
    return "SHA256:" + text;
}

KnownHostsName knownHostsName(Target const& target)
{
    if (!target.hostKeyAlias.empty())
        return {target.hostKeyAlias, 22};
    return {detail::lowerCase(target.hostname), target.port};
}

Result<KnownHosts> KnownHosts::load(std::span<std::filesystem::path const> files)
{
    KnownHosts known;
    for (auto const& file : files) {
        TRY_LET(auto const text, readFile(file));
        known.add(text, file.string());
    }
    return known;
}

KnownHosts KnownHosts::parse(std::string_view text, std::string_view name)
{
    KnownHosts known;
    known.add(text, name);
    return known;
}

void KnownHosts::add(std::string_view text, std::string_view name)
{
    for (std::size_t number = 1; !text.empty(); ++number) {
        auto const line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        addLine(line, fmt::format("{}:{}", name, number));
    }
}

void KnownHosts::addLine(std::string_view line, std::string where)
{
    auto const parsed = detail::splitLine(line);
    if (!parsed.problem.empty()) {
        m_problems.push_back(where + ": " + parsed.problem);
        return;
    }
    if (parsed.names.empty())
        return;
    Line kept;
    kept.marker = parsed.marker == "@cert-authority" ? Line::Marker::CertAuthority
                  : parsed.marker == "@revoked"      ? Line::Marker::Revoked
                                                     : Line::Marker::None;
    kept.names = parsed.names;
    kept.key = {parsed.keyType, parsed.plainKey};
    kept.where = std::move(where);
    m_lines.push_back(std::move(kept));
}

std::vector<KnownHosts::Line const*> KnownHosts::matching(Line::Marker marker, std::string_view name) const
{
    std::vector<Line const*> found;
    for (auto const& line : m_lines)
        if (line.marker == marker && detail::matchesNames(name, line.names))
            found.push_back(&line);
    return found;
}

HostKeyAnswer KnownHosts::checkCertificate(std::span<std::string const> names, std::string_view host,
                                           std::string_view blob, std::int64_t now) const
{
    auto const certificate = parseCertificate(blob);
    if (!certificate)
        return {HostKeyVerdict::BadCertificate, {}, {}, "it is damaged"};
    HostKeyAnswer answer;
    for (auto const& name : names)
        for (auto const* line : matching(Line::Marker::CertAuthority, name)) {
            if (line->key.blob == certificate->authority) {
                auto why = whyNotFor(*certificate, host, now);
                if (why.empty() || whyNotFor(*certificate, detail::lowerCase(host), now).empty())
                    return {HostKeyVerdict::Trusted, line->where, {}, {}};
                return {HostKeyVerdict::BadCertificate, line->where, {}, std::move(why)};
            }
            if (answer.verdict == HostKeyVerdict::NewHost)
                answer = {HostKeyVerdict::BadCertificate,
                          line->where,
                          {},
                          "it was not signed by an authority that is trusted for this server"};
        }
    return answer;
}

HostKeyAnswer KnownHosts::checkPlain(std::string_view name, std::string_view plain) const
{
    HostKeyAnswer answer;
    for (auto const* line : matching(Line::Marker::None, name)) {
        bool const isCertificate = isCertificateType(line->key.type);
        if (!isCertificate && line->key.blob == plain)
            return {HostKeyVerdict::Trusted, line->where, {}, {}};
        if (!isCertificate && blobType(line->key.blob) == blobType(plain)) {
            if (answer.verdict != HostKeyVerdict::Changed)
                answer.where = line->where;
            answer.verdict = HostKeyVerdict::Changed;
            answer.knownFingerprints.push_back(fingerprint(line->key.blob));
        } else if (answer.verdict == HostKeyVerdict::NewHost) {
            answer.verdict = HostKeyVerdict::NewType;
            answer.where = line->where;
        }
    }
    return answer;
}

HostKeyAnswer KnownHosts::check(std::string_view host, std::uint16_t port, ServerKey const& key,
                                std::int64_t now) const
{
    auto const names = lookupNames(host, port);
    auto const plain = plainKey(key.blob).value_or(key.blob);
    auto const certificate = parseCertificate(key.blob);
    for (auto const& name : names)
        for (auto const* line : matching(Line::Marker::Revoked, name))
            if (line->key.blob == plain || (certificate && line->key.blob == certificate->authority))
                return {HostKeyVerdict::Revoked, line->where, {}, {}};

    HostKeyAnswer certified;
    if (isCertificateType(key.type))
        certified = checkCertificate(names, host, key.blob, now);
    if (certified.verdict == HostKeyVerdict::Trusted)
        return certified;
    auto answer = checkPlain(names.front(), plain);
    if (answer.verdict == HostKeyVerdict::NewHost && names.size() > 1) {
        auto withoutPort = checkPlain(names.back(), plain);
        if (withoutPort.verdict == HostKeyVerdict::Trusted)
            return withoutPort;
    }
    // What is wrong with a certificate is worth more than that its key is not known.
    bool const unknown =
        answer.verdict == HostKeyVerdict::NewHost || answer.verdict == HostKeyVerdict::NewType;
    return unknown && certified.verdict == HostKeyVerdict::BadCertificate ? certified : answer;
}

std::vector<std::string> KnownHosts::knownTypes(std::string_view host, std::uint16_t port) const
{
    std::vector<std::string> types;
    auto const names = lookupNames(host, port);
    auto const has = [&](auto const& wanted) {
        return std::ranges::any_of(m_lines, [&](Line const& line) {
            return wanted(line) && std::ranges::any_of(names, [&](std::string const& name) {
                       return detail::matchesNames(name, line.names);
                   });
        });
    };
    // Whatever kind of key an authority has, it can sign every kind.
    if (has([](Line const& line) { return line.marker == Line::Marker::CertAuthority; }))
        for (auto const type : kPlainTypes)
            types.push_back(std::string(type) + "-cert-v01@openssh.com");
    for (auto const type : kPlainTypes)
        if (has([&](Line const& line) { return line.marker == Line::Marker::None && line.key.type == type; }))
            types.emplace_back(type);
    return types;
}

namespace detail {

std::string lowerCase(std::string_view text)
{
    std::string lower(text);
    for (auto& c : lower)
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
    return lower;
}

std::string recordedName(std::string_view host, std::uint16_t port)
{
    return port == 22 || port == 0 ? std::string(host) : fmt::format("[{}]:{}", host, port);
}

SplitLine splitLine(std::string_view line)
{
    SplitLine split;
    line = line.substr(0, line.find('\0')); // for ssh a line ends there
    skipBlank(line);
    if (line.empty() || line.front() == '#' || line == "\r")
        return split;
    if (line.front() == '@') {
        // ssh ends a marker at the first space, and only without any at a tab. It so misses a revocation that
        // is followed by a tab; missing one is the last thing to imitate.
        auto word = line.substr(0, line.find(' '));
        if (word.size() == line.size() || word.starts_with("@revoked\t"))
            word = line.substr(0, line.find('\t'));
        if ((word != "@cert-authority" && word != "@revoked") || word.size() == line.size()) {
            split.problem = "an unknown marker";
            return split;
        }
        split.marker = word;
        line.remove_prefix(word.size());
        skipBlank(line);
        if (!line.empty() && line.front() == '@') {
            split.problem = "more than one marker";
            return split;
        }
    }
    split.before = line.data();
    auto const names = takeWord(line);
    if (line.empty() || line.front() == '#') {
        split.problem = "no key behind the names";
        return split;
    }
    if (names.starts_with('|') && !parseHashed(names)) {
        split.problem = "a damaged hashed name";
        return split;
    }
    auto const typeWord = takeWord(line);
    auto const type = isCertificateType(typeWord) ? typeWord : plainType(typeWord);
    auto const blob = fromBase64(takeWord(line));
    auto plain = blob ? plainKey(*blob) : std::nullopt;
    if (!plain || type.empty() || blobType(*blob) != type) {
        split.problem = "a key of an unknown type, or damaged";
        return split;
    }
    split.names = names;
    split.keyType = type;
    split.plainKey = std::move(*plain);
    return split;
}

} // namespace detail
} // namespace termalin::ssh
