#include "ssh/detail_exec.h"

#include <array>
#include <random>

#include "ssh/detail_connection.h"
#include "ssh/detail_stop.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;

/// At 100 KB/s a plain command's last 31 KB were seen to come over 343 ms after its exit status.
constexpr auto kQuietAfterStatus = 500ms;
constexpr auto kLongestAfterStatus = 10s;
constexpr auto kStillHeld = "Something that the command started still holds its output open; what it prints "
                            "from now on is not shown, and it was left running.";

constexpr std::string_view kHandedOver =
    " The command had been handed over: it may or may not have finished. It was not run again.";

std::string newMarker()
{
    std::random_device random;
    std::string text;
    for (int i = 0; i < 4; ++i) {
        auto value = static_cast<std::uint32_t>(random());
        for (int digit = 0; digit < 8; ++digit, value >>= 4U)
            text.push_back("0123456789abcdef"[value & 15U]);
    }
    return text;
}

} // namespace

ExecTask::ExecTask(ConnectionImpl& connection, ExecRequest request, std::string marker)
    : m_connection(connection)
    , m_request(std::move(request))
    , m_marker(std::move(marker))
    , m_output(m_request.outputCap)
{
}

ExecTask::~ExecTask() = default;

ExecTask::Waited ExecTask::wait(Deadline deadline, std::stop_token const& stop)
{
    std::unique_lock lock(m_mutex);
    for (;;) {
        auto const until = std::min(deadline.at(), Deadline::Clock::now() + 1h);
        if (m_changed.wait_until(lock, stop, until, [&] { return m_outcome.has_value(); }))
            return Waited::Ended;
        if (stop.stop_requested())
            return Waited::Cancelled;
        if (deadline.passed())
            return Waited::Timeout;
    }
}

bool ExecTask::endedWithin(std::chrono::milliseconds limit)
{
    std::unique_lock lock(m_mutex);
    return m_changed.wait_for(lock, limit, [&] { return m_outcome.has_value(); });
}

bool ExecTask::giveUp()
{
    std::lock_guard const lock(m_mutex);
    m_givenUp = !m_handedOver;
    return m_givenUp;
}

void ExecTask::signal(std::string name)
{
    std::lock_guard const lock(m_mutex);
    m_signals.push_back(std::move(name));
}

void ExecTask::finishNow(Completion completion)
{
    std::lock_guard const lock(m_mutex);
    m_finishNow = completion;
}

Result<ExecOutcome> ExecTask::take()
{
    std::lock_guard const lock(m_mutex);
    return *std::exchange(m_outcome, std::nullopt);
}

bool ExecTask::statusKnown() const
{
    std::lock_guard const lock(m_mutex);
    return m_statusKnown;
}

void ExecTask::settle(Result<ExecOutcome> outcome)
{
    m_channel.reset();
    {
        std::lock_guard const lock(m_mutex);
        m_outcome = std::move(outcome);
    }
    m_changed.notify_all(); // without the lock: who wakes finds it free
}

/// From the opening to the closed input; each part is passed over once it is done.
Attempt<void> ExecTask::begin(Session& session)
{
    if (!m_channel) {
        auto opened = Channel::openSession(session, this);
        m_retry = session.openingWakeAt();
        if (!opened || !*opened)
            return opened ? Attempt<void>(std::unexpected(opened->error())) : std::nullopt;
        m_channel = **std::move(opened);
    }
    if (!std::exchange(m_prepared, true))
        m_channel->mergeErrors();
    if (!m_marked && !m_marker.empty() && !m_channel->setEnvironment(kMarkerName, m_marker))
        return std::nullopt;
    m_marked = true;
    if (!m_started) {
        {
            std::lock_guard const lock(m_mutex);
            if (m_givenUp)
                return Result<void>{};
            if (!std::exchange(m_handedOver, true))
                m_connection.countCommand(m_request.command);
        }
        auto started = m_channel->exec(m_request.command);
        // The end of its input follows at once, which spares both ends a turn. While keys are exchanged
        // nothing was sent yet, and it must not come first.
        if (!m_inputClosed && (!started || *started) && !session.rekeying())
            m_inputClosed = m_channel->sendEof().has_value();
        if (!started)
            return std::nullopt;
        if (!*started) {
            auto error = started->error();
            if (error.code == Errc::Unsupported)
                error.message += " Nothing ran: this account may not run commands here.";
            return std::unexpected(std::move(error));
        }
        m_started = true;
        m_lastByte = Deadline::Clock::now();
    }
    if (!m_inputClosed)
        m_inputClosed = m_channel->sendEof().has_value();
    return Result<void>{};
}

/// Only the server's refusal says that nothing ran. When anything else goes wrong in the place of its answer,
/// the request for the command has gone out.
bool ExecTask::failToBegin(Error error)
{
    auto handedOver = false;
    {
        std::lock_guard const lock(m_mutex);
        handedOver = m_handedOver;
    }
    if (handedOver && error.code != Errc::Unsupported)
        return finish(Completion::Disconnected, error.message + std::string(kHandedOver));
    settle(std::unexpected(std::move(error)));
    return true;
}

bool ExecTask::step(Session& session)
{
    {
        std::lock_guard const lock(m_mutex);
        if (m_outcome)
            return true;
        if (m_givenUp && (m_channel || Channel::abandon(session, this))) {
            m_channel.reset();
            m_outcome = fail(Errc::Cancelled, "given up"); // nobody waits for it any more
            return true;
        }
    }
    if (!m_started || !m_inputClosed) {
        auto const begun = begin(session);
        if (begun && !*begun)
            return failToBegin(begun->error());
        if (!m_started)
            return m_channel && finishIfTold();
    }
    sendSignals();
    if (session.rekeying())
        m_lastByte = Deadline::Clock::now(); // silence that says nothing
    return readOutput(session) || finishIfTold();
}

bool ExecTask::finishIfTold()
{
    std::optional<Completion> told;
    {
        std::lock_guard const lock(m_mutex);
        told = m_finishNow;
    }
    return told && finish(*told, *told == Completion::Exit ? kStillHeld : "");
}

bool ExecTask::sendSignals()
{
    for (;;) {
        std::string name;
        {
            std::lock_guard const lock(m_mutex);
            if (m_signals.empty())
                return true;
            name = m_signals.front();
        }
        if (!m_channel->signal(name))
            return false;
        std::lock_guard const lock(m_mutex);
        m_signals.erase(m_signals.begin());
    }
}

void ExecTask::noteStatus()
{
    if (m_statusAt || (!m_channel->exitStatus() && m_channel->exitSignal().empty()))
        return;
    m_statusAt = Deadline::Clock::now();
    std::lock_guard const lock(m_mutex);
    m_statusKnown = true;
}

/// The command has told how it ended, and what else holds its output open prints nothing. A server that gets
/// no time prints nothing either, though more waits in its pipes: so it is asked whether it is there, twice,
/// since sshd answers before it looks into its pipes. Whatever comes counts as the answer.
bool ExecTask::silent(Session& session)
{
    auto const now = Deadline::Clock::now();
    if (now - *m_statusAt >= kLongestAfterStatus)
        return true;
    if (now - std::max(m_lastByte, *m_statusAt) < kQuietAfterStatus) {
        m_probes = 0;
        return false;
    }
    if (m_probes > 0 && session.received() == m_receivedAtProbe)
        return false;
    if (m_probes == 2)
        return true;
    ++m_probes;
    m_receivedAtProbe = session.received();
    session.probe();
    return false;
}

/// Takes what has come. True when the command has ended.
bool ExecTask::readOutput(Session& session)
{
    static constexpr std::size_t kPiece = 64U * 1024U;
    static thread_local std::array<char, kPiece> buffer;
    while (!m_endOfOutput) {
        auto const got = m_channel->read(buffer.data(), buffer.size());
        if (!got)
            break;
        if (!*got) {
            m_broken = got->error();
            break;
        }
        if (**got == 0) {
            m_endOfOutput = true;
            break;
        }
        m_lastByte = Deadline::Clock::now();
        std::string_view const bytes(buffer.data(), **got);
        m_output.append(bytes);
        if (m_request.onOutput)
            m_request.onOutput(bytes);
    }
    noteStatus();
    if (m_broken)
        return finish(m_statusAt ? Completion::Exit : Completion::Disconnected,
                      m_broken->message + " The command may or may not have finished.");
    if (m_endOfOutput && (m_statusAt || m_channel->closed()))
        return finish(Completion::Exit, m_statusAt ? ""
                                                   : "The server closed the channel without telling how "
                                                     "the command ended.");
    if (m_statusAt && silent(session))
        return finish(Completion::Exit, kStillHeld);
    return false;
}

Deadline ExecTask::wakeAt() const
{
    if (!m_channel)
        return m_retry;
    if (!m_statusAt)
        return Deadline::never();
    auto const longest = *m_statusAt + kLongestAfterStatus;
    auto const next =
        m_probes > 0 ? longest : std::min(std::max(m_lastByte, *m_statusAt) + kQuietAfterStatus, longest);
    return Deadline::in(std::chrono::ceil<std::chrono::milliseconds>(next - Deadline::Clock::now()));
}

bool ExecTask::finish(Completion completion, std::string note)
{
    ExecOutcome outcome;
    outcome.output = m_output.text();
    if (m_channel) {
        outcome.exitCode = m_channel->exitStatus();
        outcome.signal = m_channel->exitSignal();
    }
    outcome.completion = completion;
    outcome.note = std::move(note);
    outcome.duration =
        std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - m_begun);
    settle(std::move(outcome));
    return true;
}

void ExecTask::ended(Error const& why)
{
    auto handedOver = false;
    {
        std::lock_guard const lock(m_mutex);
        if (m_outcome)
            return;
        handedOver = m_handedOver;
        m_givenUp = true;
    }
    if (!handedOver) {
        auto error = why;
        error.message += " The command was not sent.";
        error.nothingWasSent = true;
        settle(std::unexpected(std::move(error)));
        return;
    }
    if (m_statusAt)
        finish(Completion::Exit, why.message + " That was after the command had ended; the end of its output "
                                               "may be missing.");
    else
        finish(Completion::Disconnected, why.message + std::string(kHandedOver));
}

Result<ExecOutcome> ConnectionImpl::exec(ExecRequest request, Deadline deadline, std::stop_token const& stop)
{
    auto const marker = markers == Markers::Refused ? std::string() : newMarker();
    auto const task = std::make_shared<ExecTask>(*this, std::move(request), marker);
    post(task);
    auto const waited = task->wait(deadline, stop);
    if (waited == ExecTask::Waited::Ended)
        return task->take();
    auto const cancelled = waited == ExecTask::Waited::Cancelled;
    if (task->giveUp()) {
        wake();
        Error error{cancelled ? Errc::Cancelled : Errc::Timeout,
                    cancelled
                        ? "The call was cancelled before the command was sent to " + name() + "."
                        : "The command could not be sent to " + name() +
                              " in time: all of the connection's channels were busy, or the server does "
                              "not answer. Nothing ran."};
        error.nothingWasSent = true;
        return std::unexpected(std::move(error));
    }
    return stopAndTake(*this, *task, cancelled ? Completion::Cancelled : Completion::Timeout);
}

} // namespace termalin::ssh
