#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "core/unique_fd.h"
#include "ssh/connection.h"
#include "ssh/target.h"
#include "tests/support/temp_dir.h"

namespace termalin::test {

struct SshdOptions {
    std::vector<std::string> hostKeyTypes{"ed25519"}; ///< As ssh-keygen -t takes them.
    std::vector<std::string> config{};                ///< Lines of sshd_config(5); they win over the rest.
    bool acceptEnv = true;                            ///< "AcceptEnv LANG LC_*", as Debian has it.
    bool sftp = true;
    int maxSessions = 10; ///< sshd's own default
    std::string loginShell = "/bin/sh";
    /// Another account than the one that runs the test: only as root; see Sshd::canBeOthers().
    bool ordinaryUser = false;
    std::string password{};                 ///< Of the other account; empty: it has none.
    std::vector<std::string> environment{}; ///< NAME=VALUE for sshd; they win over the rest.
};

/// A real OpenSSH server on a loopback port of its own. The fixture itself listens and hands each accepted
/// socket to `sshd -i`, so there is no port to guess, no readiness to wait for and nothing left running when
/// it goes away. The account has its home in a temporary folder, the shell asked for, and no rc files;
/// nss_wrapper(1) makes sshd see it so, and nothing of the machine is changed.
class Sshd {
public:
    explicit Sshd(SshdOptions options = {});
    ~Sshd();
    Sshd(Sshd const&) = delete;
    Sshd& operator=(Sshd const&) = delete;

    /// Whether servers for an account other than our own can be had: needs root.
    static bool canBeOthers();

    /// How to log in: with a fresh Ed25519 key that the server accepts. Its host keys are in `knownHosts()`.
    [[nodiscard]] ssh::Target target() const;
    [[nodiscard]] ssh::Route route() const { return {{target()}}; }
    [[nodiscard]] ssh::LoginContext context() const;
    /// The same for who comes by another port, as through a relay: the host keys are known for that one.
    [[nodiscard]] ssh::LoginContext contextAt(std::uint16_t port) const;
    /// A connection of the test's own; throws if there is none.
    [[nodiscard]] std::shared_ptr<ssh::Connection> connect() const;

    [[nodiscard]] std::uint16_t port() const noexcept { return m_port; }
    [[nodiscard]] std::string const& user() const noexcept { return m_user; }
    [[nodiscard]] std::filesystem::path home() const { return m_dir.path() / "home"; }
    [[nodiscard]] std::filesystem::path folder() const { return m_dir.path(); }
    [[nodiscard]] std::filesystem::path knownHosts() const { return m_dir.path() / "known_hosts"; }
    [[nodiscard]] std::filesystem::path userKey() const { return m_dir.path() / "user"; }
    /// One key in each line, as in authorized_keys(5); a test may add to it.
    [[nodiscard]] std::filesystem::path authorizedKeys() const { return m_dir.path() / "authorized_keys"; }
    [[nodiscard]] std::string log() const { return readFile(m_dir.path() / "log"); }

    /// The servers' processes that live now, one for each connection, oldest first.
    [[nodiscard]] std::vector<pid_t> sessions() const;
    /// How many connections there have been.
    [[nodiscard]] std::size_t accepted() const;
    /// Ends all connections as a crash would: SIGKILL for each sshd process, its privilege-separated child
    /// included; what they run is left alone.
    void killSessions();

private:
    void writeAccounts() const;
    void writeConfig() const;
    void listen();
    void serve(std::stop_token const& stop);
    void spawn(int client);
    void reap();

    SshdOptions m_options;
    TempDir m_dir;
    std::string m_user;
    uid_t m_uid = 0;
    gid_t m_gid = 0;
    UniqueFd m_listener;
    std::uint16_t m_port = 0;
    mutable std::mutex m_mutex;
    std::vector<pid_t> m_children; ///< guarded by m_mutex
    std::size_t m_accepted = 0;    ///< guarded by m_mutex
    std::jthread m_server;
};

} // namespace termalin::test
