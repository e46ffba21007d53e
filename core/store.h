#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/hosts.h"
#include "core/result.h"

namespace termalin {

/// The person's data in one SQLite file (write-ahead log, synchronous=FULL), shared by every process of
/// theirs: the app, any number of termalin-mcp and the command line. What a call has confirmed survives kill
/// -9 and power loss.
///
/// Thread safe: one connection behind one mutex. A call waits up to 5 s for another process's write.
/// Errors of every call, beside those named: PermissionDenied, NoSpace, Timeout, Internal; the message names
/// the file and says what to do. Where another file has come in its place, that one is used from then on;
/// where there is none any more, every call is NotFound. A file that is damaged, or of a newer version, is
/// never changed or replaced.
class Store {
public:
    /// Opens or creates `file` with mode 0600 in a folder of mode 0700, and brings an older schema up to
    /// date. Errors: Unsupported for a schema newer than this program.
    static Result<std::unique_ptr<Store>> open(std::filesystem::path const& file);
    virtual ~Store() = default;

    /// All hosts by name, the local one included.
    virtual Result<std::vector<Host>> hosts() = 0;
    /// Shows what agents may see of each host that is open to them, in no order; the local one left out.
    /// `look` must not call the store.
    virtual Result<void> lookAtOpenHosts(std::function<void(HostView const&)> const& look) = 0;
    /// By id, else by name. Errors: UnknownHost, whose message lists nothing an agent may not see.
    virtual Result<Host> findHost(std::string_view idOrName) = 0;
    /// Adds a host: `id` and revisions of `host` are ignored and chosen here.
    /// Errors: InvalidArgument names the field (a name in use, a jump that does not exist or goes in a
    /// circle, a rule or path that does not parse).
    virtual Result<Host> addHost(Host const& host) = 0;
    /// Replaces the host with the same id, if it is still at `host.revision`: a change made meanwhile is not
    /// overwritten. Errors: as addHost; UnknownHost; InvalidArgument says that it was changed meanwhile.
    virtual Result<Host> updateHost(Host const& host) = 0;
    /// Removes the host and its secrets. Errors: UnknownHost; InvalidArgument while another host jumps
    /// through it.
    virtual Result<void> removeHost(std::string_view id) = 0;

    /// A number that differs from the last one whenever another connection or process has changed the file
    /// since (PRAGMA data_version), or this one has. Cheap; meant to be polled.
    virtual Result<std::int64_t> version() = 0;

    /// Small named values that belong to the store as a whole, such as the audit's head ("audit.head").
    virtual Result<std::optional<std::string>> value(std::string_view key) = 0;
    virtual Result<void> setValue(std::string_view key, std::string_view value) = 0;
    /// As setValue(), but does not wait for another process's write, in which every other call here would
    /// have to wait too. Errors: Timeout then.
    virtual Result<void> setValueAtOnce(std::string_view key, std::string_view value) = 0;
    virtual Result<void> removeValue(std::string_view key) = 0;

    /// Encrypted blobs, for the Vault alone: it encrypts, the store keeps. An owner is a host's id or
    /// "vault".
    virtual Result<std::optional<std::string>> blob(std::string_view owner, std::string_view name) = 0;
    virtual Result<void> setBlob(std::string_view owner, std::string_view name, std::string_view bytes) = 0;
    virtual Result<void> removeBlob(std::string_view owner, std::string_view name) = 0;
    /// The (owner, name) of every blob.
    virtual Result<std::vector<std::pair<std::string, std::string>>> blobs() = 0;
    /// Replaces many blobs in one transaction: all or none. For a change of the vault's key.
    struct Blob {
        std::string owner, name, bytes;
    };
    virtual Result<void> replaceBlobs(std::vector<Blob> const& blobs) = 0;

    /// A widening that was made outside the app, kept until the app has shown it: who, what,
    /// when.
    struct Widening {
        std::int64_t id = 0;
        std::string time;    ///< ISO 8601 UTC
        std::string program; ///< and its pid: "termalin-mcp (4711)"
        std::string what;    ///< One sentence.
        std::string before;  ///< JSON, enough to take it back; empty if there is nothing to take back.
    };
    virtual Result<void> addWidening(Widening const& widening) = 0;
    virtual Result<std::vector<Widening>> widenings() = 0;
    virtual Result<void> removeWidening(std::int64_t id) = 0;
};

} // namespace termalin
