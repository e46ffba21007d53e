#include "core/account.h"

#include <array>
#include <pwd.h>
#include <unistd.h>

namespace termalin {

std::string ownAccount()
{
    std::array<char, 16 * 1024> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
        return found->pw_name;
    return {};
}

} // namespace termalin
