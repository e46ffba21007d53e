#include "core/unicode.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace termalin {

namespace {

constexpr char32_t kReplacement = 0xFFFD;

/// The second byte of a character is what the first one restricts (Unicode 15, table 3-7); later ones are
/// 80..BF always.
struct Lead {
    std::size_t length = 0;
    std::uint8_t secondLow = 0x80;
    std::uint8_t secondHigh = 0xBF;
    char32_t bits = 0;
};

Lead leadOf(std::uint8_t byte) noexcept
{
    auto const bits = static_cast<char32_t>(byte);
    if (byte >= 0xC2 && byte <= 0xDF)
        return {.length = 2, .bits = bits & 0x1FU};
    if (byte >= 0xE0 && byte <= 0xEF)
        return {.length = 3,
                .secondLow = static_cast<std::uint8_t>(byte == 0xE0 ? 0xA0 : 0x80),
                .secondHigh = static_cast<std::uint8_t>(byte == 0xED ? 0x9F : 0xBF),
                .bits = bits & 0x0FU};
    if (byte >= 0xF0 && byte <= 0xF4)
        return {.length = 4,
                .secondLow = static_cast<std::uint8_t>(byte == 0xF0 ? 0x90 : 0x80),
                .secondHigh = static_cast<std::uint8_t>(byte == 0xF4 ? 0x8F : 0xBF),
                .bits = bits & 0x07U};
    return {};
}

struct Range {
    char32_t first;
    char32_t last;
};

/// Sorted, without overlaps; noncharacters at the end of a plane are computed.
constexpr std::array kInvisible = {
    Range{0x0000, 0x001F},   Range{0x007F, 0x00A0},   Range{0x00AD, 0x00AD},   Range{0x034F, 0x034F},
    Range{0x0600, 0x0605},   Range{0x061C, 0x061C},   Range{0x06DD, 0x06DD},   Range{0x070F, 0x070F},
    Range{0x0890, 0x0891},   Range{0x08E2, 0x08E2},   Range{0x115F, 0x1160},   Range{0x1680, 0x1680},
    Range{0x17B4, 0x17B5},   Range{0x180B, 0x180F},   Range{0x2000, 0x200F},   Range{0x2028, 0x202F},
    Range{0x205F, 0x206F},   Range{0x2800, 0x2800},   Range{0x3000, 0x3000},   Range{0x3164, 0x3164},
    Range{0xFDD0, 0xFDEF},   Range{0xFE00, 0xFE0F},   Range{0xFEFF, 0xFEFF},   Range{0xFFA0, 0xFFA0},
    Range{0xFFF0, 0xFFFB},   Range{0x110BD, 0x110BD}, Range{0x110CD, 0x110CD}, Range{0x13430, 0x1343F},
    Range{0x1BCA0, 0x1BCA3}, Range{0x1D173, 0x1D17A}, Range{0xE0000, 0xE0FFF},
};

} // namespace

DecodedCharacter decodeCharacter(std::string_view bytes, std::size_t at) noexcept
{
    auto const first = static_cast<std::uint8_t>(bytes[at]);
    if (first < 0x80)
        return {.codePoint = first, .length = 1, .valid = true};
    auto const lead = leadOf(first);
    DecodedCharacter const bad{.codePoint = kReplacement, .length = 1, .valid = false};
    if (lead.length == 0)
        return bad;
    auto codePoint = lead.bits;
    for (std::size_t i = 1; i < lead.length; ++i) {
        auto const low = i == 1 ? lead.secondLow : std::uint8_t{0x80};
        auto const high = i == 1 ? lead.secondHigh : std::uint8_t{0xBF};
        auto const next = at + i < bytes.size() ? static_cast<std::uint8_t>(bytes[at + i]) : std::uint8_t{0};
        if (next < low || next > high)
            return {.codePoint = kReplacement, .length = i, .valid = false};
        codePoint = (codePoint << 6U) | (next & 0x3FU);
    }
    return {.codePoint = codePoint, .length = lead.length, .valid = true};
}

void appendUtf8(std::string& text, char32_t codePoint)
{
    auto const tail = [&](unsigned shift) {
        text.push_back(static_cast<char>(0x80U | ((codePoint >> shift) & 0x3FU)));
    };
    if (codePoint < 0x80) {
        text.push_back(static_cast<char>(codePoint));
    } else if (codePoint < 0x800) {
        text.push_back(static_cast<char>(0xC0U | (codePoint >> 6U)));
        tail(0);
    } else if (codePoint < 0x10000) {
        text.push_back(static_cast<char>(0xE0U | (codePoint >> 12U)));
        tail(6);
        tail(0);
    } else {
        text.push_back(static_cast<char>(0xF0U | (codePoint >> 18U)));
        tail(12);
        tail(6);
        tail(0);
    }
}

bool isInvisible(char32_t codePoint) noexcept
{
    if ((codePoint & 0xFFFEU) == 0xFFFEU)
        return true;
    auto const* const after = std::ranges::upper_bound(kInvisible, codePoint, {}, &Range::first);
    return after != kInvisible.begin() && codePoint <= std::prev(after)->last;
}

} // namespace termalin
