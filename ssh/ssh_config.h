#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace termalin::ssh {

/// What ssh_config(5) says of one alias, as `ssh -G` would print it for these keywords. Values are as
/// configured, with tokens not expanded unless ssh -G expands them.
struct ConfiguredHost {
    std::string alias;
    std::string hostname;
    std::uint16_t port = 22;
    std::string user;
    std::vector<std::string>
        identityFiles; ///< Unexpanded; expandIdentityFile() makes paths of them. Empty: the defaults.
    std::vector<std::string> certificateFiles;
    bool identitiesOnly = false;
    std::string identityAgent; ///< Empty: not set.
    std::string proxyJump;     ///< As written; "none" is empty.
    std::string proxyCommand;
    std::string hostKeyAlias;
    std::vector<std::string> userKnownHostsFiles;
    std::vector<std::string> globalKnownHostsFiles;
    std::string addressFamily = "any";
    std::optional<int> connectTimeout; ///< seconds
    int serverAliveInterval = 0;       ///< seconds
    int serverAliveCountMax = 3;

    /// Keywords that stand in blocks that apply to this alias and that we do not honour, each with FILE:LINE.
    std::vector<std::string> ignored;
    /// Why this alias cannot be imported: it is touched by Match exec, final or canonical, or by a line that
    /// does not parse. Empty: it can.
    std::string refused;
};

/// One ssh_config file with what it includes, read as OpenSSH reads it: the first value wins, Host and Match
/// (all, host, originalhost, user, localuser; never exec), Include with globs and `~`. Nothing is ever run.
class SshConfig {
public:
    /// `home`: the person's home folder (for ~ and relative includes of a user's file). A missing file is an
    /// empty configuration. Errors: PermissionDenied, TooLarge, InvalidArgument (names FILE:LINE).
    static Result<SshConfig> load(std::filesystem::path const& file, std::filesystem::path const& home);
    /// From text; `open` gives the content of an included path.
    static Result<SshConfig>
    parse(std::string_view text, std::string_view name, std::filesystem::path const& home,
          std::function<std::vector<std::pair<std::string, std::string>>(std::string const& pattern)> const&
              open);

    /// The aliases that a person would name: the words of Host lines without wildcards or negation, in order,
    /// once each.
    [[nodiscard]] std::vector<std::string> aliases() const;
    /// `user`: as given with -l, or empty; `localUser`: the account that runs us.
    [[nodiscard]] ConfiguredHost resolve(std::string_view alias, std::string_view localUser) const;

private:
    struct Line {
        std::string keyword; ///< lower case
        std::vector<std::string> arguments;
        std::string where; ///< FILE:LINE
        std::string rest;  ///< the raw rest of the line, for ProxyCommand and its like
    };
    std::vector<Line> m_lines; ///< Host, Match and settings, includes already in place
    std::filesystem::path m_home;
};

/// Expands the TOKENS of ssh_config(5) and a leading ~ for a keyword that takes them. `which`: the letters
/// that this keyword accepts. Errors: InvalidArgument for an unknown token.
Result<std::string> expandTokens(std::string_view text, std::map<char, std::string> const& tokens,
                                 std::filesystem::path const& home);

} // namespace termalin::ssh
