#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/audit.h"
#include "core/json.h"
#include "core/store.h"
#include "core/vault.h"
#include "mcp-stdio/agent_sessions.h"
#include "mcp-stdio/authorize.h"
#include "mcp-stdio/server.h"
#include "mcp-stdio/services.h"
#include "tests/support/sshd.h"
#include "tests/support/temp_dir.h"

namespace termalin::test {

/// The answer to one tools/call.
struct Reply {
    Json result; ///< CallToolResult
    [[nodiscard]] Json const& value() const { return result.at("structuredContent"); }
    [[nodiscard]] std::string code() const ///< Empty when it went well.
    {
        return result.value("isError", false) ? result.at("_meta").at("code").get<std::string>()
                                              : std::string();
    }
    [[nodiscard]] std::string text() const { return result.at("content").at(0).at("text"); }
};

/// A person's store with an agent's server on it, in one temporary folder, all of it real: what termalin-mcp
/// puts together, driven by JSON-RPC lines.
class Desk {
public:
    Desk();
    ~Desk();
    Desk(Desk const&) = delete;
    Desk& operator=(Desk const&) = delete;

    /// Saves a host that reaches `server`.
    Host save(Sshd const& server, std::string name, AgentPolicy policy,
              std::function<void(Host&)> const& change = {});
    /// Changes a saved host as another process would.
    void changeOutside(std::string const& name, std::function<void(Host&)> const& change);
    void removeOutside(std::string const& name);

    /// Sends a call and gives its number for await(). `onProgress` asks for progress.
    int start(std::string const& tool, Json const& arguments);
    Reply await(int call);
    Reply call(std::string const& tool, Json const& arguments) { return await(start(tool, arguments)); }
    /// Waits until a call has told of progress whose message holds `text`.
    bool awaitProgress(int call, std::string const& text);

    [[nodiscard]] Paths const& paths() const noexcept { return m_paths; }
    [[nodiscard]] mcp::AgentSessions& sessions() noexcept { return *m_sessions; }
    [[nodiscard]] Vault& vault() noexcept { return *m_vault; } ///< None was made yet.

private:
    void received(std::string const& line);
    void send(Json const& message);

    TempDir m_dir;
    Paths m_paths;
    std::unique_ptr<Store> m_store;
    std::unique_ptr<Store> m_outside; ///< Another process's view.
    std::unique_ptr<Vault> m_vault;
    std::unique_ptr<Audit> m_audit;
    std::unique_ptr<mcp::AgentSessions> m_sessions;
    std::unique_ptr<mcp::PolicyGate> m_gate;
    mcp::Services m_services;
    std::mutex m_mutex;
    std::condition_variable m_arrived;
    std::map<int, Json> m_replies;                      ///< guarded by m_mutex
    std::map<int, std::vector<std::string>> m_progress; ///< guarded by m_mutex
    int m_last = 0;                                     ///< guarded by m_mutex
    std::mutex m_sending;
    std::unique_ptr<mcp::Server> m_server; ///< last
};

} // namespace termalin::test
