#include "ssh/detail_connection.h"

namespace termalin::ssh {

Result<LoginShell> ConnectionImpl::loginShell(Deadline deadline, std::stop_token const& stop)
{
    std::unique_lock lock(m_mutex);
    if (!m_shellAsked.wait_until(lock, stop, deadline.at(), [&] { return !m_askingShell; })) {
        if (stop.stop_requested())
            return fail(Errc::Cancelled, "Asking for the login shell of " + name() + " was cancelled.");
        return std::unexpected(
            Error{Errc::Timeout, "The login shell of " + name() + " was not known in time.", {}, true});
    }
    if (m_shell)
        return *m_shell;
    m_askingShell = true;
    lock.unlock();
    Result<LoginShell> answer = fail(Errc::Internal, "The login shell of " + name() + " was not asked for.");
    try {
        answer = askLoginShell(deadline, stop);
    } catch (...) { // the others that wait must not do so for ever
        lock.lock();
        m_askingShell = false;
        m_shellAsked.notify_all();
        throw;
    }
    lock.lock();
    m_askingShell = false;
    if (answer)
        m_shell = *answer;
    m_shellAsked.notify_all();
    return answer;
}

/// Words that one shell or another changes between single quotes: fish takes a backslash away, csh replaces
/// what follows an exclamation mark. The last ones tell a shell that does not know quotes at all.
Result<LoginShell> ConnectionImpl::askLoginShell(Deadline deadline, std::stop_token const& stop)
{
    ExecRequest request;
    request.command =
        R"sh(printf '<%s>' 'a\\b\n' 'x!y !!' '$HOME `id`' 'é' 'it'\''s' '"' '*' ' two  words ' '')sh";
    auto const* const expected = R"(<a\\b\n><x!y !!><$HOME `id`><é><it's><"><*>< two  words ><>)";
    TRY_LET(auto const outcome, exec(std::move(request), deadline, stop));
    if (outcome.completion == Completion::Timeout || outcome.completion == Completion::Cancelled)
        return std::unexpected(
            Error{outcome.completion == Completion::Timeout ? Errc::Timeout : Errc::Cancelled,
                  "The login shell of " + name() + " did not answer in time.",
                  {},
                  true});
    if (outcome.completion == Completion::Disconnected)
        return fail(Errc::Unreachable, outcome.note);
    return outcome.output.text.find(expected) != std::string::npos ? LoginShell::Posix : LoginShell::Other;
}

} // namespace termalin::ssh
