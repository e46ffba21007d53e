#include "core/command_policy.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>

#include "core/output_buffer.h"
#include "core/unicode.h"
#include "core/wildcard.h"

namespace termalin {

namespace {

constexpr std::size_t kMaxCommand = 8U * 1024U;

/// What a shell does with these bytes wherever they stand unquoted.
struct Special {
    char byte;
    std::string_view meaning;
};
constexpr std::array kSpecial = {
    Special{';', "ends a command"},
    Special{'&', "ends a command or sends it to the background"},
    Special{'|', "pipes into another command"},
    Special{'<', "redirects input"},
    Special{'>', "redirects output"},
    Special{'(', "starts a subshell or function"},
    Special{')', "ends a subshell or function"},
    Special{'{', "starts a group or brace expansion"},
    Special{'}', "ends a group or brace expansion"},
    Special{'$', "expands a variable or runs a command"},
    Special{'`', "runs a command"},
    Special{'\\', "escapes the next character"},
    Special{'*', "is replaced by file names"},
    Special{'?', "is replaced by file names"},
    Special{'[', "is replaced by file names"},
    Special{']', "is replaced by file names"},
    Special{'!', "negates a command or recalls one from the history"},
};

/// Reserved where a command begins, in one shell or another (POSIX.1-2017 XCU 2.4, bash, zsh, mksh).
constexpr std::array<std::string_view, 27> kReserved = {
    "if",     "then",   "else",    "elif",      "fi",     "do",   "done",   "case",   "esac",
    "while",  "until",  "for",     "in",        "select", "time", "coproc", "end",    "function",
    "repeat", "always", "foreach", "nocorrect", "noglob", "-",    "begin",  "switch", "namespace",
};

bool isReserved(std::string_view word)
{
    return std::ranges::find(kReserved, word) != kReserved.end();
}

/// A refusal: what and where (the first byte is byte 1), and what a shell would do there.
struct Refusal {
    std::string why;
};

struct Word {
    std::string text;           ///< In a rule, an unquoted star is kAnyRun.
    bool quoted = false;        ///< Some of it was in quotes.
    std::size_t at = 0;         ///< Its first byte.
    std::size_t assignment = 0; ///< The byte after an unquoted NAME= it begins with, else 0.
};

enum class Stars : std::uint8_t { Refused, Wildcards };

/// POSIX token recognition for the part of the grammar that a shell does not act on. Built for one text.
class Lexer {
public:
    Lexer(std::string_view text, Stars stars) : m_text(text), m_stars(stars) {}

    std::expected<std::vector<Word>, Refusal> run()
    {
        if (auto refusal = findUnsafeByte())
            return std::unexpected(*std::move(refusal));
        for (m_at = 0; m_at < m_text.size(); ++m_at)
            if (auto refusal = step(m_text[m_at]))
                return std::unexpected(*std::move(refusal));
        endWord();
        if (auto refusal = checkCommandName())
            return std::unexpected(*std::move(refusal));
        return std::move(m_words);
    }

private:
    [[nodiscard]] std::optional<Refusal> findUnsafeByte() const
    {
        if (m_text.size() > kMaxCommand)
            return Refusal{fmt::format("it has {} bytes, and {} are the most", m_text.size(), kMaxCommand)};
        for (std::size_t i = 0; i < m_text.size();) {
            auto const character = decodeCharacter(m_text, i);
            auto const shown = visible(m_text.substr(i, character.length));
            if (!character.valid)
                return Refusal{fmt::format("{} at byte {} is not UTF-8", shown, i + 1)};
            if (character.codePoint != U'\t' && isInvisible(character.codePoint))
                return Refusal{fmt::format("{} at byte {} is {}", shown, i + 1,
                                           shown == "\\x0A" || shown == "\\x0D"
                                               ? "a line break, which ends a command"
                                               : "a control or invisible character")};
            i += character.length;
        }
        return std::nullopt;
    }

    std::optional<Refusal> step(char byte)
    {
        switch (byte) {
        case ' ':
        case '\t': endWord(); return std::nullopt;
        case '\'': return singleQuotes();
        case '"': return doubleQuotes();
        case '~':
        case '#':
            if (!m_inWord)
                return refuse(byte, byte == '#' ? "starts a comment" : "is replaced by a home folder");
            break;
        case '*':
            if (m_stars == Stars::Wildcards) {
                word().text.push_back(kAnyRun);
                return std::nullopt;
            }
            break;
        default: break;
        }
        auto const* const special = std::ranges::find(kSpecial, byte, &Special::byte);
        if (special != kSpecial.end())
            return refuse(byte, special->meaning);
        auto& current = word();
        if (byte == '=' && !current.quoted && current.assignment == 0 && isName(current.text))
            current.assignment = m_at + 1;
        current.text.push_back(byte);
        return std::nullopt;
    }

    std::optional<Refusal> singleQuotes()
    {
        auto const end = m_text.find('\'', m_at + 1);
        if (end == std::string_view::npos)
            return Refusal{fmt::format("the quote ' at byte {} is not closed", m_at + 1)};
        auto& current = word();
        current.quoted = true;
        current.text += m_text.substr(m_at + 1, end - m_at - 1);
        m_at = end;
        return std::nullopt;
    }

    std::optional<Refusal> doubleQuotes()
    {
        auto const start = m_at;
        auto& current = word();
        current.quoted = true;
        for (++m_at; m_at < m_text.size() && m_text[m_at] != '"'; ++m_at) {
            auto const byte = m_text[m_at];
            if (byte == '$' || byte == '`' || byte == '\\' || byte == '!') {
                auto const* const special = std::ranges::find(kSpecial, byte, &Special::byte);
                return Refusal{fmt::format(
                    "{} at byte {} {} inside double quotes too; use single quotes", byte, m_at + 1,
                    byte == '!' ? "recalls a command from the history" : special->meaning)};
            }
            current.text.push_back(byte);
        }
        if (m_at == m_text.size())
            return Refusal{fmt::format("the quote \" at byte {} is not closed", start + 1)};
        return std::nullopt;
    }

    [[nodiscard]] std::optional<Refusal> checkCommandName() const
    {
        if (m_words.empty())
            return Refusal{"it is empty"};
        auto const& name = m_words.front();
        if (name.assignment != 0)
            return Refusal{fmt::format("{} at byte {} sets a variable in place of naming a command",
                                       name.text.substr(0, name.assignment - name.at), name.at + 1)};
        if (name.text.empty())
            return Refusal{fmt::format("the command's name at byte {} is empty", name.at + 1)};
        if (name.text.starts_with('%')) // bash calls its fg for it, quoted or not
            return Refusal{
                fmt::format("{} at byte {} names a job of the shell", visible(name.text), name.at + 1)};
        if (!name.quoted && isReserved(name.text))
            return Refusal{
                fmt::format("{} at byte {} is a reserved word of the shell", name.text, name.at + 1)};
        return std::nullopt;
    }

    [[nodiscard]] std::optional<Refusal> refuse(char byte, std::string_view meaning) const
    {
        return Refusal{fmt::format("{} at byte {} {} when it is not in quotes", byte, m_at + 1, meaning)};
    }

    /// NAME or NAME+ as they stand before the = of an assignment.
    static bool isName(std::string_view text)
    {
        if (text.ends_with('+'))
            text.remove_suffix(1);
        auto const letter = [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        };
        return !text.empty() && letter(text.front()) &&
               std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
    }

    Word& word()
    {
        if (!m_inWord) {
            m_words.push_back({.text = {}, .at = m_at});
            m_inWord = true;
        }
        return m_words.back();
    }
    void endWord() { m_inWord = false; }

    std::string_view m_text;
    Stars m_stars;
    std::size_t m_at = 0;
    bool m_inWord = false;
    std::vector<Word> m_words;
};

std::vector<std::string> textsOf(std::vector<Word>&& words)
{
    std::vector<std::string> texts;
    texts.reserve(words.size());
    for (auto& word : words)
        texts.push_back(std::move(word.text));
    return texts;
}

/// A `..` that a program would read as "the folder above", also in --option=.. and host:.. .
bool hasParentComponent(std::string_view word)
{
    for (;;) {
        auto const end = word.find_first_of("/=:,");
        if (word.substr(0, end) == "..")
            return true;
        if (end == std::string_view::npos)
            return false;
        word.remove_prefix(end + 1);
    }
}

bool wordMatches(std::string_view pattern, std::string_view word)
{
    if (!pattern.contains(kAnyRun))
        return pattern == word;
    return !word.empty() && (!word.starts_with('-') || pattern.starts_with('-')) &&
           !hasParentComponent(word) && matchesWildcard(pattern, word);
}

bool isPlain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./:=@,+-").contains(c);
}

std::string joined(std::span<std::string const> words)
{
    std::string line;
    for (auto const& word : words)
        line += (line.empty() ? "" : " ") + word;
    return line;
}

/// For messages: long commands are cut.
std::string shownShort(std::string_view text)
{
    constexpr std::size_t kMost = 300;
    return text.size() <= kMost ? visible(text) : visible(toUtf8(text.substr(0, kMost))) + "...";
}

} // namespace

Result<std::vector<std::string>> splitCommand(std::string_view command)
{
    auto words = Lexer(command, Stars::Refused).run();
    if (!words)
        return fail(Errc::NotInAllowlist,
                    "The command is refused: " + words.error().why +
                        ". This host admits one simple command at a time, whose words a shell takes as they "
                        "are; put a word with special characters in single quotes.");
    return textsOf(*std::move(words));
}

std::string quoteWords(std::span<std::string const> words)
{
    std::string line;
    for (auto const& word : words) {
        if (!line.empty())
            line += ' ';
        line += '\'';
        for (auto const byte : word) {
            if (byte == '\'')
                line += R"('"'"')"; // out of the quotes, a quoted one, in again; and we can read it back
            else
                line += byte;
        }
        line += '\'';
    }
    return line;
}

bool isPlainEverywhere(std::span<std::string const> words)
{
    return std::ranges::all_of(
        words, [](auto const& word) { return !word.empty() && std::ranges::all_of(word, isPlain); });
}

std::string asArgument(std::string_view word)
{
    std::array const words{visible(word)};
    return isPlainEverywhere(words) ? words.front() : quoteWords(words);
}

Result<CommandRule> CommandRule::parse(std::string_view text)
{
    auto const refuse = [&](std::string_view why) {
        return fail(
            Errc::InvalidArgument,
            fmt::format("The rule '{}' cannot be used: {}. A rule is written like a command, with * for one "
                        "word or a part of it and a last ** for any further words; anything else that is "
                        "special to a shell belongs in single quotes.",
                        shownShort(text), why));
    };
    auto words = Lexer(text, Stars::Wildcards).run();
    if (!words)
        return refuse(words.error().why);
    CommandRule rule;
    rule.m_text = text;
    rule.m_patterns = textsOf(*std::move(words));
    constexpr std::string_view kRest{"\0\0", 2};
    static_assert(kRest[0] == kAnyRun);
    if (rule.m_patterns.front().contains(kAnyRun))
        return refuse("the first word names the program and cannot have a *");
    if (rule.m_patterns.back() == kRest) {
        rule.m_rest = true;
        rule.m_patterns.pop_back();
    }
    for (auto const& pattern : rule.m_patterns)
        if (pattern.contains(kRest))
            return refuse("** can only be the last word, by itself");
    return rule;
}

bool CommandRule::matches(std::span<std::string const> words) const
{
    if (words.size() < m_patterns.size() || (!m_rest && words.size() > m_patterns.size()))
        return false;
    return std::equal(m_patterns.begin(), m_patterns.end(), words.begin(), wordMatches);
}

Result<AdmittedCommand> admitCommand(std::string_view command, std::span<CommandRule const> rules,
                                     LoginShell shell)
{
    TRY_LET(auto words, splitCommand(command));
    // Without quotes, a name that the other shell may know as a word of its own language is out as well.
    if (shell == LoginShell::Other &&
        (!isPlainEverywhere(words) || words.front().contains('=') || isReserved(words.front())))
        return fail(
            Errc::NotInAllowlist,
            "The command is refused: the login shell of this host is not a POSIX shell, so a word can "
            "have only letters, digits and _ . / : = @ , + - in it, and the first is a program's name. "
            "Where that is not enough, the person can give this account a POSIX shell.");
    for (auto const& rule : rules)
        if (rule.matches(words)) {
            auto quoted = shell == LoginShell::Posix ? quoteWords(words) : joined(words);
            return AdmittedCommand{
                .words = std::move(words), .quoted = std::move(quoted), .rule = rule.text()};
        }
    return fail(
        Errc::NotInAllowlist,
        fmt::format(
            "No rule of this host admits the command {} . The person can add one with: termalin-mcp host "
            "set NAME --allow RULE (all rules of the host, each with its own --allow).",
            shownShort(quoteWords(words))));
}

} // namespace termalin
