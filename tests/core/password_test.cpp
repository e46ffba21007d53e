#include <algorithm>
#include <array>
#include <cctype>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>

#include "core/password.h"

namespace termalin {
namespace {

std::string generated(std::size_t length)
{
    return std::string(generatePassword(length).reveal());
}

bool isSymbol(char c)
{
    return c == '-' || c == '_' || c == '.';
}

TEST(GeneratePassword, HasTheLengthAskedForWithin8And128)
{
    for (auto const& [asked, given] : std::map<std::size_t, std::size_t>{
             {0, 8}, {7, 8}, {8, 8}, {20, 20}, {128, 128}, {129, 128}, {1'000'000, 128}})
        EXPECT_EQ(generated(asked).size(), given);
}

TEST(GeneratePassword, HasEveryClassAndNothingThatNeedsQuotes)
{
    std::set<std::string> seen;
    for (int i = 0; i < 2000; ++i) {
        auto const password = generated(8);
        EXPECT_TRUE(seen.insert(password).second) << "the same password twice";
        EXPECT_TRUE(std::ranges::any_of(password, [](unsigned char c) { return std::islower(c) != 0; }));
        EXPECT_TRUE(std::ranges::any_of(password, [](unsigned char c) { return std::isupper(c) != 0; }));
        EXPECT_TRUE(std::ranges::any_of(password, [](unsigned char c) { return std::isdigit(c) != 0; }));
        EXPECT_TRUE(std::ranges::any_of(password, isSymbol));
        EXPECT_TRUE(std::ranges::all_of(password, [](unsigned char c) {
            return std::isalnum(c) != 0 || isSymbol(static_cast<char>(c));
        }));
        EXPECT_FALSE(isSymbol(password.front()));
    }
}

// Chi-squared against equal shares. The bounds are far beyond what chance gives (one run in ten million),
// and far below what a modulo or a fixed place for a class would give.
TEST(GeneratePassword, EveryPlaceAndEveryCharacterIsEquallyLikely)
{
    constexpr int kRounds = 20'000;
    constexpr std::size_t kLength = 8;
    std::array<double, kLength> symbolsAt{};
    std::map<char, double> letters;
    double symbols = 0;
    double all = 0;
    for (int i = 0; i < kRounds; ++i) {
        auto const password = generated(kLength);
        for (std::size_t at = 0; at < kLength; ++at) {
            if (isSymbol(password[at])) {
                symbolsAt.at(at) += 1;
                symbols += 1;
            } else if (std::islower(static_cast<unsigned char>(password[at])) != 0) {
                letters[password[at]] += 1;
                all += 1;
            }
        }
    }
    auto const squared = [](double seen, double expected) {
        return (seen - expected) * (seen - expected) / expected;
    };
    double places = 0;
    for (std::size_t at = 1; at < kLength; ++at)
        places += squared(symbolsAt.at(at), symbols / (kLength - 1));
    EXPECT_LT(places, 45); // 6 degrees of freedom
    ASSERT_EQ(letters.size(), 26U);
    double characters = 0;
    for (auto const& [letter, count] : letters)
        characters += squared(count, all / 26);
    EXPECT_LT(characters, 85); // 25 degrees of freedom
}

} // namespace
} // namespace termalin
