#pragma once

#include <string>
#include <string_view>

namespace termalin {

/// A password, passphrase or key. It cannot be printed, logged, compared or turned into JSON, and its bytes
/// are overwritten when it goes away.
class Secret {
public:
    Secret() = default;
    explicit Secret(std::string&& bytes) noexcept;
    explicit Secret(std::string_view bytes) : m_bytes(bytes) {}
    ~Secret() { wipe(); }

    Secret(Secret const&) = delete;
    Secret& operator=(Secret const&) = delete;
    Secret(Secret&& other) noexcept { take(other); }
    Secret& operator=(Secret&& other) noexcept
    {
        if (this != &other) {
            wipe();
            take(other);
        }
        return *this;
    }

    [[nodiscard]] bool empty() const noexcept { return m_bytes.empty(); }
    /// A second one with the same bytes; said aloud, since every copy is one more place to find them.
    [[nodiscard]] Secret clone() const { return Secret(reveal()); }

    /// The one way out: valid until the Secret is moved or destroyed. Only in the line that hands it to a C
    /// call or a cipher.
    [[nodiscard]] std::string_view reveal() const noexcept { return m_bytes; }

private:
    void take(Secret& other) noexcept
    {
        m_bytes = other.m_bytes; // a copy: a moved-from short string would keep its bytes
        other.wipe();
    }
    void wipe() noexcept;

    std::string m_bytes;
};

/// Overwrites the bytes of a string, its spare capacity included, and empties it.
void wipe(std::string& bytes) noexcept;

} // namespace termalin
