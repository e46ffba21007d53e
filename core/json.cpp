#include "core/json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include "core/unicode.h"

namespace termalin {
namespace {

/// How many bytes each byte may take in a JSON string (RFC 8259 7); one that is not ASCII becomes U+FFFD at
/// worst.
constexpr auto kMostBytes = [] {
    std::array<std::uint8_t, 256> most{};
    for (std::size_t byte = 0; byte < most.size(); ++byte)
        most.at(byte) = byte == '"' || byte == '\\' ? 2 : byte < 0x20 ? 6 : byte < 0x80 ? 1 : 3;
    return most;
}();

std::uint8_t mostBytes(char byte)
{
    return kMostBytes[static_cast<unsigned char>(byte)];
}

char* put(char* at, std::string_view bytes)
{
    return std::ranges::copy(bytes, at).out;
}

char* putEscaped(char* at, char byte)
{
    switch (byte) {
    case '"': return put(at, "\\\"");
    case '\\': return put(at, "\\\\");
    case '\b': return put(at, "\\b");
    case '\f': return put(at, "\\f");
    case '\n': return put(at, "\\n");
    case '\r': return put(at, "\\r");
    case '\t': return put(at, "\\t");
    default: break;
    }
    static constexpr std::string_view kDigits = "0123456789abcdef";
    at = put(at, "\\u00");
    *at++ = kDigits[static_cast<unsigned char>(byte) >> 4U];
    *at++ = kDigits[static_cast<unsigned char>(byte) & 15U];
    return at;
}

/// `at` has room for what kMostBytes says. The end of what was written.
char* putJsonString(char* at, std::string_view text)
{
    *at++ = '"';
    for (std::size_t i = 0; i < text.size();) {
        char const byte = text[i];
        if (mostBytes(byte) == 1) {
            *at++ = byte;
            ++i;
        } else if (static_cast<unsigned char>(byte) < 0x80) {
            at = putEscaped(at, byte);
            ++i;
        } else {
            auto const character = decodeCharacter(text, i);
            at = put(at, character.valid ? text.substr(i, character.length) : "\xEF\xBF\xBD");
            i += character.length;
        }
    }
    *at++ = '"';
    return at;
}

} // namespace

void appendJsonString(std::string& to, std::string_view text)
{
    auto const before = to.size();
    auto const inside =
        std::less_equal<>()(to.data(), text.data()) && std::less<>()(text.data(), to.data() + before);
    auto const offset = inside ? text.data() - to.data() : 0;
    std::size_t most = before + 2;
    for (char const byte : text)
        most += mostBytes(byte);
    to.resize_and_overwrite(most, [&](char* bytes, std::size_t) {
        auto const source = inside ? std::string_view(bytes + offset, text.size()) : text;
        return static_cast<std::size_t>(putJsonString(bytes + before, source) - bytes);
    });
}

} // namespace termalin
