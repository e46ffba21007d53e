#include "core/settings.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>

#include "core/json.h"
#include "core/paths.h"
#include "core/settings_text.h"
#include "core/unique_fd.h"

namespace termalin {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 1U << 20U;
constexpr std::size_t kLeastCap = 4U * 1024U;
constexpr std::size_t kMostCap = 1024U * 1024U;

/// One setting: its name, whether a JSON value fits, and how the loaded settings take it.
struct Row {
    std::string_view key;
    std::string_view allowed;
    bool (*apply)(Json const& value, Settings& settings); ///< False, and nothing changed, if it does not fit.
};

bool applyFlag(Json const& value, bool& flag)
{
    if (!value.is_boolean())
        return false;
    flag = value.get<bool>();
    return true;
}

bool applyMayRun(Json const& value, Settings& settings)
{
    if (value == "no")
        settings.agentsMayRun = AgentsMayRun::No;
    else if (value == "ask")
        settings.agentsMayRun = AgentsMayRun::Ask;
    else if (value == "yes")
        settings.agentsMayRun = AgentsMayRun::Yes;
    else
        return false;
    return true;
}

bool applyCap(Json const& value, Settings& settings)
{
    if (!value.is_number_integer() || value < kLeastCap || value > kMostCap)
        return false;
    settings.outputCap = value.get<std::size_t>();
    return true;
}

constexpr std::array<Row, 5> kRows{
    {{"version", "1", [](Json const& v, Settings&) { return v == 1; }},
     {"agents.inTerminal", "true or false",
      [](Json const& v, Settings& s) { return applyFlag(v, s.agentsInTerminal); }},
     {"agents.mayRun", R"("no", "ask" or "yes")", applyMayRun},
     {"agents.stopped", "true or false",
      [](Json const& v, Settings& s) { return applyFlag(v, s.agentsStopped); }},
     {"agents.outputCap", "a number of bytes from 4096 to 1048576", applyCap}}};

void makeStrict(Settings& settings, std::string problem)
{
    settings.agentsInTerminal = false;
    settings.agentsMayRun = AgentsMayRun::No;
    settings.agentsStopped = true;
    settings.problem = std::move(problem);
}

/// Who can write this file can allow an agent anything.
std::string ownershipProblem(fs::path const& file)
{
    struct stat info{};
    if (::stat(file.c_str(), &info) != 0)
        return {};
    if (info.st_uid != ::geteuid() && info.st_uid != 0)
        return fmt::format(
            "{} belongs to user {}, so it is not used and agents are stopped. Give it to yourself with "
            "chown.",
            file.string(), info.st_uid);
    if ((info.st_mode & 0022U) != 0)
        return fmt::format(
            "{} can be written by other users, so it is not used and agents are stopped. See what is "
            "in it, then run: chmod 600 '{}'",
            file.string(), file.string());
    return {};
}

/// What is wrong with a value: something that makes the whole file unusable, or this value alone.
struct Fault {
    bool stops = false;
    std::string text;
};

std::optional<Fault> applyEntry(SettingPlace const& entry, std::string_view text, Settings& settings)
{
    if (entry.key == "agents" && !text.starts_with('{'))
        return Fault{.stops = true, .text = "agents is not an object"};
    auto const* const row = std::ranges::find(kRows, entry.key, &Row::key);
    if (row == kRows.end())
        return std::nullopt;
    auto const value = parseJson(text);
    if (value && row->apply(*value, settings))
        return std::nullopt;
    return Fault{.stops = row->key == "agents.stopped" || row->key == "version",
                 .text = fmt::format("{} is not {}", row->key, row->allowed)};
}

struct Reading {
    Settings settings;
    bool usable = true; ///< False: the file as a whole says nothing that may be followed.
};

Reading fromText(std::string_view text, fs::path const& file)
{
    Reading reading;
    auto& settings = reading.settings;
    auto const entries = findSettings(text);
    if (!entries) {
        makeStrict(settings,
                   fmt::format("{} is damaged ({}), so it is not used and agents are stopped. Mend it, or "
                               "move it away to begin with the defaults.",
                               file.string(), entries.error().message));
        reading.usable = false;
        return reading;
    }
    std::optional<Fault> worst;
    for (auto const& entry : *entries) {
        auto fault = applyEntry(entry, text.substr(entry.begin, entry.end - entry.begin), settings);
        if (fault && (!worst || (fault->stops && !worst->stops)))
            worst = std::move(fault);
    }
    if (worst && worst->stops)
        makeStrict(settings,
                   fmt::format("In {}, {}, so the file is not used and agents are stopped. Mend it.",
                               file.string(), worst->text));
    else if (worst)
        settings.problem =
            fmt::format("In {}, {}, so its default is used. Mend it.", file.string(), worst->text);
    reading.usable = !worst || !worst->stops;
    return reading;
}

Result<UniqueFd> lockBeside(fs::path const& file)
{
    auto lock = file;
    lock += ".lock";
    UniqueFd fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd)
        return std::unexpected(
            systemError(errno == ENOSPC || errno == EDQUOT ? Errc::NoSpace : Errc::PermissionDenied,
                        fmt::format("Opening {}", lock.string()), errno));
    auto const giveUp = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return std::unexpected(
                systemError(Errc::Internal, fmt::format("Locking {}", lock.string()), errno));
        if (std::chrono::steady_clock::now() > giveUp)
            return fail(
                Errc::Timeout,
                fmt::format("Another process has kept {} locked for 5 s; nothing was changed. Try again.",
                            lock.string()));
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return fd;
}

Result<void> checkChange(std::string_view key, std::string_view jsonValue)
{
    auto const* const row = std::ranges::find(kRows, key, &Row::key);
    if (row == kRows.end() || key == "version")
        return fail(Errc::InvalidArgument,
                    fmt::format("There is no setting '{}'. There are agents.inTerminal, "
                                "agents.mayRun, agents.stopped and agents.outputCap.",
                                key));
    Settings scratch;
    auto const value = parseJson(jsonValue);
    if (!value || !row->apply(*value, scratch))
        return fail(Errc::InvalidArgument, fmt::format("{} must be {}.", key, row->allowed));
    return {};
}

/// A folder that is there is taken as it is: nothing may keep a person from stopping agents.
Result<void> makeFolderOf(fs::path const& file)
{
    if (std::error_code ignored; !fs::exists(file.parent_path(), ignored))
        return makeDataDir(file.parent_path());
    return {};
}

/// The text of the file with the one setting changed in it.
Result<std::string> changedText(fs::path const& file, std::string_view key, std::string_view jsonValue)
{
    auto text = readFile(file, kMostBytes);
    if (!text && text.error().code == Errc::NotFound)
        text = "{\n  \"version\": 1\n}\n";
    TRY(text);
    if (auto problem = ownershipProblem(file); !problem.empty())
        return fail(Errc::InvalidArgument, problem + " Nothing was changed.");
    auto changed = withSetting(*text, key, jsonValue);
    if (!changed)
        return fail(
            Errc::InvalidArgument,
            fmt::format(
                "{} is damaged ({}), so it was left as it is and nothing was changed. Mend it, or move "
                "it away to begin with the defaults.",
                file.string(), changed.error().message));
    if (auto const reading = fromText(*changed, file); !reading.usable)
        return fail(Errc::InvalidArgument, reading.settings.problem + " Nothing was changed.");
    return changed;
}

/// Writes `text` over the file without asking the disk for more than it has given to the file already, if it
/// can be. Otherwise a part of it is there, or an empty file, the old one being kept under another name: each
/// of them damaged, which stops agents too.
void stopWithoutSpace(fs::path const& file, std::string const& text)
{
    UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600));
    if (!fd)
        return;
    auto const written = ::pwrite(fd.get(), text.data(), text.size(), 0);
    if (written > 0) {
        auto const cut = ::ftruncate(fd.get(), written);
        static_cast<void>(cut); // longer than the new text it is damaged, and that is as good
    } else if (std::error_code ignored; fs::file_size(file, ignored) != 0) {
        auto kept = file;
        kept += ".full-disk";
        if (::rename(file.c_str(), kept.c_str()) == 0)
            fd.reset(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    ::fsync(fd.get());
}

} // namespace

Settings Settings::load(fs::path const& file)
{
    Settings settings;
    auto const text = readFile(file, kMostBytes);
    if (!text) {
        if (text.error().code != Errc::NotFound)
            makeStrict(settings, text.error().message + " Agents are stopped until it can be read.");
        return settings;
    }
    if (auto problem = ownershipProblem(file); !problem.empty()) {
        makeStrict(settings, std::move(problem));
        return settings;
    }
    return fromText(*text, file).settings;
}

Result<void> changeSetting(fs::path const& file, std::string_view key, std::string_view jsonValue)
{
    TRY(checkChange(key, jsonValue));
    TRY(makeFolderOf(file));
    TRY_LET(auto const lock, lockBeside(file));
    TRY_LET(auto const changed, changedText(file, key, jsonValue));
    return writeFileAtomically(file, changed);
}

Result<void> stopAgents(fs::path const& file)
{
    TRY(makeFolderOf(file));
    auto const lock = lockBeside(file); // who holds it, or a disk without room for it, must not hinder this
    TRY_LET(auto const changed, changedText(file, "agents.stopped", "true"));
    auto written = writeFileAtomically(file, changed);
    if (written || written.error().code != Errc::NoSpace)
        return written;
    stopWithoutSpace(file, changed);
    return Settings::load(file).agentsStopped ? Result<void>() : written;
}

} // namespace termalin
