#include <array>
#include <cstdio>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>

#include "core/output_buffer.h"
#include "core/unicode.h"

namespace termalin {
namespace {

std::string replacements(int count)
{
    std::string text;
    for (int i = 0; i < count; ++i)
        text += "\xEF\xBF\xBD";
    return text;
}

// The examples of Unicode 15, section 3.9, tables 3-8 to 3-11.
TEST(Utf8, ReplacesNonShortestFormsSurrogatesAndTruncatedSequencesAsTheUnicodeStandardShows)
{
    EXPECT_EQ(toUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), replacements(8) + "A");
    EXPECT_EQ(toUtf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), replacements(8) + "A");
    EXPECT_EQ(toUtf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), replacements(5) + "A" + replacements(2) + "B");
    EXPECT_EQ(toUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), replacements(4) + "A");
}

TEST(Utf8, EveryScalarValueSurvivesAndEverySurrogateDoesNot)
{
    for (char32_t codePoint = 0; codePoint <= 0x10FFFF; ++codePoint) {
        std::string bytes;
        appendUtf8(bytes, codePoint);
        auto const surrogate = codePoint >= 0xD800 && codePoint <= 0xDFFF;
        auto const character = decodeCharacter(bytes, 0);
        ASSERT_EQ(character.valid, !surrogate) << static_cast<unsigned>(codePoint);
        if (!surrogate) {
            ASSERT_EQ(character.codePoint, codePoint);
            ASSERT_EQ(character.length, bytes.size());
        }
    }
}

TEST(Utf8, LossySaysWhetherSomethingWasReplaced)
{
    bool lossy = false;
    EXPECT_EQ(toUtf8("gr\xC3\xBC\xC3\x9F", &lossy), "gr\xC3\xBC\xC3\x9F");
    EXPECT_FALSE(lossy);
    EXPECT_EQ(toUtf8("gr\xFC", &lossy), "gr" + replacements(1));
    EXPECT_TRUE(lossy);
}

// Perl carries the Unicode character database: an independent list of what nobody can see.
TEST(Utf8, EveryCharacterThatTheUnicodeDatabaseCallsInvisibleIsInvisibleToUs)
{
    constexpr auto kCommand = "perl -CO -e 'for (0x21..0xD7FF, 0xE000..0x10FFFF) { no warnings; "
                              "print 0 + (chr($_) =~ /[\\p{Default_Ignorable_Code_Point}\\p{Cf}\\p{Cc}\\p{Zs}"
                              "\\p{Zl}\\p{Zp}\\p{White_Space}\\p{Noncharacter_Code_Point}]/) }'";
    std::unique_ptr<FILE, int (*)(FILE*)> const pipe(popen(kCommand, "r"), pclose); // NOLINT(cert-env33-c)
    ASSERT_TRUE(pipe);
    std::string extra;
    for (char32_t codePoint = 0x21; codePoint <= 0x10FFFF; ++codePoint) {
        if (codePoint >= 0xD800 && codePoint <= 0xDFFF)
            continue;
        auto const answer = std::fgetc(pipe.get());
        ASSERT_TRUE(answer == '0' || answer == '1')
            << "perl said no more at " << static_cast<unsigned>(codePoint);
        if (answer == '1')
            ASSERT_TRUE(isInvisible(codePoint)) << std::hex << static_cast<unsigned>(codePoint);
        else if (isInvisible(codePoint) && codePoint != 0x2800 &&
                 !(codePoint >= 0x13439 && codePoint <= 0x1343F))
            extra += std::to_string(static_cast<unsigned>(codePoint)) + ' ';
    }
    EXPECT_EQ(extra, "") << "visible characters that we call invisible";
}

TEST(Visible, ShowsWhatATerminalWouldObeyAndLeavesTheRest)
{
    EXPECT_EQ(visible("plain \xC3\xBC\xE4\xB8\xAD"), "plain \xC3\xBC\xE4\xB8\xAD");
    EXPECT_EQ(visible("a\x1B[2Jb\n\t\x7F"), "a\\x1B[2Jb\\x0A\\x09\\x7F");
    EXPECT_EQ(visible("x\xE2\x80\xAEy\xC2\x85\xC2\xA0"), "x\\u{202E}y\\u{0085}\\u{00A0}");
    EXPECT_EQ(visible("\xE2\x80z\xFF"), "\\xE2\\x80z\\xFF");
}

/// What the buffer promises, written the long way: everything is kept, and cut at the end.
OutputBuffer::Text naive(std::string const& all, std::size_t cap)
{
    OutputBuffer::Text expected;
    expected.outputBytes = static_cast<std::int64_t>(all.size());
    if (all.size() <= cap) {
        expected.text = toUtf8(all, &expected.lossy);
        return expected;
    }
    auto headEnd = cap / 4;
    auto tailStart = all.size() - (cap - cap / 4);
    for (std::size_t at = 0, whole = 0; at < all.size(); at += whole) {
        auto const character = decodeCharacter(all, at);
        whole = character.length;
        if (character.valid && at < cap / 4 && at + whole > cap / 4)
            headEnd = at;
        if (character.valid && at < all.size() - (cap - cap / 4) && at + whole > all.size() - (cap - cap / 4))
            tailStart = at + whole;
    }
    expected.truncated = true;
    expected.omittedBytes = static_cast<std::int64_t>(tailStart - headEnd);
    auto head = toUtf8(all.substr(0, headEnd), &expected.lossy);
    if (!head.ends_with('\n'))
        head += '\n';
    expected.text = head + "[... " + std::to_string(expected.omittedBytes) +
                    " bytes of output are not shown here ...]\n" +
                    toUtf8(all.substr(tailStart), &expected.lossy);
    return expected;
}

TEST(OutputBuffer, IsTheSameAsKeepingEverythingAndCuttingAtTheEnd)
{
    std::mt19937 random(20240817); // NOLINT(cert-msc51-cpp): the same cases in every run
    auto const upTo = [&](std::size_t most) {
        return std::uniform_int_distribution<std::size_t>(0, most)(random);
    };
    constexpr std::array kPieces = {"a",    "\n",       "\xC3\xBC", "\xE2\x82\xAC", "\xF0\x9F\x90\xA7",
                                    "\xFF", "\xE2\x82", "\x80"};
    for (int round = 0; round < 3000; ++round) {
        auto const cap = 1024 + upTo(9);
        // Around the cap, where one byte more or less matters, as often as far beyond it.
        auto const size = upTo(2) == 0 ? upTo(5000) : cap - 6 + upTo(16);
        auto const garbage = upTo(1) == 0 ? kPieces.size() : kPieces.size() - 3;
        std::string all;
        while (all.size() < size)
            all += kPieces.at(upTo(garbage - 1));

        OutputBuffer buffer(cap);
        auto const most = 1 + upTo(upTo(1) == 0 ? 7 : 2000);
        for (std::size_t at = 0; at < all.size();) {
            auto const count = std::min(all.size() - at, upTo(most));
            buffer.append(std::string_view(all).substr(at, count));
            at += count;
        }
        auto const expected = naive(all, cap);
        auto const text = buffer.text();
        ASSERT_EQ(text.text, expected.text) << "round " << round << ", " << all.size() << " of " << cap;
        ASSERT_EQ(text.truncated, expected.truncated);
        ASSERT_EQ(text.lossy, expected.lossy) << "round " << round;
        ASSERT_EQ(text.outputBytes, expected.outputBytes);
        ASSERT_EQ(text.omittedBytes, expected.omittedBytes);
    }
}

TEST(OutputBuffer, ACharacterCutByTheCapIsNotLossy)
{
    OutputBuffer buffer(1024);
    std::string euros;
    for (int i = 0; i < 4000; ++i)
        euros += "\xE2\x82\xAC";
    buffer.append(euros);
    auto const text = buffer.text();
    EXPECT_TRUE(text.truncated);
    EXPECT_FALSE(text.lossy);
    EXPECT_EQ(text.text.find("\xEF\xBF\xBD"), std::string::npos);
    EXPECT_EQ(text.omittedBytes % 3, 0);
}

std::string lastLineOf(std::string_view bytes, std::size_t most = 200)
{
    OutputBuffer buffer(4096);
    buffer.append(bytes);
    return buffer.lastLine(most);
}

TEST(OutputBuffer, TheLastLineIsWhatATerminalWouldShowThere)
{
    EXPECT_EQ(lastLineOf(""), "");
    EXPECT_EQ(lastLineOf("one\ntwo\n\n  \x1B[0m\n"), "two");
    EXPECT_EQ(lastLineOf(" 10%\r 50%\r100%\r"), "100%");
    EXPECT_EQ(lastLineOf("downloading\rdone\x1B[K"), "done");
    EXPECT_EQ(lastLineOf("downloading\x1B[2K\rdone"), "done");
    EXPECT_EQ(lastLineOf("abc\b\bX"), "aXc");
    EXPECT_EQ(lastLineOf("\x1B]0;a title\a\x1B[1;31mred\x1B[0m\x1B(B text"), "red text");
    EXPECT_EQ(lastLineOf("\x1BP1;2|secret\x1B\\shown \xE2\x80\xAEreversed"), "shown reversed");
    EXPECT_EQ(lastLineOf("caf\xC3"), "caf\xEF\xBF\xBD");
    EXPECT_EQ(lastLineOf("\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC", 3), "\xC3\xBC\xC3\xBC\xE2\x80\xA6");
    EXPECT_EQ(lastLineOf("\x1B["), "");
    EXPECT_EQ(lastLineOf("\x1B"), "");
}

TEST(OutputBuffer, TheLastLineIsThereAfterMoreOutputThanIsKept)
{
    OutputBuffer buffer(1024);
    for (int i = 0; i < 5000; ++i)
        buffer.append("line " + std::to_string(i) + "\n");
    EXPECT_EQ(buffer.lastLine(), "line 4999");
}

} // namespace
} // namespace termalin
