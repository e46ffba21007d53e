#include "core/output_buffer.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "core/unicode.h"

namespace termalin {

namespace {

/// A character has at most this many bytes beyond the one at which the cap would cut it.
constexpr std::size_t kSpare = 3;
/// How far back lastLine() looks.
constexpr std::size_t kLastLineWindow = 16U * 1024U;

/// If a whole character reaches across `cut`, where it begins and ends; else `cut` twice.
std::pair<std::size_t, std::size_t> characterAcross(std::string_view bytes, std::size_t cut)
{
    for (std::size_t back = 1; back <= kSpare && back <= cut; ++back) {
        if (cut - back >= bytes.size())
            continue;
        auto const character = decodeCharacter(bytes, cut - back);
        if (character.valid && character.length > back)
            return {cut - back, cut - back + character.length};
    }
    return {cut, cut};
}

/// Steps over an escape sequence (ECMA-48 5.4 and 8.3.89) whose ESC is at `at`. Returns the byte after it;
/// `erase`: its parameter if it was "erase in line".
std::size_t skipEscape(std::string_view text, std::size_t at, char* erase)
{
    auto i = at + 1;
    if (i >= text.size())
        return i;
    auto const kind = text[i];
    if (kind == '[') {
        auto const start = ++i;
        while (i < text.size() && text[i] >= ' ' && text[i] < '@')
            ++i;
        if (i < text.size() && text[i] == 'K')
            *erase = i == start ? '0' : text[start];
        return std::min(i + 1, text.size());
    }
    if (std::string_view("]PX^_").contains(kind)) { // a string, up to BEL or ST
        while (++i < text.size()) {
            if (text[i] == '\a')
                return i + 1;
            if (text[i] == '\x1B')
                return std::min(i + 2, text.size());
        }
        return i;
    }
    while (i < text.size() && text[i] >= ' ' && text[i] <= '/') // intermediate bytes
        ++i;
    return std::min(i + 1, text.size());
}

/// What a terminal would show of one line. `text` is valid UTF-8.
std::u32string shownLine(std::string_view text)
{
    std::u32string line;
    std::size_t column = 0;
    for (std::size_t i = 0; i < text.size();) {
        if (text[i] == '\x1B') {
            char erase = '\0';
            i = skipEscape(text, i, &erase);
            if (erase == '0')
                line.resize(std::min(column, line.size()));
            else if (erase == '2')
                line.clear();
            else if (erase == '1')
                std::fill_n(line.begin(), std::min(column + 1, line.size()), U' ');
            continue;
        }
        auto const character = decodeCharacter(text, i);
        i += character.length;
        auto codePoint = character.codePoint;
        if (codePoint == U'\r')
            column = 0;
        else if (codePoint == U'\b')
            column -= column > 0 ? 1 : 0;
        if (codePoint == U'\t' || codePoint == 0xA0 || codePoint == 0x3000)
            codePoint = U' ';
        if (isInvisible(codePoint))
            continue;
        if (column >= line.size())
            line.resize(column + 1, U' ');
        line[column++] = codePoint;
    }
    while (!line.empty() && line.back() == U' ')
        line.pop_back();
    line.erase(0, std::min(line.find_first_not_of(U' '), line.size()));
    return line;
}

} // namespace

OutputBuffer::OutputBuffer(std::size_t cap)
    : m_headCap(std::max<std::size_t>(cap, 1024) / 4), m_tailCap(std::max<std::size_t>(cap, 1024) - m_headCap)
{
}

void OutputBuffer::append(std::string_view bytes)
{
    auto const before = m_total;
    m_total += bytes.size();
    auto const headLimit = m_headCap + kSpare;
    if (m_head.size() < headLimit)
        m_head.append(bytes.substr(0, headLimit - m_head.size()));
    if (before < m_headCap)
        bytes.remove_prefix(std::min(bytes.size(), m_headCap - before));

    auto const limit = m_tailCap + kSpare;
    if (bytes.size() >= limit) {
        m_tail.assign(bytes.substr(bytes.size() - limit));
        m_tailStart = 0;
        return;
    }
    auto const grown = std::min(bytes.size(), limit - m_tail.size());
    m_tail.append(bytes.substr(0, grown)); // never while the ring has turned: it is full then
    bytes.remove_prefix(grown);
    while (!bytes.empty()) {
        auto const count = std::min(bytes.size(), limit - m_tailStart);
        std::ranges::copy(bytes.substr(0, count), m_tail.begin() + static_cast<std::ptrdiff_t>(m_tailStart));
        m_tailStart = (m_tailStart + count) % limit;
        bytes.remove_prefix(count);
    }
}

/// The bytes from one offset in the stream to another; those that are gone must not be asked for.
std::string OutputBuffer::slice(std::size_t from, std::size_t to) const
{
    std::string out;
    if (from < m_headCap) {
        auto const end = std::min(to, m_headCap);
        out = m_head.substr(from, end - from);
        from = end;
    }
    if (from >= to)
        return out;
    auto const oldest = m_total - m_tail.size(); // offset of the byte at m_tailStart
    for (auto left = from - oldest, end = to - oldest; left < end;) {
        auto const at = (m_tailStart + left) % m_tail.size();
        auto const count = std::min(end - left, m_tail.size() - at);
        out.append(m_tail, at, count);
        left += count;
    }
    return out;
}

OutputBuffer::Text OutputBuffer::text() const
{
    Text result;
    result.outputBytes = static_cast<std::int64_t>(m_total);
    if (m_total <= m_headCap + m_tailCap) {
        result.text = toUtf8(slice(0, m_total), &result.lossy);
        return result;
    }
    auto const headEnd = characterAcross(m_head, m_headCap).first;
    auto const tailCut = m_total - m_tailCap;
    // All that is kept from a little before the cut on; the head's own bytes help when little is missing.
    auto const from = tailCut - std::min(kSpare, tailCut);
    auto const around = slice(from, m_total);
    auto const tailStart = characterAcross(around, tailCut - from).second;

    result.truncated = true;
    result.omittedBytes = static_cast<std::int64_t>(from + tailStart - headEnd);
    auto const head = toUtf8(std::string_view(m_head).substr(0, headEnd), &result.lossy);
    auto const tail = toUtf8(std::string_view(around).substr(tailStart), &result.lossy);
    result.text = fmt::format("{}{}[... {} bytes of output are not shown here ...]\n{}", head,
                              head.ends_with('\n') ? "" : "\n", result.omittedBytes, tail);
    return result;
}

std::string OutputBuffer::lastLine(std::size_t maxCharacters) const
{
    auto const whole = m_total <= m_headCap + m_tail.size();
    auto const kept = whole ? m_total : m_tail.size();
    auto const text = toUtf8(slice(m_total - std::min(kept, kLastLineWindow), m_total));
    for (auto rest = std::string_view(text); !rest.empty();) {
        auto const newline = rest.rfind('\n');
        auto line = shownLine(newline == std::string_view::npos ? rest : rest.substr(newline + 1));
        if (!line.empty()) {
            if (line.size() > maxCharacters) {
                line.resize(maxCharacters);
                if (maxCharacters > 0)
                    line.back() = U'\u2026';
            }
            std::string shown;
            for (auto const codePoint : line)
                appendUtf8(shown, codePoint);
            return shown;
        }
        rest = newline == std::string_view::npos ? std::string_view() : rest.substr(0, newline);
    }
    return {};
}

std::string toUtf8(std::string_view bytes, bool* lossy)
{
    std::string text;
    text.reserve(bytes.size());
    for (std::size_t i = 0; i < bytes.size();) {
        auto const character = decodeCharacter(bytes, i);
        if (character.valid) {
            text.append(bytes.substr(i, character.length));
        } else {
            appendUtf8(text, character.codePoint);
            if (lossy != nullptr)
                *lossy = true;
        }
        i += character.length;
    }
    return text;
}

std::string visible(std::string_view text)
{
    std::string shown;
    shown.reserve(text.size());
    for (std::size_t i = 0; i < text.size();) {
        auto const character = decodeCharacter(text, i);
        auto const bytes = text.substr(i, character.length);
        i += character.length;
        if (!character.valid) {
            for (auto const byte : bytes)
                shown += fmt::format("\\x{:02X}", static_cast<unsigned char>(byte));
        } else if (!isInvisible(character.codePoint)) {
            shown += bytes;
        } else if (character.codePoint < 0x80) {
            shown += fmt::format("\\x{:02X}", static_cast<unsigned>(character.codePoint));
        } else {
            shown += fmt::format("\\u{{{:04X}}}", static_cast<unsigned>(character.codePoint));
        }
    }
    return shown;
}

} // namespace termalin
