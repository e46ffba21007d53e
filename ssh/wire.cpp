#include "ssh/wire.h"

#include <array>

namespace termalin::ssh {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

template <class Number>
Number bigEndian(std::string_view bytes) noexcept
{
    Number value = 0;
    for (auto const byte : bytes)
        value = static_cast<Number>(value << 8U) | static_cast<std::uint8_t>(byte);
    return value;
}

bool isSpace(char c) noexcept
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

} // namespace

std::optional<std::string_view> WireReader::take(std::size_t count) noexcept
{
    if (m_failed || count > m_rest.size()) {
        m_failed = true;
        return std::nullopt;
    }
    auto const taken = m_rest.substr(0, count);
    m_rest.remove_prefix(count);
    return taken;
}

std::optional<std::uint8_t> WireReader::byte() noexcept
{
    auto const bytes = take(1);
    if (!bytes)
        return std::nullopt;
    return static_cast<std::uint8_t>(bytes->front());
}

std::optional<std::uint32_t> WireReader::u32() noexcept
{
    auto const bytes = take(4);
    if (!bytes)
        return std::nullopt;
    return bigEndian<std::uint32_t>(*bytes);
}

std::optional<std::uint64_t> WireReader::u64() noexcept
{
    auto const bytes = take(8);
    if (!bytes)
        return std::nullopt;
    return bigEndian<std::uint64_t>(*bytes);
}

std::optional<std::string_view> WireReader::string() noexcept
{
    auto const size = u32();
    if (!size)
        return std::nullopt;
    return take(*size);
}

std::optional<std::string_view> WireReader::mpint() noexcept
{
    auto bytes = string();
    if (!bytes)
        return std::nullopt;
    if (!bytes->empty() && (static_cast<std::uint8_t>(bytes->front()) & 0x80U) != 0) {
        m_failed = true;
        return std::nullopt;
    }
    while (!bytes->empty() && bytes->front() == '\0')
        bytes->remove_prefix(1);
    return bytes;
}

WireWriter& WireWriter::byte(std::uint8_t value)
{
    m_bytes += static_cast<char>(value);
    return *this;
}

WireWriter& WireWriter::u32(std::uint32_t value)
{
    for (unsigned shift = 32; shift > 0; shift -= 8)
        byte(static_cast<std::uint8_t>(value >> (shift - 8)));
    return *this;
}

WireWriter& WireWriter::u64(std::uint64_t value)
{
    u32(static_cast<std::uint32_t>(value >> 32U));
    return u32(static_cast<std::uint32_t>(value));
}

WireWriter& WireWriter::string(std::string_view value)
{
    u32(static_cast<std::uint32_t>(value.size()));
    return raw(value);
}

WireWriter& WireWriter::mpint(std::string_view magnitude)
{
    while (!magnitude.empty() && magnitude.front() == '\0')
        magnitude.remove_prefix(1);
    bool const highBit = !magnitude.empty() && (static_cast<std::uint8_t>(magnitude.front()) & 0x80U) != 0;
    u32(static_cast<std::uint32_t>(magnitude.size() + (highBit ? 1 : 0)));
    if (highBit)
        byte(0);
    return raw(magnitude);
}

WireWriter& WireWriter::raw(std::string_view bytes)
{
    m_bytes += bytes;
    return *this;
}

std::string base64(std::string_view bytes)
{
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        auto const three = bytes.substr(at, 3);
        auto const value = bigEndian<std::uint32_t>(three) << (8 * (3 - three.size()));
        for (unsigned i = 0; i < 4; ++i)
            text += i <= three.size() ? kAlphabet[(value >> (18 - 6 * i)) & 63U] : '=';
    }
    return text;
}

std::optional<std::string> fromBase64(std::string_view text)
{
    std::string bytes;
    std::uint32_t value = 0;
    unsigned bits = 0;
    std::size_t letters = 0;
    std::size_t padding = 0;
    for (auto const c : text) {
        if (isSpace(c))
            continue;
        if (c == '=') {
            ++padding;
            continue;
        }
        auto const digit = kAlphabet.find(c);
        if (digit == std::string_view::npos || padding > 0)
            return std::nullopt;
        ++letters;
        value = (value << 6U) | static_cast<std::uint32_t>(digit);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes += static_cast<char>((value >> bits) & 0xFFU);
            value &= (1U << bits) - 1U;
        }
    }
    // What is left over must be zero, or two texts would stand for the same bytes.
    if ((letters + padding) % 4 != 0 || padding > 2 || value != 0)
        return std::nullopt;
    return bytes;
}

} // namespace termalin::ssh
