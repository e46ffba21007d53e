#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace termalin::ssh {

/// Reads the data types of RFC 4251 section 5 one after another out of bytes that came from elsewhere. The
/// bytes must outlive the reader and the views that it gives. After the first failure every further read
/// fails, so that a caller may read all the fields and look once.
class WireReader {
public:
    explicit WireReader(std::string_view bytes) noexcept : m_rest(bytes) {}

    std::optional<std::uint8_t> byte() noexcept;
    std::optional<std::uint32_t> u32() noexcept;
    std::optional<std::uint64_t> u64() noexcept;
    std::optional<std::string_view> string() noexcept;
    /// A positive mpint as its magnitude, big-endian, without leading zeros. Negative ones fail: no key or
    /// signature has one.
    std::optional<std::string_view> mpint() noexcept;

    [[nodiscard]] std::string_view rest() const noexcept { return m_rest; }
    [[nodiscard]] bool failed() const noexcept { return m_failed; }
    /// All was read, and nothing failed.
    [[nodiscard]] bool done() const noexcept { return !m_failed && m_rest.empty(); }

private:
    std::optional<std::string_view> take(std::size_t count) noexcept;

    std::string_view m_rest;
    bool m_failed = false;
};

/// Writes the data types of RFC 4251 section 5.
class WireWriter {
public:
    WireWriter& byte(std::uint8_t value);
    WireWriter& u32(std::uint32_t value);
    WireWriter& u64(std::uint64_t value);
    WireWriter& string(std::string_view value);
    WireWriter& mpint(std::string_view magnitude); ///< Big-endian; leading zeros are dropped.
    WireWriter& raw(std::string_view bytes);

    [[nodiscard]] std::string const& bytes() const& noexcept { return m_bytes; }
    [[nodiscard]] std::string bytes() && noexcept { return std::move(m_bytes); }

private:
    std::string m_bytes;
};

/// Base64 of RFC 4648 section 4, padded.
[[nodiscard]] std::string base64(std::string_view bytes);
/// Spaces, tabs and line ends in between are passed over, padding must be right. Empty: it is not base64.
[[nodiscard]] std::optional<std::string> fromBase64(std::string_view text);

} // namespace termalin::ssh
