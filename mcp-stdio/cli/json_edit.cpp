#include "mcp-stdio/cli/json_edit.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <optional>
#include <ranges>

namespace termalin::cli {

namespace {

/// One value with its place in the text.
struct Node {
    struct Member;
    std::size_t begin = 0, end = 0;
    bool isObject = false;
    std::vector<Member> members;
    bool trailingComma = false; ///< before the closing brace
};
struct Node::Member {
    std::string key;
    std::size_t keyBegin = 0;
    Node value;
};

/// Reads JSON with comments and trailing commas, and remembers where everything stands.
class Scanner {
public:
    explicit Scanner(std::string_view text) : m_text(text) {}

    /// The one value of the text; nothing if it has none.
    Result<std::optional<Node>> document()
    {
        if (m_text.starts_with("\xef\xbb\xbf"))
            m_at = 3;
        TRY(skipBlank());
        if (m_at == m_text.size())
            return std::optional<Node>();
        TRY_LET(auto node, value(0));
        TRY(skipBlank());
        if (m_at != m_text.size())
            return broken("there is something after its end");
        return std::optional<Node>(std::move(node));
    }

private:
    static constexpr int kDeepest = 200;

    [[nodiscard]] std::unexpected<Error> broken(std::string_view what) const
    {
        auto const before = m_text.substr(0, m_at);
        auto const line = 1 + std::ranges::count(before, '\n');
        auto const start = before.rfind('\n');
        auto const column = 1 + before.size() - (start == std::string_view::npos ? 0 : start + 1);
        return fail(Errc::Unsupported,
                    fmt::format("it is not valid JSON: line {}, column {}: {}", line, column, what));
    }

    [[nodiscard]] char peek() const { return m_at < m_text.size() ? m_text[m_at] : '\0'; }

    Result<void> skipBlank()
    {
        while (m_at < m_text.size()) {
            auto const rest = m_text.substr(m_at);
            if (std::string_view(" \t\r\n").contains(rest.front()))
                ++m_at;
            else if (rest.starts_with("//"))
                m_at = std::min(m_text.find('\n', m_at), m_text.size());
            else if (rest.starts_with("/*")) {
                auto const end = m_text.find("*/", m_at + 2);
                if (end == std::string_view::npos)
                    return broken("a comment is not closed");
                m_at = end + 2;
            } else
                break;
        }
        return {};
    }

    Result<Node> value(int depth)
    {
        if (depth > kDeepest)
            return broken("it is nested too deeply");
        Node node;
        node.begin = m_at;
        if (peek() == '{') {
            TRY(object(node, depth));
        } else if (peek() == '[') {
            TRY(array(depth));
        } else if (peek() == '"') {
            TRY(string());
        } else {
            TRY(plain());
        }
        node.end = m_at;
        return node;
    }

    Result<void> plain()
    {
        auto const begin = m_at;
        while (m_at < m_text.size() && (std::isalnum(static_cast<unsigned char>(m_text[m_at])) != 0 ||
                                        std::string_view("+-.").contains(m_text[m_at])))
            ++m_at;
        if (begin == m_at || !parseJson(m_text.substr(begin, m_at - begin))) {
            m_at = begin;
            return broken("a value was expected");
        }
        return {};
    }

    Result<std::string> string()
    {
        auto const begin = m_at++;
        while (m_at < m_text.size() && m_text[m_at] != '"' && m_text[m_at] != '\n')
            m_at += m_text[m_at] == '\\' ? 2 : 1;
        if (m_at >= m_text.size() || m_text[m_at] != '"') {
            m_at = begin;
            return broken("a string is not closed");
        }
        ++m_at;
        auto const parsed = parseJson(m_text.substr(begin, m_at - begin));
        if (!parsed) {
            m_at = begin;
            return broken("this string cannot be read");
        }
        return parsed->get<std::string>();
    }

    /// After an element: true if another one may follow, false at the closing bracket.
    Result<bool> more(char close, bool& comma)
    {
        TRY(skipBlank());
        comma = peek() == ',';
        if (comma) {
            ++m_at;
            TRY(skipBlank());
        }
        if (peek() == close) {
            ++m_at;
            return false;
        }
        if (!comma)
            return broken(fmt::format("a comma or '{}' was expected", close));
        return true;
    }

    Result<void> array(int depth)
    {
        ++m_at;
        TRY(skipBlank());
        if (peek() == ']') {
            ++m_at;
            return {};
        }
        for (bool comma = false, again = true; again;) {
            TRY(value(depth + 1));
            TRY_LET(again, more(']', comma));
        }
        return {};
    }

    Result<void> object(Node& node, int depth)
    {
        node.isObject = true;
        ++m_at;
        TRY(skipBlank());
        if (peek() == '}') {
            ++m_at;
            return {};
        }
        for (bool again = true; again;) {
            Node::Member member;
            member.keyBegin = m_at;
            if (peek() != '"')
                return broken("a name in double quotes was expected");
            TRY_LET(member.key, string());
            TRY(skipBlank());
            if (peek() != ':')
                return broken("a colon was expected");
            ++m_at;
            TRY(skipBlank());
            TRY_LET(member.value, value(depth + 1));
            node.members.push_back(std::move(member));
            TRY_LET(again, more('}', node.trailingComma));
        }
        return {};
    }

    std::string_view m_text;
    std::size_t m_at = 0;
};

/// The member that a reader would see: of several with one name, the last.
Node::Member const* find(Node const& object, std::string_view key)
{
    auto const backwards = std::views::reverse(object.members);
    auto const found =
        std::ranges::find_if(backwards, [&](Node::Member const& member) { return member.key == key; });
    return found == backwards.end() ? nullptr : &*found;
}

std::optional<Json> valueOf(std::string_view text, Node const& node)
{
    // Comments and trailing commas: the library reads the first and refuses the second.
    auto parsed =
        Json::parse(text.substr(node.begin, node.end - node.begin), nullptr, false, /*ignore_comments=*/true);
    return parsed.is_discarded() ? std::nullopt : std::optional<Json>(std::move(parsed));
}

/// The blanks that a line begins with, if nothing else stands before `at` on it.
std::optional<std::string_view> indentBefore(std::string_view text, std::size_t at)
{
    auto const start = text.rfind('\n', at == 0 ? 0 : at - 1);
    if (start == std::string_view::npos || at == 0)
        return std::nullopt;
    auto const blanks = text.substr(start + 1, at - start - 1);
    return blanks.find_first_not_of(" \t") == std::string_view::npos ? std::optional(blanks) : std::nullopt;
}

std::string_view lineIndent(std::string_view text, std::size_t at)
{
    auto const start = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
    auto const line = text.substr(start == std::string_view::npos ? 0 : start + 1);
    return line.substr(0, std::min(line.find_first_not_of(" \t"), line.size()));
}

struct Style {
    std::string newline = "\n";
    std::string unit = "  "; ///< one step of indentation

    static Style of(std::string_view text, Node const& root)
    {
        Style style;
        if (text.find("\r\n") != std::string_view::npos)
            style.newline = "\r\n";
        if (!root.members.empty())
            if (auto const indent = indentBefore(text, root.members.front().keyBegin);
                indent && !indent->empty())
                style.unit = *indent;
        return style;
    }

    /// `value` over several lines whose first stands at `indent` already.
    [[nodiscard]] std::string write(Json const& value, std::string const& indent) const
    {
        if (!value.is_object() || value.empty())
            return toLine(value);
        std::string out = "{";
        for (auto const& [key, member] : value.items())
            out += fmt::format("{}{}{}{}: {}{}", newline, indent, unit, toLine(key),
                               write(member, indent + unit), key == std::prev(value.end()).key() ? "" : ",");
        return out + newline + indent + "}";
    }
};

/// Puts a new member at the end of an object.
std::string insertInto(std::string_view text, Node const& object, Style const& style, std::string const& key,
                       Json const& value)
{
    auto const close = object.end - 1;
    std::string result(text);
    if (object.members.empty()) {
        auto const outer = std::string(lineIndent(text, object.begin));
        auto const inner = outer + style.unit;
        auto const member =
            fmt::format("{}{}{}: {}", style.newline, inner, toLine(key), style.write(value, inner));
        // Nothing but a comment can stand inside; it stays before the member.
        auto const last = text.find_last_not_of(" \t\r\n", close - 1);
        auto const at = last + 1;
        auto const closingLine = indentBefore(text, close).has_value() && at != object.begin + 1;
        if (at == object.begin + 1)
            return result.replace(at, close - at, member + style.newline + outer);
        return result.insert(at, member + (closingLine ? "" : style.newline + outer));
    }
    auto const indent = indentBefore(text, object.members.front().keyBegin);
    auto const last =
        text.find_last_not_of(" \t\r\n", close - 1) + 1; // behind the last value, comma or comment
    auto const member = indent ? fmt::format("{}{}{}: {}", style.newline, *indent, toLine(key),
                                             style.write(value, std::string(*indent)))
                               : fmt::format(" {}: {}", toLine(key), toLine(value));
    // A comment that runs to the end of its line would swallow a member beside it.
    auto const lineStart = text.rfind('\n', last - 1);
    auto const lastLine = text.substr(lineStart == std::string_view::npos ? 0 : lineStart + 1, last);
    auto const behindLineComment = !indent && lastLine.find("//") != std::string_view::npos;
    result.insert(last, behindLineComment ? style.newline + member : member);
    if (!object.trailingComma)
        result.insert(object.members.back().value.end, ",");
    return result;
}

Json nested(std::vector<std::string> const& path, std::size_t from, Json value)
{
    for (auto i = path.size(); i > from; --i)
        value = Json{{path[i - 1], std::move(value)}};
    return value;
}

} // namespace

Result<std::string> setJsonMember(std::string_view text, std::vector<std::string> const& path,
                                  Json const& value)
{
    TRY_LET(auto const document, Scanner(text).document());
    if (!document) {
        Style const style;
        return std::string(text) + style.write(nested(path, 0, value), "") + style.newline;
    }
    auto const style = Style::of(text, *document);
    auto const* at = &*document;
    for (std::size_t i = 0; i < path.size(); ++i) {
        if (!at->isObject)
            return fail(Errc::Unsupported, i == 0
                                               ? std::string("it does not hold a JSON object")
                                               : fmt::format("\"{}\" in it is not an object", path[i - 1]));
        auto const* const member = find(*at, path[i]);
        if (member == nullptr)
            return insertInto(text, *at, style, path[i], nested(path, i + 1, value));
        at = &member->value;
    }
    if (valueOf(text, *at) == value)
        return std::string(text);
    std::string result(text);
    return result.replace(at->begin, at->end - at->begin,
                          style.write(value, std::string(lineIndent(text, at->begin))));
}

Result<Json> jsonMember(std::string_view text, std::vector<std::string> const& path)
{
    TRY_LET(auto const document, Scanner(text).document());
    auto const* at = document ? &*document : nullptr;
    for (auto const& key : path) {
        auto const* const member = at != nullptr && at->isObject ? find(*at, key) : nullptr;
        at = member == nullptr ? nullptr : &member->value;
    }
    if (at == nullptr)
        return fail(Errc::NotFound, "there is no such member");
    if (auto parsed = valueOf(text, *at))
        return *std::move(parsed);
    return fail(Errc::NotFound, "the member is written in a way that is not plain JSON");
}

} // namespace termalin::cli
