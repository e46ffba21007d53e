#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/deadline.h"
#include "core/result.h"
#include "ssh/agent_client.h"
#include "ssh/connection.h"
#include "ssh/key_file.h"

namespace termalin::ssh::detail {

/// One public key or certificate that can be offered, and what may sign for it, in the order of trying.
struct LoginKey {
    std::string blob; ///< Empty: known once `file` is open.
    std::string name; ///< For messages.
    bool inAgent = false;
    std::string agentBlob; ///< What the agent calls the key.
    std::shared_ptr<Signer> signer;
    std::shared_ptr<KeyFile const> file;
    bool offered = false; ///< On this connection.

    /// How this key is remembered as the last one that worked; empty while the blob is.
    [[nodiscard]] std::string what() const;
};

struct LoginKeys {
    std::vector<LoginKey> keys;
    std::vector<std::string> notes; ///< What cannot be used, and why.
    std::unique_ptr<AgentClient> agent;
};

/// All that may be offered for `target`, best first: `last` (a what()), the configured files with their
/// certificates, the credentials' signers, then what else the agent has, unless IdentitiesOnly. Errors:
/// Timeout, Cancelled; all else becomes a note.
Result<LoginKeys> collectKeys(Target const& target, Credentials& credentials, std::string const& last,
                              Deadline deadline, std::stop_token const& stop);

} // namespace termalin::ssh::detail
