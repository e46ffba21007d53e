#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <sys/types.h>
#include <thread>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/unique_fd.h"

namespace termalin::demo {

/// A folder that is gone with the object.
class Folder {
public:
    static Result<Folder> make();
    ~Folder();
    Folder(Folder const&) = delete;
    Folder& operator=(Folder const&) = delete;
    Folder(Folder&& other) noexcept : m_path(std::exchange(other.m_path, {})) {}
    Folder& operator=(Folder&&) = delete;
    [[nodiscard]] std::filesystem::path const& path() const { return m_path; }

private:
    explicit Folder(std::filesystem::path path) : m_path(std::move(path)) {}
    std::filesystem::path m_path;
};

/// Runs a program to its end; its output goes where ours goes, or nowhere. Errors: Internal when it fails.
enum class Output : std::uint8_t { Shown, Hidden };
Result<void> run(std::vector<std::string> const& words, Output output);
/// The same, for what it prints on stdout.
Result<std::string> outputOf(std::vector<std::string> const& words);

/// A real OpenSSH server for the account that runs us, on a free port of the loopback address. We listen
/// ourselves and hand each connection to an `sshd -i`, so nothing is left running and no port is guessed.
class Server {
public:
    /// Makes its keys and configuration in `folder`. Errors: NotFound where sshd or ssh-keygen is missing.
    static Result<std::unique_ptr<Server>> start(std::filesystem::path const& folder);
    ~Server(); ///< Ends every sshd that it started.
    Server(Server const&) = delete;
    Server& operator=(Server const&) = delete;

    [[nodiscard]] std::uint16_t port() const { return m_port; }
    [[nodiscard]] std::string const& user() const { return m_user; }
    [[nodiscard]] std::filesystem::path clientKey() const { return m_folder / "client-key"; }
    [[nodiscard]] std::string const& fingerprint() const { return m_fingerprint; }

private:
    explicit Server(std::filesystem::path folder) : m_folder(std::move(folder)) {}
    Result<void> makeKeys();
    Result<void> writeConfiguration() const;
    Result<void> listen();
    void serve(std::stop_token const& stop);

    std::filesystem::path m_folder;
    std::string m_user;
    std::string m_fingerprint;
    UniqueFd m_listener;
    std::uint16_t m_port = 0;
    std::vector<pid_t> m_children; ///< the accepting thread's, then the destructor's
    std::jthread m_thread;
};

} // namespace termalin::demo
