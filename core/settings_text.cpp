#include "core/settings_text.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "core/json.h"

namespace termalin {
namespace {

/// An object of the text, by its braces.
struct ObjectPlace {
    std::string key; ///< Empty: the outermost.
    std::size_t open = 0;
    std::size_t close = 0;
    bool empty = true;
};

/// Walks over a text that is known to be valid JSON, so that no step has to look for faults.
class Walker {
public:
    explicit Walker(std::string_view text) : m_text(text) {}

    Result<void> walk()
    {
        m_at = m_text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
        skipSpace();
        return object("", 1);
    }

    std::vector<SettingPlace> places;
    std::vector<ObjectPlace> objects;

private:
    Result<void> object(std::string const& prefix, int level)
    {
        auto const index = objects.size();
        objects.push_back({.key = prefix, .open = m_at});
        ++m_at;
        skipSpace();
        while (m_text[m_at] != '}') {
            objects[index].empty = false;
            TRY(member(prefix, level));
            skipSpace();
            if (m_text[m_at] == ',')
                ++m_at;
            skipSpace();
        }
        objects[index].close = m_at++;
        return {};
    }

    Result<void> member(std::string const& prefix, int level)
    {
        auto const begin = m_at;
        skipString();
        auto const name = parseJson(m_text.substr(begin, m_at - begin)).value_or(Json("")).get<std::string>();
        auto const key = prefix.empty() ? name : prefix + "." + name;
        skipSpace();
        ++m_at; // the colon
        skipSpace();
        if (!m_seen.insert(key).second)
            return fail(Errc::InvalidArgument, fmt::format("\"{}\" is there twice", key));
        auto const value = m_at;
        if (level == 1 && m_text[m_at] == '{')
            TRY(object(key, level + 1));
        else
            skipValue();
        places.push_back({.key = key, .begin = value, .end = m_at});
        return {};
    }

    void skipValue()
    {
        std::size_t depth = 0;
        do {
            auto const c = m_text[m_at];
            if (c == '"') {
                skipString();
                continue;
            }
            if (c == '{' || c == '[')
                ++depth;
            else if (c == '}' || c == ']')
                --depth;
            else if (depth == 0)
                return skipPlain();
            ++m_at;
        } while (depth > 0);
    }

    /// A number, true, false or null.
    void skipPlain() { m_at = std::min(m_text.find_first_of(",}] \t\r\n", m_at), m_text.size()); }

    void skipString()
    {
        ++m_at;
        while (m_text[m_at] != '"')
            m_at += m_text[m_at] == '\\' ? 2 : 1;
        ++m_at;
    }

    void skipSpace()
    {
        while (m_at < m_text.size() && isSpace(m_text[m_at]))
            ++m_at;
    }

    static bool isSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

    std::string_view m_text;
    std::size_t m_at = 0;
    std::set<std::string> m_seen;
};

Result<Walker> walkOver(std::string_view text)
{
    if (!Json::accept(text))
        return fail(Errc::InvalidArgument, "it is not JSON");
    auto const body = text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
    auto const first = body.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || body[first] != '{')
        return fail(Errc::InvalidArgument, "it is not a JSON object");
    Walker walker(text);
    TRY(walker.walk());
    return walker;
}

/// Puts a member at the end of an object, indented as a person would have it.
std::string withMember(std::string_view text, ObjectPlace const& object, std::string_view member)
{
    auto const* const inner = object.key.empty() ? "  " : "    ";
    auto const* const outer = object.key.empty() ? "" : "  ";
    auto const* const newline = text.contains("\r\n") ? "\r\n" : "\n";
    auto const multiline =
        object.empty || text.substr(object.open, object.close - object.open).contains('\n');
    auto const end = text.substr(0, object.close).find_last_not_of(" \t\r\n") + 1;
    auto const* const separator = object.empty ? "" : ",";
    if (!multiline)
        return fmt::format("{}{} {}{}", text.substr(0, end), separator, member, text.substr(end));
    auto const rest = object.empty ? fmt::format("{}{}{}", newline, outer, text.substr(object.close))
                                   : std::string(text.substr(end));
    return fmt::format("{}{}{}{}{}{}", text.substr(0, end), separator, newline, inner, member, rest);
}

} // namespace

Result<std::vector<SettingPlace>> findSettings(std::string_view text)
{
    TRY_LET(auto walker, walkOver(text));
    return std::move(walker.places);
}

Result<std::string> withSetting(std::string_view text, std::string_view key, std::string_view jsonValue)
{
    TRY_LET(auto const walker, walkOver(text));
    if (auto const place = std::ranges::find(walker.places, key, &SettingPlace::key);
        place != walker.places.end())
        return fmt::format("{}{}{}", text.substr(0, place->begin), jsonValue, text.substr(place->end));

    auto const dot = key.find('.');
    auto const group = key.substr(0, dot);
    auto const member = fmt::format("\"{}\": {}", key.substr(dot + 1), jsonValue);
    if (auto const object = std::ranges::find(walker.objects, group, &ObjectPlace::key);
        object != walker.objects.end())
        return withMember(text, *object, member);
    if (std::ranges::find(walker.places, group, &SettingPlace::key) != walker.places.end())
        return fail(Errc::InvalidArgument, fmt::format("\"{}\" is not an object", group));
    auto const* const newline = text.contains("\r\n") ? "\r\n" : "\n";
    return withMember(text, walker.objects.front(),
                      fmt::format("\"{}\": {{{}    {}{}  }}", group, newline, member, newline));
}

} // namespace termalin
