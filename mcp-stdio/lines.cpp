#include "mcp-stdio/lines.h"

#include <algorithm>

namespace termalin::mcp {
namespace {

constexpr std::size_t kMaxIdBytes = 1024;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool isBlank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

} // namespace

void LineScanner::feed(std::string_view bytes, OnLine const& onLine)
{
    while (!bytes.empty()) {
        auto const end = bytes.find('\n');
        if (end == std::string_view::npos) {
            scan(bytes);
            if (m_problem == Line::Problem::None)
                m_line.append(bytes);
            return;
        }
        complete(bytes.substr(0, end), onLine);
        bytes.remove_prefix(end + 1);
    }
}

void LineScanner::finish(OnLine const& onLine)
{
    if (m_size > 0)
        complete({}, onLine);
}

void LineScanner::complete(std::string_view rest, OnLine const& onLine)
{
    scan(rest);
    if (m_line.empty()) {
        deliver(rest, onLine);
    } else {
        if (m_problem == Line::Problem::None)
            m_line.append(rest);
        deliver(m_line, onLine);
    }
    restart();
}

void LineScanner::deliver(std::string_view text, OnLine const& onLine)
{
    Line line{.problem = m_problem, .id = m_severalIds ? std::string() : std::move(m_id)};
    if (m_problem == Line::Problem::None) {
        if (text.starts_with(kByteOrderMark))
            text.remove_prefix(kByteOrderMark.size());
        while (!text.empty() && isBlank(text.back()))
            text.remove_suffix(1);
        if (std::ranges::all_of(text, isBlank))
            return;
        line.text = text;
    }
    onLine(line);
}

void LineScanner::restart()
{
    constexpr std::size_t worthKeeping = 64U * 1024U;
    auto line = std::move(m_line);
    *this = LineScanner();
    if (line.capacity() <= worthKeeping) {
        line.clear();
        m_line = std::move(line);
    }
}

void LineScanner::scan(std::string_view bytes)
{
    m_size += bytes.size();
    if (m_size > kMaxBytes && m_problem == Line::Problem::None)
        m_problem = Line::Problem::TooLong;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        auto const c = bytes[i];
        if (m_capturing && m_depth == 1 && (m_inString || (c != ',' && c != '}')) &&
            m_value.size() <= kMaxIdBytes)
            m_value.push_back(c);
        if (!m_inString) {
            scanSignificant(c);
        } else if (m_escaped) {
            m_escaped = false;
        } else if (c == '\\') {
            m_escaped = true;
            m_key += m_inKey && m_key.size() < 8 ? "\\" : "";
        } else if (c == '"') {
            m_inString = false;
            if (m_inKey)
                m_keyIsId = m_key == "id";
            m_inKey = false;
        } else if (m_inKey) {
            if (m_key.size() < 8) // enough to tell "id" from anything else
                m_key.push_back(c);
        } else if (!m_capturing) { // the long strings are values: on to what could end them
            auto const next = bytes.find_first_of("\"\\", i);
            i = (next == std::string_view::npos ? bytes.size() : next) - 1;
        }
    }
    if (m_problem != Line::Problem::None)
        std::string().swap(m_line);
}

void LineScanner::scanSignificant(char c)
{
    switch (c) {
    case '"':
        m_inString = true;
        if (m_depth == 1 && m_keyPosition) {
            m_inKey = true;
            m_keyPosition = false;
            m_key.clear();
        }
        return;
    case '{':
    case '[':
        if (m_depth == 0)
            m_rootIsObject = c == '{';
        m_capturing = m_capturing && m_depth != 1; // an id is a string or a number
        ++m_depth;
        m_keyPosition = m_depth == 1 && m_rootIsObject;
        if (m_depth > kMaxDepth && m_problem == Line::Problem::None)
            m_problem = Line::Problem::TooDeep;
        return;
    case '}':
    case ']':
        if (m_depth == 1)
            endOfValue();
        m_depth = std::max(0, m_depth - 1);
        return;
    case ',':
        if (m_depth == 1) {
            endOfValue();
            m_keyPosition = m_rootIsObject;
        }
        return;
    case ':':
        if (m_depth == 1 && m_keyIsId) {
            m_capturing = true;
            m_keyIsId = false;
            m_value.clear();
        }
        return;
    default: return;
    }
}

void LineScanner::endOfValue()
{
    if (!m_capturing)
        return;
    m_capturing = false;
    auto const first = std::ranges::find_if_not(m_value, isBlank);
    m_value.erase(m_value.begin(), first);
    while (!m_value.empty() && isBlank(m_value.back()))
        m_value.pop_back();
    if (!m_id.empty())
        m_severalIds = true; // nobody can tell which one was meant
    if (m_value.size() <= kMaxIdBytes)
        m_id = m_value;
}

} // namespace termalin::mcp
