#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace termalin {

/// One step through a text that should be UTF-8.
struct DecodedCharacter {
    char32_t codePoint = 0; ///< U+FFFD where `valid` is false.
    std::size_t length = 0; ///< Bytes taken: a whole character, or one maximal invalid part; at least 1.
    bool valid = false;
};

/// Reads the character that begins at `at`, which must be less than bytes.size(). What is not UTF-8 is
/// taken as Unicode 15 recommends in section 3.9, "U+FFFD Substitution of Maximal Subparts".
[[nodiscard]] DecodedCharacter decodeCharacter(std::string_view bytes, std::size_t at) noexcept;

/// Appends `codePoint`, which must be a Unicode scalar value.
void appendUtf8(std::string& text, char32_t codePoint);

/// Whether a person looking at the text would see nothing, or would see other text moved: control
/// characters, the properties Default_Ignorable_Code_Point, White_Space (but for U+0020) and the general
/// category Cf of Unicode 15, noncharacters, and the blank Braille pattern.
[[nodiscard]] bool isInvisible(char32_t codePoint) noexcept;

} // namespace termalin
