#include <chrono>
#include <fmt/format.h>
#include <future>
#include <stop_token>
#include <utility>

#include "core/command_policy.h"
#include "mcp-stdio/cli/doctor.h"
#include "ssh/sftp.h"

namespace termalin::cli {

namespace {

using namespace std::chrono_literals;

Finding loginFinding(std::string const& name, Error const& error)
{
    switch (error.code) {
    case Errc::HostKeyUnknown:
        return {Fault::KeyUnknown, name, error.message,
                fmt::format("Compare the fingerprint with the server's, then: termalin-mcp host trust {}",
                            asArgument(name))};
    case Errc::HostKeyChanged:
    case Errc::HostKeyRevoked:
        return {Fault::KeyChanged, name, error.message,
                fmt::format(
                    "Ask whoever runs the server. Only if its key really changed: termalin-mcp host trust {} "
                    "--replace",
                    asArgument(name))};
    case Errc::VaultLocked:
        return {Fault::VaultLocked, name, error.message, "Open it: termalin-mcp vault unlock"};
    default:
        return {Fault::Other, name, error.message,
                fmt::format("Try it by itself: termalin-mcp host test {}", asArgument(name))};
    }
}

/// Whether the server lets a second channel be opened while a first one is in use, as agents' calls do. The
/// first is a command that waits until it is stopped.
bool takesTwoChannels(ssh::Connection& connection)
{
    std::stop_source stop;
    std::promise<void> began;
    auto running = began.get_future();
    auto told = false; // touched by the connection's thread only
    ssh::ExecRequest waiting{.command = "echo began; sleep 60", .outputCap = 4096, .onOutput = {}};
    waiting.onOutput = [&](std::string_view) {
        if (!std::exchange(told, true))
            began.set_value();
    };
    auto first = std::async(std::launch::async, [&] {
        return connection.exec(std::move(waiting), Deadline::in(60s), stop.get_token());
    });
    auto second = true;
    if (running.wait_for(20s) == std::future_status::ready)
        second =
            connection.exec({.command = "true", .outputCap = 4096, .onOutput = {}}, Deadline::in(10s), {})
                .has_value();
    stop.request_stop();
    static_cast<void>(first.get()); // how the waiting command ended says nothing about the server
    return second;
}

} // namespace

Findings checkServer(SavedLogin const& login)
{
    auto const& name = login.host.name;
    auto const deadline = Deadline::in(30s);
    auto const hold = holdPort(login, deadline);
    if (!hold)
        return {loginFinding(name, hold.error())};
    auto const connection = ssh::Connection::open(login.route.route, login.context, deadline, {});
    if (!connection)
        return {loginFinding(name, connection.error())};
    Findings found;
    if (auto const shell = (*connection)->loginShell(deadline, {}); !shell)
        found.push_back({Fault::Other, name, shell.error().message,
                         "Try it by itself: termalin-mcp host test " + asArgument(name)});
    else if (*shell != LoginShell::Posix)
        found.push_back({Fault::ShellNotPosix, name,
                         "Its login shell is not a POSIX shell, so words cannot be quoted for it.",
                         "Under allowlist only plain words are admitted there. For more, give the account "
                         "another shell, such as: "
                         "chsh -s /bin/sh"});
    else if (!takesTwoChannels(**connection))
        found.push_back({Fault::MaxSessions, name,
                         "The server lets only one channel be open on a connection (MaxSessions 1).",
                         "Calls on one session wait for each other, and stopping a command takes longer. "
                         "Raise MaxSessions in the "
                         "server's sshd_config."});
    auto const sftp = ssh::Sftp::open(*connection, Deadline::in(15s), {});
    if (!sftp && sftp.error().code != Errc::Unsupported) // slow, or lost: that says nothing of its SFTP
        found.push_back({Fault::Other, name, sftp.error().message,
                         "Try it by itself: termalin-mcp host test " + asArgument(name)});
    else if (!sftp)
        found.push_back({Fault::NoSftp, name, sftp.error().message,
                         "The sftp_* tools do not work there. Turn it on in the server's sshd_config: "
                         "Subsystem sftp internal-sftp"});
    return found;
}

} // namespace termalin::cli
