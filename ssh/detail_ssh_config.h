#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "ssh/ssh_config.h"

namespace termalin::ssh {

/// Blanks in a configuration's line.
inline constexpr std::string_view kConfigBlanks = " \t\r\n";

/// The next word of a line as the keyword and the conditions of Match are read: it ends at a blank, at one
/// `=` with blanks around it, or with a quoted part. Empty optional: the end, or a quote that is not closed.
/// `rest` becomes empty (the optional) at the end of the line.
std::optional<std::string> nextConfigWord(std::optional<std::string_view>& rest);

/// The arguments of a line: quotes, backslashes and a comment at the end as in OpenSSH. Empty: a quote is
/// not closed.
std::optional<std::vector<std::string>> splitConfigArguments(std::string_view text);

/// A pattern with * and ?, as in Host.
bool matchesConfigPattern(std::string_view text, std::string_view pattern);
/// A list of patterns with commas and `!`: 1 matches, -1 matches a negated one, 0 neither.
enum class Case : std::uint8_t { Keep, LowerPattern };
int matchesConfigPatternList(std::string_view text, std::string_view list, Case patternCase);

/// Values, as OpenSSH reads them; empty: not one.
std::optional<int> configNumber(std::string_view text);
std::optional<int> configTime(std::string_view text);
std::optional<bool> configFlag(std::string_view text);
std::optional<std::uint16_t> configPort(std::string_view text); ///< 1 to 65535, or a service's name

/// One part of a ProxyJump.
struct JumpHop {
    std::optional<std::string> user;
    std::string host;
    std::optional<std::uint16_t> port;
};
std::optional<JumpHop> parseJumpHop(std::string_view text);
/// [user@]host[:port], the host in brackets where it is an address.
std::string toString(JumpHop const& hop);

/// The home folder of an account; empty: there is no such account.
std::optional<std::filesystem::path> homeOfUser(std::string const& user);
/// A leading ~ or ~USER. Errors: InvalidArgument.
Result<std::string> expandTilde(std::string_view text, std::filesystem::path const& home);
/// Only the tokens. Errors: InvalidArgument.
Result<std::string> expandPercent(std::string_view text, std::map<char, std::string> const& tokens);
/// A numeric address in the form that getnameinfo(3) gives it, a name in lower case. `family`: "any", "inet",
/// "inet6". Looks up nothing.
std::string canonicalHostname(std::string_view name, std::string_view family);
/// Whether ssh takes it as a destination on its command line.
bool isConfigDestination(std::string_view name);
/// The hash behind %C.
std::string connectionHash(std::string_view localName, std::string_view host, std::string_view port,
                           std::string_view user);
std::string toLower(std::string_view text);

/// What a keyword takes, and what it is to us.
enum class Takes : std::uint8_t {
    Anything,
    Flag,
    Number,
    Time,
    Text,
    Texts,
    Command,
    Port,
    Jump,
    Family,
    Agent
};
enum class Option : std::uint8_t {
    Ignored, ///< Known to ssh, not honoured by us.
    Host,
    Match,
    Include,
    HostName,
    Port,
    User,
    IdentityFile,
    CertificateFile,
    IdentitiesOnly,
    IdentityAgent,
    ProxyJump,
    ProxyCommand,
    HostKeyAlias,
    UserKnownHostsFile,
    GlobalKnownHostsFile,
    AddressFamily,
    ConnectTimeout,
    ServerAliveInterval,
    ServerAliveCountMax,
    IgnoreUnknown,
    BatchMode,
    CanonicalizeHostname,
    CanonicalizePermittedCnames,
};
struct Keyword {
    std::string_view name;
    Takes takes = Takes::Anything;
    Option option = Option::Ignored;
};
/// Null: ssh does not know it.
Keyword const* findKeyword(std::string_view name);

bool isConfigNone(std::string_view text); ///< "none" in any case

/// ssh would give up, and says so with this sentence; empty: it goes on.
using ConfigProblem = std::optional<std::string>;

struct ConfigJump {
    std::string before; ///< The hops before the last one, as written.
    JumpHop last;
};

/// What the lines have set so far. Empty means that a later line may.
struct ConfigValues {
    std::optional<std::string> hostname, user, identityAgent, hostKeyAlias, proxyCommand, ignoreUnknown,
        family;
    std::optional<std::uint16_t> port;
    std::optional<int> connectTimeout, aliveInterval, aliveCountMax;
    std::optional<bool> identitiesOnly, batchMode, canonicalize;
    std::optional<ConfigJump> jump; ///< A last host "none" alone for "none".
    std::vector<std::string> identities, certificates, userKnownHosts, globalKnownHosts;
    bool permittedCnames = false;

    /// Checks one setting as ssh does, whether or not it applies, and takes it if `active`.
    ConfigProblem read(Keyword const& keyword, ConfigLine const& line, bool active);

private:
    ConfigProblem readFlag(Keyword const& keyword, std::string const& word, bool active);
    ConfigProblem readNumber(Keyword const& keyword, std::string const& word, bool active);
    ConfigProblem readText(Keyword const& keyword, std::string const& word, bool active);
    ConfigProblem readTexts(Keyword const& keyword, std::vector<std::string> const& words, bool active);
    ConfigProblem readJump(std::string_view text, bool active);
};

} // namespace termalin::ssh
