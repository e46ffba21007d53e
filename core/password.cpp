#include "core/password.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <sodium.h>
#include <string>
#include <string_view>

namespace termalin {

namespace {

constexpr std::array<std::string_view, 4> kClasses = {"abcdefghijklmnopqrstuvwxyz",
                                                      "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", "-_."};

constexpr std::size_t alphabetSize()
{
    std::size_t size = 0;
    for (auto const letters : kClasses)
        size += letters.size();
    return size;
}

} // namespace

Secret generatePassword(std::size_t length)
{
    [[maybe_unused]] auto const ready = sodium_init(); // again is fine; without it the generator still works
    length = std::clamp<std::size_t>(length, 8, 128);
    std::string password(length, '\0');
    // Drawing until one fits, in place of putting the classes somewhere, keeps all that fit equally likely.
    for (auto fits = false; !fits;) {
        std::array<bool, kClasses.size()> seen{};
        for (auto& character : password) {
            std::size_t drawn = randombytes_uniform(static_cast<std::uint32_t>(alphabetSize()));
            std::size_t kind = 0;
            while (drawn >= kClasses.at(kind).size())
                drawn -= kClasses.at(kind++).size();
            character = kClasses.at(kind)[drawn];
            seen.at(kind) = true;
        }
        fits = std::ranges::all_of(seen, std::identity()) && !kClasses.back().contains(password.front());
    }
    return Secret(std::move(password));
}

} // namespace termalin
