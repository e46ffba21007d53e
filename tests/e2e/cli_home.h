#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/store.h"
#include "tests/support/program.h"
#include "tests/support/sshd.h"
#include "tests/support/temp_dir.h"

namespace termalin::test {

/// The real termalin-mcp with a TERMALIN_HOME and a HOME of its own.
class CliHome {
public:
    CliHome();

    using Words = std::vector<std::string>;

    /// Runs it without a terminal; `input` is on its descriptor 0.
    [[nodiscard]] Ran run(Words const& words, std::string_view input = {}) const;
    /// The same for a call that must succeed; gives its output.
    std::string must(Words const& words, std::string_view input = {}) const;

    /// One turn of a conversation on a terminal: what must have come before the answer is typed.
    struct Turn {
        std::string awaited, typed;
    };
    /// Runs it on a pseudo terminal. Gives what the terminal showed.
    [[nodiscard]] Ran onTerminal(Words const& words, std::vector<Turn> const& turns) const;

    /// `host list --json`, by name; null if there is none.
    [[nodiscard]] Json host(std::string const& name) const;
    [[nodiscard]] std::vector<Store::Widening> widenings() const;
    /// The audit's lines of kind "note".
    [[nodiscard]] std::vector<Json> notes() const;

    /// Saves the server as a host with its key file, and trusts its key.
    void addServer(std::string const& name, Sshd const& server) const;
    /// A line of known_hosts for the server, with a key that is not its own, among our trusted keys.
    void trustAnotherKey(Sshd const& server) const;

    [[nodiscard]] std::filesystem::path data() const { return m_dir / "data"; }
    [[nodiscard]] std::filesystem::path home() const { return m_dir / "home"; }
    [[nodiscard]] std::filesystem::path bin() const { return m_dir / "bin"; } ///< first in PATH
    [[nodiscard]] std::filesystem::path folder() const { return m_dir.path(); }

private:
    [[nodiscard]] std::vector<std::string> environment() const;

    TempDir m_dir;
};

/// USER@127.0.0.1:PORT
[[nodiscard]] std::string loginOf(Sshd const& server);
/// As ssh-keygen prints it of the server's own key.
[[nodiscard]] std::string fingerprintOf(Sshd const& server);
/// A Unix socket that nothing listens on any more.
void leaveStaleSocket(std::filesystem::path const& path);

} // namespace termalin::test
