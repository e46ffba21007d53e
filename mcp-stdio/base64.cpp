#include "mcp-stdio/base64.h"

#include <array>
#include <cstdint>

namespace termalin::mcp {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> kValues = [] {
    std::array<std::int8_t, 256> values{};
    values.fill(-1);
    for (std::size_t i = 0; i < kAlphabet.size(); ++i)
        values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
    return values;
}();

} // namespace

std::string encodeBase64(std::string_view bytes)
{
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        auto const left = bytes.size() - i;
        auto const at = [&](std::size_t n) {
            return n < left ? static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i + n])) : 0U;
        };
        auto const group = at(0) << 16U | at(1) << 8U | at(2);
        out += kAlphabet[group >> 18U];
        out += kAlphabet[group >> 12U & 63U];
        out += left > 1 ? kAlphabet[group >> 6U & 63U] : '=';
        out += left > 2 ? kAlphabet[group & 63U] : '=';
    }
    return out;
}

std::optional<std::string> decodeBase64(std::string_view text)
{
    std::string out;
    out.reserve((text.size() / 4 * 3) + 3);
    std::uint32_t bits = 0;
    unsigned have = 0;
    std::size_t letters = 0;
    std::size_t padding = 0;
    for (auto const c : text) {
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
            continue;
        if (c == '=') {
            ++padding;
            continue;
        }
        auto const value = kValues[static_cast<unsigned char>(c)];
        if (value < 0 || padding > 0)
            return std::nullopt;
        ++letters;
        bits = bits << 6U | static_cast<std::uint32_t>(value);
        have += 6;
        if (have >= 8) {
            have -= 8;
            out += static_cast<char>(bits >> have & 0xffU);
        }
    }
    auto const whole = letters % 4 == 0 ? padding == 0 : padding == 0 || (letters + padding) % 4 == 0;
    if (letters % 4 == 1 || padding > 2 || !whole || (bits & ((1U << have) - 1U)) != 0)
        return std::nullopt;
    return out;
}

} // namespace termalin::mcp
