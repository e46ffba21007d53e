#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/audit.h"

namespace termalin {

/// Where a chain of audit lines has got to: the number and the hash of its last line.
struct ChainEnd {
    std::int64_t number = 0;
    std::string hash = std::string(64, '0');

    bool operator==(ChainEnd const&) const = default;
};

/// SHA-256 in hexadecimal.
[[nodiscard]] std::string sha256(std::string_view bytes);

/// Replaces secrets in what is about to be written.
class Mask {
public:
    void add(Secret const& secret);
    [[nodiscard]] std::string apply(std::string_view text) const;

private:
    std::vector<Secret> m_secrets; ///< longest first
};

/// A command or path as a line holds it: masked, then cut at 8 KiB, never within a character.
[[nodiscard]] std::string maskedSubject(std::string_view subject, Mask const& mask);

/// One line of the audit, its newline included, that continues `end`.
/// Each leaves out what is empty. Control, bidirectional and other invisible characters are JSON escapes.
[[nodiscard]] std::string callLine(ChainEnd const& end, std::string_view kind, AuditCall const& call,
                                   Mask const& mask);
[[nodiscard]] std::string outcomeLine(ChainEnd const& end, std::int64_t of, AuditOutcome const& outcome,
                                      Mask const& mask);
/// Marks a line before it that was begun and never finished.
[[nodiscard]] std::string tornLine(ChainEnd const& end, std::string_view torn);

/// What the chain needs of a line; empty if it is no line of ours.
struct ParsedLine {
    std::int64_t number = 0;
    std::string before; ///< The hash that it gives for the line before.
    std::string torn;   ///< Of a line that marks a torn one: the torn one's SHA-256.
};
[[nodiscard]] std::optional<ParsedLine> parseAuditLine(std::string_view line);

/// JSON text as it is, but for characters that a terminal would obey or hide, which become escapes.
[[nodiscard]] std::string withVisibleCharacters(std::string_view json);

} // namespace termalin
