#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/secret.h"

namespace termalin {

class Store;

/// What one agent's call is, before it runs.
struct AuditCall {
    std::string client;        ///< The MCP client's name and version, as it claims.
    std::string clientProgram; ///< The executable of our parent process.
    std::string tool;
    std::string host;     ///< Name; empty where there is none.
    std::string subject;  ///< The command or path; cut at 8 KiB, with its SHA-256 then.
    std::string decision; ///< "allowed", "refused"
    std::string because;  ///< By which rule, policy or click: "full", "rule: ls **", "policy: blocked".
};

struct AuditOutcome {
    std::string result = "ok"; ///< "ok" or an error code
    std::optional<int> exitCode;
    std::int64_t bytes = 0;
    std::int64_t milliseconds = 0;
    std::string note;
};

/// The append-only record of what agents and the command line did: JSON lines, mode 0600, each with the hash
/// of the one before it, written by several processes under a file lock. The newest hash is also in the
/// store, so that a cut-off file shows. Thread safe.
class Audit {
public:
    /// `file` and its folder are made with modes 0600 and 0700. `store` must outlive it. At `rotateAt` bytes
    /// the file is put aside, in the same folder, and the chain goes on in a new one.
    static Result<std::unique_ptr<Audit>> open(std::filesystem::path const& file, Store& store,
                                               std::int64_t rotateAt = std::int64_t{16} << 20U);
    virtual ~Audit() = default; ///< Syncs.

    /// Gives the line to the kernel before it returns; without a line nothing may run, so an error must end
    /// the call. Returns the number that end() wants. Errors: NoSpace, PermissionDenied, Internal.
    virtual Result<std::int64_t> begin(AuditCall const& call) = 0;
    virtual Result<void> end(std::int64_t number, AuditOutcome const& outcome) = 0;
    /// A line of its own: a widening on the command line, a helper that stops a command, a key that was
    /// trusted.
    virtual Result<void> note(AuditCall const& what) = 0;

    /// From now on this secret is replaced by a mark wherever it would be written (in this process).
    virtual void hide(Secret const& secret) = 0;
    /// `subject` as a line holds it: secrets replaced, then cut at 8 KiB. For whatever else shows what an
    /// agent does.
    [[nodiscard]] virtual std::string masked(std::string_view subject) = 0;

    /// Brings what was written to the disk, and the head to the store; by itself twice a second. For a
    /// program that ends without its destructors.
    virtual void sync() = 0;
};

/// The verdict of `audit verify`: every line's hash over the whole chain, rotated files included, and the
/// head.
struct AuditVerdict {
    bool intact = false;
    std::int64_t lines = 0;
    std::string problem; ///< Which file and line, and what is wrong there; empty when intact.
};
Result<AuditVerdict> verifyAudit(std::filesystem::path const& file, Store& store);

/// The last `count` lines, oldest first, as JSON texts, control and bidirectional characters made visible.
Result<std::vector<std::string>> lastAuditLines(std::filesystem::path const& file, std::size_t count);

} // namespace termalin
