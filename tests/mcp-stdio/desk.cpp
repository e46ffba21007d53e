#include "tests/mcp-stdio/desk.h"

#include <chrono>
#include <stdexcept>

#include "mcp-stdio/tools/tools.h"

namespace termalin::test {
namespace {

constexpr std::chrono::seconds kPatience{
    240}; // a test that waits longer has failed, however slow the machine

template <class T>
T must(Result<T> result)
{
    if (!result)
        throw std::runtime_error(result.error().message + " [" + result.error().source + ']');
    return *std::move(result);
}

} // namespace

Desk::Desk()
{
    m_paths.home = m_dir.path();
    m_paths.isolated = true;
    m_paths.store = m_dir / "termalin.db";
    m_paths.settings = m_dir / "settings.json";
    m_paths.knownHosts = m_dir / "known_hosts";
    m_paths.audit = m_dir / "audit/audit.jsonl";
    m_paths.runtimeDir = m_dir / "run";
    m_paths.vaultSocket = m_dir / "run/vault";
    m_store = must(Store::open(m_paths.store));
    m_outside = must(Store::open(m_paths.store));
    m_vault = must(Vault::attach(*m_store, m_paths));
    m_audit = must(Audit::open(m_paths.audit, *m_store));
    m_sessions = std::make_unique<mcp::AgentSessions>(mcp::Connector::Means{
        .store = *m_store, .vault = m_vault.get(), .audit = m_audit.get(), .paths = m_paths, .signers = {}});
    m_gate = std::make_unique<mcp::PolicyGate>(
        *m_store, *m_audit, m_paths,
        mcp::HostOf{.session = [this](std::string const& id) { return m_sessions->hostOf(id); },
                    .tunnel = [this](std::string const& id) { return m_sessions->hostOfTunnel(id); }});
    m_services.paths = m_paths;
    m_services.store = m_store.get();
    m_services.audit = m_audit.get();
    m_services.sessions = m_sessions.get();
    m_services.gatekeeper = m_gate.get();
    m_server = std::make_unique<mcp::Server>(mcp::allTools(), m_services,
                                             [this](std::string const& line) { received(line); });
    send({{"jsonrpc", "2.0"},
          {"id", 0},
          {"method", "initialize"},
          {"params",
           {{"protocolVersion", "2025-11-25"},
            {"capabilities", Json::object()},
            {"clientInfo", {{"name", "test"}, {"version", "1"}}}}}});
    send({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
}

Desk::~Desk() = default;

void Desk::received(std::string const& line)
{
    auto const message = Json::parse(line);
    std::scoped_lock const lock(m_mutex);
    if (message.contains("id"))
        m_replies[message["id"].get<int>()] = message;
    else if (message.value("method", "") == "notifications/progress")
        m_progress[message["params"]["progressToken"].get<int>()].push_back(
            message["params"].value("message", ""));
    m_arrived.notify_all();
}

void Desk::send(Json const& message)
{
    auto const text = toLine(message);
    std::scoped_lock const lock(m_sending);
    mcp::Line line;
    line.text = text;
    if (message.contains("id"))
        line.id = message["id"].dump();
    m_server->receive(line);
}

int Desk::start(std::string const& tool, Json const& arguments)
{
    int id = 0;
    {
        std::scoped_lock const lock(m_mutex);
        id = ++m_last;
    }
    send({{"jsonrpc", "2.0"},
          {"id", id},
          {"method", "tools/call"},
          {"params", {{"name", tool}, {"arguments", arguments}, {"_meta", {{"progressToken", id}}}}}});
    return id;
}

Reply Desk::await(int call)
{
    std::unique_lock lock(m_mutex);
    if (!m_arrived.wait_for(lock, kPatience, [&] { return m_replies.contains(call); }))
        throw std::runtime_error("no reply came");
    auto const message = m_replies.at(call);
    if (!message.contains("result"))
        throw std::runtime_error(message.dump());
    return {.result = message.at("result")};
}

bool Desk::awaitProgress(int call, std::string const& text)
{
    std::unique_lock lock(m_mutex);
    return m_arrived.wait_for(lock, kPatience, [&] {
        for (auto const& message : m_progress[call])
            if (message.contains(text))
                return true;
        return false;
    });
}

Host Desk::save(Sshd const& server, std::string name, AgentPolicy policy,
                std::function<void(Host&)> const& change)
{
    auto const target = server.target();
    Host host;
    host.name = std::move(name);
    host.hostname = target.hostname;
    host.port = target.port;
    host.username = target.user;
    host.authType = AuthType::Key;
    host.policy = policy;
    host.keyFiles = target.keyFiles;
    host.identitiesOnly = true;
    host.knownHostsFiles = {server.knownHosts()};
    if (change)
        change(host);
    return must(m_outside->addHost(host));
}

void Desk::changeOutside(std::string const& name, std::function<void(Host&)> const& change)
{
    auto host = must(m_outside->findHost(name));
    change(host);
    must(m_outside->updateHost(host));
}

void Desk::removeOutside(std::string const& name)
{
    if (auto const removed = m_outside->removeHost(must(m_outside->findHost(name)).id); !removed)
        throw std::runtime_error(removed.error().message);
}

} // namespace termalin::test
