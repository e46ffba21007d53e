#include "mcp-stdio/cli/toml_edit.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <optional>

namespace termalin::cli {

namespace {

using Keys = std::vector<std::string>;

/// One statement of the text: a table's header, or a key with its value.
struct Statement {
    bool header = false;
    bool ofArray = false;           ///< [[...]]
    Keys path;                      ///< from the root
    std::size_t dotted = 1;         ///< keys written in the statement itself
    std::size_t begin = 0, end = 0; ///< of a header's line; of a key's value
    bool isString = false;
    bool isInlineTable = false;
    std::string string; ///< the value of a string
};

void appendUtf8(std::string& out, std::uint32_t point)
{
    auto const tail = [&](unsigned shift) { out += static_cast<char>(0x80U | (point >> shift & 0x3fU)); };
    if (point < 0x80)
        out += static_cast<char>(point);
    else if (point < 0x800) {
        out += static_cast<char>(0xc0U | point >> 6U);
        tail(0);
    } else if (point < 0x10000) {
        out += static_cast<char>(0xe0U | point >> 12U);
        tail(6);
        tail(0);
    } else {
        out += static_cast<char>(0xf0U | point >> 18U);
        tail(12);
        tail(6);
        tail(0);
    }
}

/// Reads the statements of a TOML text and where they stand.
class Scanner {
public:
    explicit Scanner(std::string_view text) : m_text(text) {}

    Result<std::vector<Statement>> statements()
    {
        std::vector<Statement> all;
        Keys table;
        if (m_text.starts_with("\xef\xbb\xbf"))
            m_at = 3;
        for (;;) {
            skip(" \t\r\n");
            if (peek() == '#') {
                comment();
                continue;
            }
            if (m_at >= m_text.size())
                return all;
            TRY_LET(auto statement, peek() == '[' ? header() : entry(table));
            if (statement.header)
                table = statement.path;
            all.push_back(std::move(statement));
            skip(" \t\r");
            if (peek() == '#')
                comment();
            if (m_at < m_text.size() && peek() != '\n')
                return broken("the end of the line was expected");
        }
    }

private:
    [[nodiscard]] std::unexpected<Error> broken(std::string_view what) const
    {
        auto const line = 1 + std::ranges::count(m_text.substr(0, m_at), '\n');
        return fail(Errc::Unsupported, fmt::format("it is not valid TOML: line {}: {}", line, what));
    }

    [[nodiscard]] char peek(std::size_t ahead = 0) const
    {
        return m_at + ahead < m_text.size() ? m_text[m_at + ahead] : '\0';
    }
    void skip(std::string_view blanks)
    {
        m_at = std::min(m_text.find_first_not_of(blanks, m_at), m_text.size());
    }
    void comment() { m_at = std::min(m_text.find('\n', m_at), m_text.size()); }

    Result<Statement> header()
    {
        Statement statement;
        statement.header = true;
        statement.begin = m_at;
        statement.ofArray = peek(1) == '[';
        m_at += statement.ofArray ? 2 : 1;
        TRY_LET(statement.path, keys());
        statement.dotted = statement.path.size();
        auto const close = statement.ofArray ? std::string_view("]]") : std::string_view("]");
        if (!m_text.substr(m_at).starts_with(close))
            return broken("a table's header is not closed");
        m_at += close.size();
        statement.end = m_at;
        return statement;
    }

    Result<Statement> entry(Keys const& table)
    {
        Statement statement;
        TRY_LET(auto const own, keys());
        statement.path = table;
        statement.path.insert(statement.path.end(), own.begin(), own.end());
        statement.dotted = own.size();
        if (peek() != '=')
            return broken("an equals sign was expected");
        ++m_at;
        skip(" \t");
        statement.begin = m_at;
        statement.isString = peek() == '"' || peek() == '\'';
        statement.isInlineTable = peek() == '{';
        TRY(value(0, statement.isString ? &statement.string : nullptr));
        statement.end = m_at;
        return statement;
    }

    /// A dotted key, blanks around its parts.
    Result<Keys> keys()
    {
        Keys path;
        for (;;) {
            skip(" \t");
            std::string key;
            if (peek() == '"' || peek() == '\'') {
                TRY(string(key));
            } else {
                auto const begin = m_at;
                while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_' ||
                       peek() == '-')
                    ++m_at;
                key = m_text.substr(begin, m_at - begin);
                if (key.empty())
                    return broken("a key was expected");
            }
            path.push_back(std::move(key));
            skip(" \t");
            if (peek() != '.')
                return path;
            ++m_at;
        }
    }

    Result<void> value(int depth, std::string* out)
    {
        if (depth > 100)
            return broken("it is nested too deeply");
        if (peek() == '"' || peek() == '\'') {
            std::string unused;
            return string(out == nullptr ? unused : *out);
        }
        if (peek() == '[')
            return array(depth);
        if (peek() == '{')
            return inlineTable(depth);
        auto const begin = m_at;
        while (
            std::isalnum(static_cast<unsigned char>(peek())) != 0 ||
            (peek() != '\0' && std::string_view("+-_.:").contains(peek())) ||
            // a blank between date and time
            (peek() == ' ' && m_at - begin == 10 && std::isdigit(static_cast<unsigned char>(peek(1))) != 0))
            ++m_at;
        auto const text = m_text.substr(begin, m_at - begin);
        auto const begins = text.empty() ? '\0' : text.front();
        if (text != "true" && text != "false" && !text.ends_with("inf") && !text.ends_with("nan") &&
            std::isdigit(static_cast<unsigned char>(begins)) == 0 && begins != '+' && begins != '-')
            return broken("a value was expected");
        return {};
    }

    void skipLines()
    {
        for (skip(" \t\r\n"); peek() == '#'; skip(" \t\r\n"))
            comment();
    }

    Result<void> array(int depth)
    {
        ++m_at;
        for (skipLines(); peek() != ']'; skipLines()) {
            TRY(value(depth + 1, nullptr));
            skipLines();
            if (peek() == ',')
                ++m_at;
            else if (peek() != ']')
                return broken("a comma or ']' was expected");
        }
        ++m_at;
        return {};
    }

    Result<void> inlineTable(int depth)
    {
        ++m_at;
        skip(" \t");
        if (peek() == '}') {
            ++m_at;
            return {};
        }
        for (;;) {
            TRY(keys());
            if (peek() != '=')
                return broken("an equals sign was expected");
            ++m_at;
            skip(" \t");
            TRY(value(depth + 1, nullptr));
            skip(" \t");
            if (peek() == '}')
                break;
            if (peek() != ',')
                return broken("a comma or '}' was expected");
            ++m_at;
        }
        ++m_at;
        return {};
    }

    Result<void> string(std::string& out)
    {
        auto const quote = peek();
        auto const several = peek(1) == quote && peek(2) == quote;
        auto const begin = m_at;
        m_at += several ? 3 : 1;
        if (several && (peek() == '\n' || (peek() == '\r' && peek(1) == '\n')))
            m_at += peek() == '\n' ? 1 : 2;
        while (m_at < m_text.size()) {
            if (peek() == quote && (!several || (peek(1) == quote && peek(2) == quote))) {
                m_at += several ? 3 : 1;
                // Up to two quotes may stand right before the closing three.
                for (int i = 0; several && i < 2 && peek() == quote; ++i, ++m_at)
                    out += quote;
                return {};
            }
            if (peek() == '\n' && !several)
                break;
            if (peek() == '\\' && quote == '"') {
                TRY(escape(out));
                continue;
            }
            out += m_text[m_at++];
        }
        m_at = begin;
        return broken("a string is not closed");
    }

    Result<void> escape(std::string& out)
    {
        constexpr std::string_view kLetters = "btnfr\"\\e";
        constexpr std::string_view kMeanings = "\b\t\n\f\r\"\\\x1b";
        auto const letter = peek(1);
        if (auto const at = kLetters.find(letter); letter != '\0' && at != std::string_view::npos) {
            out += kMeanings[at];
            m_at += 2;
            return {};
        }
        if (letter == 'u' || letter == 'U') {
            auto const digits = m_text.substr(std::min(m_at + 2, m_text.size()), letter == 'u' ? 4 : 8);
            std::uint32_t point = 0;
            auto const [end, error] =
                std::from_chars(digits.data(), digits.data() + digits.size(), point, 16);
            if (error != std::errc() || end != digits.data() + digits.size() || point > 0x10ffff)
                return broken("an escape in a string cannot be read");
            appendUtf8(out, point);
            m_at += 2 + digits.size();
            return {};
        }
        if (letter == '\n' || letter == '\r' || letter == ' ' ||
            letter == '\t') { // a line goes on in the next
            ++m_at;
            skip(" \t\r\n");
            return {};
        }
        return broken("an escape in a string cannot be read");
    }

    std::string_view m_text;
    std::size_t m_at = 0;
};

std::string quoted(std::string_view value)
{
    std::string out = "\"";
    for (char const c : value) {
        if (c == '"' || c == '\\')
            out += '\\';
        if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f')
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        else
            out += c;
    }
    return out + '"';
}

std::string keyText(std::string const& key)
{
    auto const bare = !key.empty() && std::ranges::all_of(key, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    });
    return bare ? key : quoted(key);
}

bool startsWith(Keys const& path, Keys const& prefix)
{
    return path.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

} // namespace

Result<std::string> setTomlString(std::string_view text, Keys const& table, std::string const& key,
                                  std::string const& value)
{
    TRY_LET(auto const all, Scanner(text).statements());
    auto path = table;
    path.push_back(key);
    auto const newline = text.contains("\r\n") ? std::string("\r\n") : std::string("\n");
    std::string result(text);
    Statement const* header = nullptr;
    for (auto const& statement : all) {
        if (!statement.header && statement.path == path) {
            if (statement.isString && statement.string == value)
                return result;
            return result.replace(statement.begin, statement.end - statement.begin, quoted(value));
        }
        if (statement.header && statement.path == table && !statement.ofArray)
            header = &statement;
    }
    if (header != nullptr) {
        auto const lineEnd = std::min(text.find('\n', header->end), text.size());
        auto const line = fmt::format("{} = {}", keyText(key), quoted(value));
        return lineEnd == text.size() ? result + newline + line + newline
                                      : result.insert(lineEnd + 1, line + newline);
    }
    for (auto const& statement : all)
        if ((!statement.header && (startsWith(statement.path, table) || startsWith(table, statement.path))) ||
            (statement.ofArray && startsWith(table, statement.path)))
            return fail(Errc::Unsupported,
                        fmt::format("[{}] is written in it in a form that cannot be added to (an "
                                    "inline table, dotted keys or an array)",
                                    fmt::join(table, ".")));
    std::string name;
    for (auto const& part : table)
        name += (name.empty() ? "" : ".") + keyText(part);
    if (!result.empty() && !result.ends_with('\n'))
        result += newline;
    if (!result.empty())
        result += newline;
    return result + fmt::format("[{}]{}{} = {}{}", name, newline, keyText(key), quoted(value), newline);
}

Result<std::string> emptyTomlArray(std::string_view text, Keys const& path)
{
    TRY_LET(auto const all, Scanner(text).statements());
    std::string result(text);
    for (auto const& statement : all)
        if (!statement.header && statement.path == path)
            return result.replace(statement.begin, statement.end - statement.begin, "[]");
    return result;
}

Result<std::string> tomlString(std::string_view text, Keys const& path)
{
    TRY_LET(auto const all, Scanner(text).statements());
    for (auto const& statement : all)
        if (!statement.header && statement.isString && statement.path == path)
            return statement.string;
    return fail(Errc::NotFound, "there is no such string");
}

} // namespace termalin::cli
