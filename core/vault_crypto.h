#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/result.h"
#include "core/secret.h"

namespace termalin {

/// A key of 32 bytes in memory that is not swapped, has guard pages around it, stays out of core dumps and is
/// wiped when it goes.
class LockedKey {
public:
    static constexpr std::size_t kBytes = 32;

    /// Errors: Internal when the system gives no such memory. Its bytes are zero.
    static Result<LockedKey> make();
    static Result<LockedKey> random();
    /// Errors: InvalidArgument when it has not 32 bytes.
    static Result<LockedKey> from(std::string_view bytes);

    ~LockedKey();
    LockedKey(LockedKey&& other) noexcept : m_bytes(std::exchange(other.m_bytes, nullptr)) {}
    LockedKey& operator=(LockedKey&& other) noexcept
    {
        std::swap(m_bytes, other.m_bytes);
        return *this;
    }
    LockedKey(LockedKey const&) = delete;
    LockedKey& operator=(LockedKey const&) = delete;

    [[nodiscard]] unsigned char* data() const noexcept { return m_bytes; }
    [[nodiscard]] std::string_view view() const noexcept
    {
        return {reinterpret_cast<char const*>(m_bytes), kBytes};
    }

private:
    explicit LockedKey(unsigned char* bytes) : m_bytes(bytes) {}
    unsigned char* m_bytes;
};

/// Where a ciphertext belongs; it opens nowhere else.
struct VaultPlace {
    std::string_view owner;
    std::string_view name;
};

/// XChaCha20-Poly1305 (IETF) with a random nonce, which stands before the ciphertext; the place is the
/// additional data.
[[nodiscard]] std::string seal(LockedKey const& key, VaultPlace const& place, std::string_view plain);
/// Empty when the key is another, or the bytes or the place were changed.
[[nodiscard]] std::optional<Secret> unseal(LockedKey const& key, VaultPlace const& place,
                                           std::string_view sealed);

/// Cost and salt of the way from a password to a key (Argon2id 1.3), kept beside what that key seals. The
/// cost is the second choice of RFC 9106 section 4, which fits into small machines too.
struct PasswordCost {
    std::uint64_t operations = 3;
    std::uint64_t memoryKiB = 64U * 1024U;
    std::string salt; ///< 16 bytes

    static PasswordCost fresh();
};
/// Errors: NoSpace when there is not memory enough; Internal when the cost is out of all bounds.
Result<LockedKey> keyFromPassword(Secret const& password, PasswordCost const& cost);

/// Random bytes as lower case hexadecimal.
[[nodiscard]] std::string randomHex(std::size_t bytes);

} // namespace termalin
