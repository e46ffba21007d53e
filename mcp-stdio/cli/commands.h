#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "mcp-stdio/cli/context.h"
#include "mcp-stdio/cli/host_edit.h"

/// What each command of the command line does. All print their answer to stdout and remarks to stderr, and
/// give the exit code; an error is reported by the caller.
namespace termalin::cli {

Result<int> hostAdd(Context& context, HostOptions const& options);
Result<int> hostSet(Context& context, HostOptions const& options);
enum class ListForm : std::uint8_t { Table, Json };
Result<int> hostList(Context& context, ListForm form);
Result<int> hostRemove(Context& context, std::string const& name);
/// Exit code 0 where an agent's `command` would be admitted on the host as it is now, 1 where not.
Result<int> hostCheck(Context& context, std::string const& name, std::string const& command);

struct TrustOptions {
    std::string name;
    std::string fingerprint; ///< "SHA256:..."; empty: ask
    bool replace = false;    ///< The person says that the server's key has really changed.
    bool yes = false;
};
Result<int> hostTrust(Context& context, TrustOptions const& options);
Result<int> hostTest(Context& context, std::string const& name);

struct ImportOptions {
    std::string file; ///< Empty: the person's ~/.ssh/config
    bool dryRun = false;
};
Result<int> hostImport(Context& context, ImportOptions const& options);

Result<int> agentsShow(Context& context);
Result<int> agentsStop(Context& context);
Result<int> agentsResume(Context& context, bool yes);
/// `assignments`: "inTerminal=true", "mayRun=ask", "outputCap=65536".
Result<int> agentsSet(Context& context, std::vector<std::string> const& assignments, bool yes);

Result<int> auditList(Context& context, std::size_t count);
Result<int> auditVerify(Context& context);

Result<int> vaultInit(Context& context, int secretFd);
Result<int> vaultUnlock(Context& context, int secretFd);
Result<int> vaultLock(Context& context);
/// With a descriptor: the present password on its first line, the new one on its second.
Result<int> vaultPasswd(Context& context, int secretFd);

struct DoctorOptions {
    std::string name; ///< Empty: every saved host
    bool offline = false;
};
Result<int> doctor(Context& context, DoctorOptions const& options);

struct InstallOptions {
    std::string client; ///< claude, cursor, codex, vscode
    bool print = false;
};
Result<int> install(InstallOptions const& options);

} // namespace termalin::cli
