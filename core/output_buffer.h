#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace termalin {

/// Keeps the first quarter and the last three quarters of a command's output while it streams, in bounded
/// memory, and counts the rest. Not thread safe.
class OutputBuffer {
public:
    /// `cap`: bytes kept in all, at least 1 KiB.
    explicit OutputBuffer(std::size_t cap);

    void append(std::string_view bytes);

    struct Text {
        std::string
            text; ///< Valid UTF-8: what was not is U+FFFD. Where bytes are missing, a line says how many.
        bool truncated = false;
        bool lossy = false; ///< Some bytes were not UTF-8. A character cut by the cap itself does not count.
        std::int64_t outputBytes = 0;  ///< All that came.
        std::int64_t omittedBytes = 0; ///< Of these, how many are not in `text`.
    };
    [[nodiscard]] Text text() const;

    /// The last line that has something to show, escape sequences and control characters removed and a line
    /// rewritten by carriage returns in its last state, at most `maxCharacters` characters. For progress
    /// messages.
    [[nodiscard]] std::string lastLine(std::size_t maxCharacters = 200) const;

private:
    [[nodiscard]] std::string slice(std::size_t from, std::size_t to) const;

    std::size_t m_headCap;
    std::size_t m_tailCap;
    std::string m_head; ///< the first bytes, a few more than the cap: they tell whether it cuts a character
    std::string m_tail; ///< of what follows the head's cap, the last bytes and a few more; a ring once full
    std::size_t m_tailStart = 0; ///< where in the ring the oldest byte is
    std::size_t m_total = 0;
};

/// Any bytes as valid UTF-8, each maximal invalid part as one U+FFFD (Unicode 15, 3.9, "substitution of
/// maximal subparts"). `lossy`, if given, becomes true when something was replaced.
[[nodiscard]] std::string toUtf8(std::string_view bytes, bool* lossy = nullptr);

/// Text that may hold anything, made safe to show: control, bidirectional and other invisible characters as
/// \xNN or \u{NNNN}.
[[nodiscard]] std::string visible(std::string_view text);

} // namespace termalin
