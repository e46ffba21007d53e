#include "ssh/ssh_config.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <glob.h>
#include <grp.h>
#include <memory>
#include <pwd.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include "core/output_buffer.h"
#include "core/paths.h"
#include "ssh/detail_ssh_config.h"

namespace termalin::ssh {

namespace {

constexpr int kMaxDepth = 16; // of includes, as in ssh
constexpr std::size_t kMaxLines = 100'000;
constexpr std::size_t kMaxBytes = 16U << 20U;

class Reader {
public:
    Reader(std::filesystem::path const& home, SshConfig::Open const& open) : m_home(home), m_open(open) {}

    Result<void> read(std::string_view text, std::string_view name, int depth)
    {
        m_bytes += text.size();
        for (int number = 1; !text.empty() && !m_tooDeep; ++number) {
            if (m_lines.size() >= kMaxLines || m_bytes > kMaxBytes)
                return fail(Errc::TooLarge,
                            fmt::format("'{}' and what it includes have more than {} lines or {} MiB.",
                                        visible(name), kMaxLines, kMaxBytes >> 20U));
            auto const end = std::min(text.find('\n'), text.size());
            TRY(readLine(text.substr(0, end), fmt::format("{}:{}", name, number), depth));
            text.remove_prefix(std::min(end + 1, text.size()));
        }
        return {};
    }
    std::vector<ConfigLine> takeLines() { return std::move(m_lines); }

private:
    void problem(std::string const& where, std::string sentence)
    {
        m_lines.push_back({.kind = ConfigLine::Kind::Problem,
                           .keyword = {},
                           .arguments = {},
                           .where = where,
                           .rest = std::move(sentence)});
    }

    Result<void> readLine(std::string_view text, std::string const& where, int depth)
    {
        text = text.substr(0, text.find('\0'));
        while (text.size() > 1 && (kConfigBlanks.contains(text.back()) || text.back() == '\f'))
            text.remove_suffix(1);
        std::optional rest(text);
        auto keyword = nextConfigWord(rest);
        if (keyword && keyword->empty())
            keyword = nextConfigWord(rest);
        if (!keyword || keyword->empty() || keyword->front() == '\n' || keyword->front() == '#')
            return {};
        ConfigLine line{.kind = ConfigLine::Kind::Setting,
                        .keyword = toLower(*keyword),
                        .arguments = {},
                        .where = where,
                        .rest = std::string(rest.value_or(""))};
        line.rest.erase(0, std::min(line.rest.find_first_not_of(kConfigBlanks), line.rest.size()));
        if (line.rest.empty()) {
            problem(where, fmt::format("{} has no argument", visible(*keyword)));
            return {};
        }
        auto arguments = splitConfigArguments(line.rest);
        if (!arguments) {
            problem(where, "a quote is not closed");
            return {};
        }
        line.arguments = *std::move(arguments);
        if (line.keyword == "include")
            return include(line, depth);
        m_lines.push_back(std::move(line));
        return {};
    }

    Result<void> include(ConfigLine const& line, int depth)
    {
        for (auto const& argument : line.arguments) {
            if (argument.empty()) {
                problem(line.where, "Include has an empty argument");
                return {};
            }
            auto const anchored = argument.starts_with('/') || argument.starts_with('~');
            auto const pattern = expandTilde(anchored ? argument : "~/.ssh/" + argument, m_home);
            if (!pattern)
                continue; // of a user who is not there: glob(3) finds nothing
            auto files = m_open(*pattern);
            if (!files) {
                problem(line.where, files.error().message);
                return {};
            }
            for (auto const& [name, content] : *files) {
                if (depth + 1 > kMaxDepth) {
                    problem(line.where, fmt::format("more than {} files include each other", kMaxDepth));
                    m_tooDeep = true;
                    return {};
                }
                m_lines.push_back({.kind = ConfigLine::Kind::IncludeBegin,
                                   .keyword = {},
                                   .arguments = {},
                                   .where = line.where,
                                   .rest = name});
                TRY(read(content, name, depth + 1));
                m_lines.push_back({.kind = ConfigLine::Kind::IncludeEnd,
                                   .keyword = {},
                                   .arguments = {},
                                   .where = line.where,
                                   .rest = name});
                if (m_tooDeep)
                    return {};
            }
        }
        return {};
    }

    std::filesystem::path const& m_home;
    SshConfig::Open const& m_open;
    std::vector<ConfigLine> m_lines;
    std::size_t m_bytes = 0;
    bool m_tooDeep = false; ///< ssh gives up at once; else a file that includes itself twice would never end
};

/// ssh's rule: owned by the account or root, and writable for nobody else; a group counts as nobody else if
/// it is the account's own by name and has no other member.
bool isSecure(struct stat const& file)
{
    if ((file.st_uid != 0 && file.st_uid != ::getuid()) || (file.st_mode & S_IWOTH) != 0)
        return false;
    if ((file.st_mode & S_IWGRP) == 0)
        return true;
    std::array<char, 16 * 1024> groupBuffer{};
    std::array<char, 16 * 1024> userBuffer{};
    group groupEntry{};
    group* foundGroup = nullptr;
    passwd userEntry{};
    passwd* foundUser = nullptr;
    if (::getgrgid_r(file.st_gid, &groupEntry, groupBuffer.data(), groupBuffer.size(), &foundGroup) != 0 ||
        ::getpwuid_r(::getuid(), &userEntry, userBuffer.data(), userBuffer.size(), &foundUser) != 0 ||
        foundGroup == nullptr || foundUser == nullptr)
        return false;
    auto const* const* const member = foundGroup->gr_mem;
    return foundUser->pw_gid == file.st_gid && std::string_view(foundUser->pw_name) == foundGroup->gr_name &&
           (member[0] == nullptr ||
            (std::string_view(member[0]) == foundUser->pw_name && member[1] == nullptr));
}

Result<SshConfig::Included> openIncluded(std::string const& pattern)
{
    glob_t found{};
    // NOLINTNEXTLINE(concurrency-mt-unsafe): only GLOB_TILDE and GLOB_BRACE make it so
    auto const outcome = ::glob(pattern.c_str(), 0, nullptr, &found);
    std::unique_ptr<glob_t, void (*)(glob_t*)> const owned(&found, ::globfree);
    SshConfig::Included files;
    if (outcome == GLOB_NOMATCH)
        return files;
    if (outcome != 0)
        return fail(Errc::Internal, fmt::format("'{}' cannot be searched", visible(pattern)));
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
        std::string const path = found.gl_pathv[i];
        struct stat status{};
        if (::stat(path.c_str(), &status) != 0)
            continue; // a link that leads nowhere, or gone meanwhile
        if (!isSecure(status))
            return fail(Errc::PermissionDenied,
                        fmt::format("the owner or mode of '{}' lets others write it", visible(path)));
        std::string content;
        if (S_ISREG(status.st_mode)) {
            TRY_LET(content, readFile(path, kMaxBytes));
        }
        files.emplace_back(path, std::move(content));
    }
    return files;
}

bool isAlias(std::string_view word)
{
    return !word.empty() && word.find_first_of("*?!") == std::string_view::npos;
}

} // namespace

Result<SshConfig> SshConfig::parse(std::string_view text, std::string_view name,
                                   std::filesystem::path const& home, Open const& open)
{
    Reader reader(home, open);
    TRY(reader.read(text, name, 0));
    SshConfig config;
    config.m_lines = reader.takeLines();
    config.m_home = home;
    return config;
}

Result<SshConfig> SshConfig::load(std::filesystem::path const& file, std::filesystem::path const& home)
{
    auto content = readFile(file, kMaxBytes);
    if (!content && content.error().code != Errc::NotFound)
        return std::unexpected(std::move(content).error());
    return parse(content.value_or(""), file.string(), home, openIncluded);
}

std::vector<std::string> SshConfig::aliases() const
{
    std::vector<std::string> aliases;
    std::set<std::string_view> seen;
    for (auto const& line : m_lines)
        if (line.kind == ConfigLine::Kind::Setting && line.keyword == "host")
            for (auto const& word : line.arguments)
                if (isAlias(word) && seen.insert(word).second)
                    aliases.push_back(word);
    return aliases;
}

std::string SshConfig::whereIs(std::string_view alias) const
{
    for (auto const& line : m_lines)
        if (line.kind == ConfigLine::Kind::Setting && line.keyword == "host" &&
            std::ranges::find(line.arguments, alias) != line.arguments.end())
            return line.where;
    return {};
}

} // namespace termalin::ssh
