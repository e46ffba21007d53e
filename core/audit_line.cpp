#include "core/audit_line.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sodium.h>
#include <unistd.h>

#include "core/json.h"
#include "core/unicode.h"

namespace termalin {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::size_t kSubjectBytes = 8192;
constexpr std::size_t kFieldBytes = 1024;
constexpr std::string_view kMark = "[hidden]";
/// A shorter secret is replaced only where it stands alone: as a part of words it would leave nothing
/// readable.
constexpr std::size_t kShortSecret = 4;

std::string now()
{
    timespec time{};
    (void)::clock_gettime(CLOCK_REALTIME, &time); // this clock is always there
    tm parts{};
    (void)::gmtime_r(&time.tv_sec, &parts); // fails only where the year is no int
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, time.tv_nsec / 1'000'000);
}

/// The first `most` bytes, but no part of a character.
std::string_view cut(std::string_view text, std::size_t most)
{
    if (text.size() <= most)
        return text;
    while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U)
        --most;
    return text.substr(0, most);
}

void put(Ordered& line, char const* key, std::string_view value, Mask const& mask,
         std::size_t most = kFieldBytes)
{
    if (value.empty())
        return;
    auto const masked = mask.apply(value);
    line[key] = cut(masked, most);
    if (masked.size() > most && most == kSubjectBytes) {
        line[fmt::format("{}Bytes", key)] = masked.size();
        line[fmt::format("{}Sha256", key)] = sha256(masked);
    }
}

Ordered begun(ChainEnd const& end, std::string_view kind)
{
    return Ordered{{"n", end.number + 1}, {"time", now()}, {"kind", kind}, {"pid", ::getpid()}};
}

std::string finished(Ordered line, ChainEnd const& end)
{
    line["prev"] = end.hash;
    return withVisibleCharacters(line.dump(-1, ' ', false, Ordered::error_handler_t::replace)) + '\n';
}

void appendEscape(std::string& text, char32_t c)
{
    if (c > 0xFFFF) {
        appendEscape(text, 0xD800 + ((c - 0x10000) >> 10U));
        appendEscape(text, 0xDC00 + ((c - 0x10000) & 0x3FFU));
        return;
    }
    text += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
}

bool isWordByte(char c)
{
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

bool standsAlone(std::string_view text, std::size_t at, std::size_t length)
{
    return (at == 0 || !isWordByte(text[at - 1])) &&
           (at + length == text.size() || !isWordByte(text[at + length]));
}

} // namespace

std::string sha256(std::string_view bytes)
{
    std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
    crypto_hash_sha256(digest.data(), reinterpret_cast<unsigned char const*>(bytes.data()), bytes.size());
    return fmt::format("{:02x}", fmt::join(digest, ""));
}

void Mask::add(Secret const& secret)
{
    if (secret.empty())
        return;
    auto const insert = [this](Secret one) {
        if (std::ranges::any_of(m_secrets,
                                [&](Secret const& known) { return known.reveal() == one.reveal(); }))
            return;
        auto const place = std::ranges::find_if(
            m_secrets, [&](Secret const& known) { return known.reveal().size() < one.reveal().size(); });
        m_secrets.insert(place, std::move(one));
    };
    insert(secret.clone());
    // As it stands in single quotes of a shell.
    std::string quoted;
    for (auto const c : secret.reveal())
        c == '\'' ? quoted += "'\\''" : quoted += c;
    insert(Secret(std::move(quoted)));
}

std::string Mask::apply(std::string_view text) const
{
    std::string masked(text);
    for (auto const& secret : m_secrets) {
        auto const bytes = secret.reveal();
        for (std::size_t at = 0; (at = masked.find(bytes, at)) != std::string::npos;) {
            if (bytes.size() < kShortSecret && !standsAlone(masked, at, bytes.size())) {
                ++at;
                continue;
            }
            masked.replace(at, bytes.size(), kMark);
            at += kMark.size();
        }
    }
    return masked;
}

std::string maskedSubject(std::string_view subject, Mask const& mask)
{
    return std::string(cut(mask.apply(subject), kSubjectBytes));
}

std::string callLine(ChainEnd const& end, std::string_view kind, AuditCall const& call, Mask const& mask)
{
    auto line = begun(end, kind);
    put(line, "client", call.client, mask);
    put(line, "clientProgram", call.clientProgram, mask);
    put(line, "tool", call.tool, mask);
    put(line, "host", call.host, mask);
    put(line, "subject", call.subject, mask, kSubjectBytes);
    put(line, "decision", call.decision, mask);
    put(line, "because", call.because, mask, kSubjectBytes);
    return finished(std::move(line), end);
}

std::string outcomeLine(ChainEnd const& end, std::int64_t of, AuditOutcome const& outcome, Mask const& mask)
{
    auto line = begun(end, "end");
    line["of"] = of;
    put(line, "result", outcome.result, mask);
    if (outcome.exitCode)
        line["exitCode"] = *outcome.exitCode;
    line["bytes"] = outcome.bytes;
    line["milliseconds"] = outcome.milliseconds;
    put(line, "note", outcome.note, mask, kSubjectBytes);
    return finished(std::move(line), end);
}

std::string tornLine(ChainEnd const& end, std::string_view torn)
{
    auto line = begun(end, "torn");
    line["bytes"] = torn.size();
    line["sha256"] = sha256(torn);
    return finished(std::move(line), end);
}

std::optional<ParsedLine> parseAuditLine(std::string_view line)
{
    auto const json = parseJson(line);
    if (!json || !json->is_object())
        return std::nullopt;
    auto const number = json->find("n");
    auto const before = json->find("prev");
    if (number == json->end() || !number->is_number_integer() || before == json->end() ||
        !before->is_string())
        return std::nullopt;
    ParsedLine parsed{
        .number = number->get<std::int64_t>(), .before = before->get<std::string>(), .torn = {}};
    if (auto const torn = json->find("sha256"); torn != json->end() && torn->is_string())
        parsed.torn = torn->get<std::string>();
    return parsed;
}

std::string withVisibleCharacters(std::string_view json)
{
    std::string text;
    text.reserve(json.size());
    for (std::size_t at = 0; at < json.size();) {
        auto const character = decodeCharacter(json, at);
        if (!character.valid)
            text += "\xEF\xBF\xBD";
        else if (isInvisible(character.codePoint))
            appendEscape(text, character.codePoint);
        else
            text += json.substr(at, character.length);
        at += character.length;
    }
    return text;
}

} // namespace termalin
