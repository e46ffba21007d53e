#include "core/secret.h"

#include <cstring>

namespace termalin {

void wipe(std::string& bytes) noexcept
{
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.Move): also one that was moved from; see Secret
    bytes.resize(bytes.capacity()); // reaches the spare bytes too; does not allocate
    explicit_bzero(bytes.data(), bytes.size());
    bytes.clear();
}

Secret::Secret(std::string&& bytes) noexcept : m_bytes(std::move(bytes))
{
    termalin::wipe(bytes); // a short string is copied by its move; leave nothing behind
}

void Secret::wipe() noexcept
{
    termalin::wipe(m_bytes);
}

} // namespace termalin
