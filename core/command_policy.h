#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace termalin {

/// The allowlist over a command, as pure code: split, match, quote again. docs/SECURITY.md
/// says what it is good for.

/// Splits one simple command into its words as a POSIX shell would (POSIX.1-2017, XCU 2.2 and 2.3), or
/// refuses it. Errors: NotInAllowlist; the message names the offending character or construct and its byte,
/// shown safely.
[[nodiscard]] Result<std::vector<std::string>> splitCommand(std::string_view command);

/// The words in single quotes with single spaces between, so that any POSIX shell reads exactly these words.
[[nodiscard]] std::string quoteWords(std::span<std::string const> words);

/// Whether every word consists of [A-Za-z0-9_./:=@,+-] only, which every shell reads alike, unquoted.
[[nodiscard]] bool isPlainEverywhere(std::span<std::string const> words);

/// One word of a command that a person is told to type: as it is where every shell reads it alike, else in
/// single quotes. Bytes that are no plain text are shown.
[[nodiscard]] std::string asArgument(std::string_view word);

/// One rule of an allowlist, such as "systemctl status *".
class CommandRule {
public:
    /// Errors: InvalidArgument says what is wrong with the rule. A rule that does not parse is never skipped.
    static Result<CommandRule> parse(std::string_view text);

    [[nodiscard]] bool matches(std::span<std::string const> words) const;
    [[nodiscard]] std::string const& text() const noexcept { return m_text; }

    /// What this rule lets in beyond what it seems to say, one sentence each; empty if nothing is known.
    [[nodiscard]] std::vector<std::string> warnings() const;
    /// What it lets in only together with readable paths (in the syntax of core/path_policy.h), likewise.
    [[nodiscard]] std::vector<std::string> warningsWith(std::span<std::string const> reads) const;

private:
    std::string m_text;
    std::vector<std::string> m_patterns;
    bool m_rest = false; ///< ends in "**"
};

/// A command that may run.
struct AdmittedCommand {
    std::vector<std::string> words;
    std::string quoted; ///< What runs on a POSIX-like shell; on another, the plain words joined by spaces.
    std::string rule;   ///< The text of the rule that admitted it.
};

enum class LoginShell : std::uint8_t { Posix, Other };

/// Errors: NotInAllowlist. The message says why and, where no rule fits, that the person can add one.
[[nodiscard]] Result<AdmittedCommand> admitCommand(std::string_view command,
                                                   std::span<CommandRule const> rules, LoginShell shell);

} // namespace termalin
