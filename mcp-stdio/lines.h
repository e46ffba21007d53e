#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace termalin::mcp {

/// One line of a client.
struct Line {
    enum class Problem : std::uint8_t { None, TooLong, TooDeep };

    std::string_view text = {}; ///< Without its end and a byte order mark; empty when there is a problem.
    Problem problem = Problem::None;
    std::string
        id; ///< The JSON text of the top level's "id", if one could be read; whatever the rest is like.
};

/// Cuts a stream of bytes into lines, before anything parses them: what is longer or nested deeper than the
/// limits is skipped to its end in bounded memory, and its id is still found, wherever in the line it
/// stands. Empty lines are passed over. Not thread safe.
class LineScanner {
public:
    static constexpr std::size_t kMaxBytes = 32U * 1024U * 1024U;
    static constexpr int kMaxDepth = 64;

    using OnLine = std::function<void(Line const&)>;

    /// Takes the next bytes of the stream; calls `onLine` for each line that they complete. The line is valid
    /// during the call only.
    void feed(std::string_view bytes, OnLine const& onLine);
    /// At the end of the stream: what came after the last newline is a line too.
    void finish(OnLine const& onLine);

private:
    void scan(std::string_view bytes);
    void scanSignificant(char c);
    void endOfValue();
    void complete(std::string_view rest, OnLine const& onLine);
    void deliver(std::string_view text, OnLine const& onLine);
    void restart();

    std::string m_line; ///< What has come of the present line, while it has no problem.
    std::size_t m_size = 0;
    Line::Problem m_problem = Line::Problem::None;

    // Where in the JSON text the scan stands. It need not be valid JSON.
    int m_depth = 0;
    bool m_inString = false;
    bool m_escaped = false;
    bool m_rootIsObject = false;
    bool m_keyPosition = false; ///< At depth 1, the next string is a key.
    bool m_inKey = false;
    bool m_keyIsId = false;   ///< The last key at depth 1 was "id".
    bool m_capturing = false; ///< Its value is being read.
    std::string m_key;
    std::string m_value;
    std::string m_id;
    bool m_severalIds = false;
};

} // namespace termalin::mcp
