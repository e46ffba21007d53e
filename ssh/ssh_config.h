#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace termalin::ssh {

/// What ssh_config(5) says of one alias, as `ssh -G` would print it for these keywords. Tokens and `~` are
/// expanded where ssh -G expands them: in hostname, identityAgent and userKnownHostsFiles.
struct ConfiguredHost {
    std::string alias;
    std::string hostname;
    std::uint16_t port = 22;
    std::string user;
    std::vector<std::string>
        identityFiles; ///< As written: expandTokens() with `tokens` makes paths. Empty: the defaults.
    std::vector<std::string> certificateFiles; ///< As identityFiles.
    bool identitiesOnly = false;
    std::string identityAgent; ///< Empty: not set.
    std::string proxyJump;     ///< Chain of [user@]host[:port] with commas; empty where there is none.
    std::string proxyCommand;  ///< As written; empty where there is none.
    std::string hostKeyAlias;
    std::vector<std::string> userKnownHostsFiles;   ///< Empty: the defaults. {"none"}: no file.
    std::vector<std::string> globalKnownHostsFiles; ///< As written. Empty and "none": as above.
    std::string addressFamily = "any";
    std::optional<int> connectTimeout; ///< seconds
    int serverAliveInterval = 0;       ///< seconds
    int serverAliveCountMax = 3;

    /// What the TOKENS of ssh_config(5) stand for on this connection, by letter.
    std::map<char, std::string> tokens;
    /// Where each keyword (lower case) that applies was first seen, as FILE:LINE.
    std::map<std::string, std::string> places;
    /// Keywords that stand in blocks that apply to this alias and that we do not honour, each with FILE:LINE.
    std::vector<std::string> ignored;
    /// Why this alias cannot be imported: it is touched by Match exec, final or canonical or by
    /// CanonicalizeHostname, or ssh itself would refuse the configuration. Empty: it can.
    std::string refused;
};

/// One line of a configuration.
struct ConfigLine {
    /// IncludeBegin and IncludeEnd stand around the lines of an included file; Problem makes ssh give up.
    enum class Kind : std::uint8_t { Setting, IncludeBegin, IncludeEnd, Problem };
    Kind kind = Kind::Setting;
    std::string keyword; ///< lower case
    std::vector<std::string> arguments;
    std::string where; ///< FILE:LINE
    std::string rest;  ///< The raw rest of the line, for ProxyCommand and its like; a Problem's sentence.
};

/// One ssh_config file with what it includes, read as OpenSSH 9.2 reads it with -F: the first value wins,
/// Host and Match (all, host, originalhost, user, localuser; never exec), Include with globs and `~`. Nothing
/// is ever run and no name is looked up. Thread safe once it is made.
class SshConfig {
public:
    /// An included file's name and content.
    using Included = std::vector<std::pair<std::string, std::string>>;
    /// Gives the files that an absolute pattern names, in order; an error is reported by resolve().
    using Open = std::function<Result<Included>(std::string const& pattern)>;

    /// `home`: the person's home folder (for ~ and for relative includes, which are below ~/.ssh). A missing
    /// file is an empty configuration. Errors: PermissionDenied; TooLarge for more than 16 MiB or 100,000
    /// lines in all.
    static Result<SshConfig> load(std::filesystem::path const& file, std::filesystem::path const& home);
    /// The same from text. Errors: TooLarge.
    static Result<SshConfig> parse(std::string_view text, std::string_view name,
                                   std::filesystem::path const& home, Open const& open);

    /// The aliases that a person would name: the words of Host lines without wildcards or negation, in order,
    /// once each.
    [[nodiscard]] std::vector<std::string> aliases() const;
    /// Where an alias was first named, as FILE:LINE; empty if it is none.
    [[nodiscard]] std::string whereIs(std::string_view alias) const;

    /// What a command line says beside the alias, as with ssh's -l and -p.
    struct Given {
        std::optional<std::string> user;
        std::optional<std::uint16_t> port;
    };
    /// `localUser`: the account that runs us.
    [[nodiscard]] ConfiguredHost resolve(std::string_view alias, std::string_view localUser) const;
    [[nodiscard]] ConfiguredHost resolve(std::string_view alias, std::string_view localUser,
                                         Given const& given) const;

    [[nodiscard]] std::filesystem::path const& home() const noexcept { return m_home; }

private:
    std::vector<ConfigLine> m_lines; ///< Host, Match and settings, includes already in place
    std::filesystem::path m_home;
};

/// Expands a leading ~ (or ~USER), the TOKENS of ssh_config(5) and ${VARIABLES} of the environment.
/// Errors: InvalidArgument for a token that is not in `tokens`, a variable that is not set, a user who is
/// not there.
Result<std::string> expandTokens(std::string_view text, std::map<char, std::string> const& tokens,
                                 std::filesystem::path const& home);

} // namespace termalin::ssh
