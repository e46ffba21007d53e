#include "core/json.h"

#include <algorithm>
#include <array>

#include "core/unicode.h"

namespace termalin {
namespace {

enum class Kind : unsigned char { Plain, Escaped, Foreign };

/// What a JSON string needs of each byte (RFC 8259 7).
constexpr auto kKinds = [] {
    std::array<Kind, 256> kinds{};
    for (std::size_t byte = 0; byte < kinds.size(); ++byte)
        kinds.at(byte) = byte < 0x20 || byte == '"' || byte == '\\' ? Kind::Escaped
                         : byte < 0x80                              ? Kind::Plain
                                                                    : Kind::Foreign;
    return kinds;
}();

Kind kindOf(char byte)
{
    return kKinds[static_cast<unsigned char>(byte)];
}

void appendEscaped(std::string& to, char byte)
{
    switch (byte) {
    case '"': to += "\\\""; return;
    case '\\': to += "\\\\"; return;
    case '\b': to += "\\b"; return;
    case '\f': to += "\\f"; return;
    case '\n': to += "\\n"; return;
    case '\r': to += "\\r"; return;
    case '\t': to += "\\t"; return;
    default: break;
    }
    static constexpr std::string_view kDigits = "0123456789abcdef";
    to += "\\u00";
    to += kDigits[static_cast<unsigned char>(byte) >> 4U];
    to += kDigits[static_cast<unsigned char>(byte) & 15U];
}

} // namespace

void appendJsonString(std::string& to, std::string_view text)
{
    to += '"';
    while (!text.empty()) {
        auto const plain = static_cast<std::size_t>(
            std::ranges::find_if(text, [](char byte) { return kindOf(byte) != Kind::Plain; }) - text.begin());
        to.append(text.substr(0, plain));
        text.remove_prefix(plain);
        if (text.empty())
            break;
        std::size_t taken = 1;
        if (kindOf(text.front()) == Kind::Escaped) {
            appendEscaped(to, text.front());
        } else {
            auto const character = decodeCharacter(text, 0);
            appendUtf8(to, character.codePoint);
            taken = character.length;
        }
        text.remove_prefix(taken);
    }
    to += '"';
}

} // namespace termalin
