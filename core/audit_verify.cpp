#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <ranges>
#include <sys/stat.h>

#include "core/audit.h"
#include "core/audit_chain.h"
#include "core/json.h"
#include "core/store.h"

namespace termalin {
namespace {

namespace fs = std::filesystem;

struct OpenFile {
    fs::path path;
    UniqueFd fd;
    std::int64_t size = 0;
};

/// The files as they were at one moment, and the head of that moment.
struct Snapshot {
    std::vector<OpenFile> files; ///< oldest first
    ChainEnd head;
};

Result<Snapshot> takeSnapshot(fs::path const& file, Store& store)
{
    Snapshot snapshot;
    std::error_code ignored;
    if (!fs::exists(file.parent_path(), ignored)) {
        TRY_LET(snapshot.head, readHead(store));
        return snapshot;
    }
    TRY_LET(auto const lockFile, openAuditLock(file));
    TRY_LET(auto const lock, AuditLock::take(lockFile, AuditLock::Part::Lines));
    TRY_LET(snapshot.head, readHead(store)); // before the sizes: the files are never behind it
    auto paths = rotatedAuditFiles(file);
    paths.push_back(file);
    for (auto const& path : paths) {
        UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        struct stat info{};
        if (!fd && errno == ENOENT && path == file)
            continue;
        if (!fd || ::fstat(fd.get(), &info) != 0)
            return std::unexpected(
                systemError(Errc::PermissionDenied, fmt::format("Reading {}", path.string()), errno));
        snapshot.files.push_back({.path = path, .fd = std::move(fd), .size = info.st_size});
    }
    return snapshot;
}

/// Follows the chain line by line until something is wrong.
class Verifier {
public:
    explicit Verifier(ChainEnd head) : m_head(std::move(head)) {}

    void file(OpenFile const& file, std::string_view bytes, bool last)
    {
        m_name = file.path.filename().string();
        m_line = 0;
        while (!bytes.empty() && m_problem.empty()) {
            auto const length = std::min(bytes.find('\n'), bytes.size());
            auto const whole = length < bytes.size();
            ++m_line;
            // The newest file's last line may have been torn by a crash.
            if (whole || !last || parseAuditLine(bytes.substr(0, length)))
                line(bytes.substr(0, length));
            bytes.remove_prefix(whole ? length + 1 : length);
        }
    }

    AuditVerdict verdict()
    {
        if (m_problem.empty() && m_strange)
            wrong("is not a line of the audit");
        if (m_problem.empty() && m_end.number < m_head.number)
            m_problem = fmt::format("The end is missing: {} lines were found, and there were {} at least.",
                                    m_lines, m_head.number);
        return {.intact = m_problem.empty(), .lines = m_lines, .problem = m_problem};
    }

private:
    void line(std::string_view text)
    {
        auto const parsed = parseAuditLine(text);
        if (!parsed) {
            if (m_strange)
                wrong("is not a line of the audit");
            m_strange = sha256(text);
            return;
        }
        if (m_strange && parsed->torn != *m_strange)
            return wrong("follows one that is not a line of the audit");
        m_strange.reset();
        if (parsed->number != m_end.number + 1)
            return wrong(fmt::format("has number {} where {} should be: lines were removed or added",
                                     parsed->number, m_end.number + 1));
        if (parsed->before != m_end.hash)
            return wrong(m_end.number == 0
                             ? "is not the first that was written"
                             : "does not continue the line before it: one of the two was changed");
        m_end = {.number = parsed->number, .hash = sha256(text)};
        ++m_lines;
        if (m_end.number == m_head.number && m_end.hash != m_head.hash)
            wrong("was changed: the store knows another hash for it");
    }

    void wrong(std::string_view why) { m_problem = fmt::format("{} line {} {}.", m_name, m_line, why); }

    ChainEnd m_head;
    ChainEnd m_end;
    std::int64_t m_lines = 0;
    std::string m_name;
    std::int64_t m_line = 0;
    std::optional<std::string> m_strange; ///< The hash of a line that the next one has to own up to.
    std::string m_problem;
};

} // namespace

Result<AuditVerdict> verifyAudit(fs::path const& file, Store& store)
{
    TRY_LET(auto const snapshot, takeSnapshot(file, store));
    Verifier verifier(snapshot.head);
    for (auto const& one : snapshot.files) {
        TRY_LET(auto const bytes, readAt(one.fd.get(), 0, static_cast<std::size_t>(one.size), one.path));
        verifier.file(one, bytes, &one == &snapshot.files.back());
    }
    return verifier.verdict();
}

Result<std::vector<std::string>> lastAuditLines(fs::path const& file, std::size_t count)
{
    auto paths = rotatedAuditFiles(file);
    paths.push_back(file);
    std::vector<std::string> newestFirst;
    for (auto const& path : paths | std::views::reverse) {
        if (newestFirst.size() >= count)
            break;
        UniqueFd const fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        struct stat info{};
        if (!fd && errno == ENOENT)
            continue;
        if (!fd || ::fstat(fd.get(), &info) != 0)
            return std::unexpected(
                systemError(Errc::PermissionDenied, fmt::format("Reading {}", path.string()), errno));
        TRY_LET(auto const bytes, readAt(fd.get(), 0, static_cast<std::size_t>(info.st_size), path));
        std::string_view rest(bytes);
        if (rest.ends_with('\n'))
            rest.remove_suffix(1);
        while (!rest.empty() && newestFirst.size() < count) {
            auto const begin = rest.rfind('\n') + 1; // npos + 1 is 0
            auto const line = rest.substr(begin);
            newestFirst.push_back(Json::accept(line)
                                      ? withVisibleCharacters(line)
                                      : withVisibleCharacters(toLine(Json{{"damaged", line}})));
            rest = rest.substr(0, begin == 0 ? 0 : begin - 1);
        }
    }
    std::ranges::reverse(newestFirst);
    return newestFirst;
}

} // namespace termalin
