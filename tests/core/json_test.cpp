#include <gtest/gtest.h>
#include <random>
#include <string>

#include "core/json.h"

namespace termalin {
namespace {

std::string asJsonString(std::string_view text)
{
    std::string json;
    appendJsonString(json, text);
    return json;
}

// The library's own writer is the measure.
TEST(AppendJsonString, WritesEveryPairOfBytesAsTheLibraryDoes)
{
    for (int first = 0; first < 256; ++first)
        for (int second = 0; second < 256; ++second) {
            std::string const text{static_cast<char>(first), static_cast<char>(second)};
            ASSERT_EQ(asJsonString(text), toLine(Json(text))) << first << ' ' << second;
        }
}

TEST(AppendJsonString, WritesTextOfAnyKindAsTheLibraryDoes)
{
    std::mt19937 random(4711); // NOLINT(cert-msc32-c,cert-msc51-cpp): the same texts each time
    static constexpr std::string_view kParts[] = {"plain ",     "\"",   "\\",       "\n",
                                                  "\x01",       "\x7f", "\u00e9",   "\u20ac",
                                                  "\U0001F600", "\xff", "\xe2\x82", "\xed\xa0\x80"};
    for (int run = 0; run < 5000; ++run) {
        std::string text;
        for (auto left = random() % 12; left > 0; --left)
            text += kParts[random() % std::size(kParts)];
        ASSERT_EQ(asJsonString(text), toLine(Json(text)));
    }
}

TEST(AppendJsonString, AppendsAndTakesNulForWhatItIs)
{
    std::string json = "[";
    appendJsonString(json, std::string_view("a\0b", 3));
    EXPECT_EQ(json, R"(["a\u0000b")");
}

TEST(AppendJsonString, TakesAPartOfTheTextThatItAppendsTo)
{
    for (std::size_t length : {0U, 3U, 40U, 5000U}) { // with room left, and without
        std::string json(length, '"');
        json += "tail";
        auto const before = json;
        appendJsonString(json, std::string_view(json).substr(0, length));
        EXPECT_EQ(json, before + toLine(Json(std::string(length, '"'))));
    }
}

} // namespace
} // namespace termalin
