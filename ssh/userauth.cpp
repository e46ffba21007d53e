#include "ssh/userauth.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

#include "core/output_buffer.h"
#include "ssh/detail_auth_wire.h"
#include "ssh/detail_login_keys.h"
#include "ssh/detail_login_report.h"
#include "ssh/public_key.h"
#include "ssh/wire.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using detail::AuthWire;
using detail::joined;
using detail::LoginKey;

constexpr int kMostSteps = 8;   // partial successes; a server that never has enough is broken
constexpr int kMostRounds = 16; // of questions in one keyboard-interactive
constexpr std::uint32_t kMostPrompts = 64;
/// An agent that took longer to sign has asked a person: no key needs that long by itself.
constexpr auto kPersonTime = 1s;

enum class Step : std::uint8_t { Done, Partial, Refused };

class Login {
public:
    Login(Session& session, Target const& target, LoginContext const& context, Deadline deadline,
          std::stop_token const& stop, LoginAttempts& attempts)
        : m_wire(session, target, deadline, stop)
        , m_target(target)
        , m_attempts(attempts)
        , m_credentials(context.credentials ? context.credentials : std::make_shared<NoCredentials>())
        , m_last(context.lastLogin ? context.lastLogin(target.name) : std::string())
        , m_report(target)
    {
        ++m_attempts.connections;
        m_attempts.hungUp = false;
    }

    Result<LoggedIn> run()
    {
        auto const early = firstKeyAtOnce();
        if (!early)
            return std::unexpected(explainLoss(early.error()));
        if (*early == Step::Done)
            return LoggedIn{m_type, m_neededPerson, joined(m_succeeded, " + ")};
        if (!m_wire.asked()) {
            TRY_LET(bool const needed, m_wire.begin());
            if (!needed)
                return LoggedIn{AuthType::Password, false, "none"};
        }
        for (int step = 0; step < kMostSteps; ++step) {
            auto const taken = nextStep();
            if (!taken)
                return std::unexpected(explainLoss(taken.error()));
            if (*taken == Step::Done)
                return LoggedIn{m_type, m_neededPerson, joined(m_succeeded, " + ")};
            if (*taken == Step::Refused)
                return std::unexpected(explainRefusal());
            m_triedInteractive = false;
            m_triedPassword = false;
        }
        return std::unexpected(explainRefusal());
    }

private:
    /// One method to its success, or all to their end.
    Result<Step> nextStep()
    {
        bool const lastWasPassword = m_last.ends_with("password");
        bool const lastWasInteractive = m_last.ends_with("keyboard-interactive");
        if (m_succeeded.empty() && lastWasPassword && m_wire.takes("password")) {
            TRY_LET(auto const step, tryPassword());
            if (step != Step::Refused)
                return step;
        }
        if (m_succeeded.empty() && lastWasInteractive && m_wire.takes("keyboard-interactive")) {
            TRY_LET(auto const step, tryInteractive());
            if (step != Step::Refused)
                return step;
        }
        TRY_LET(auto const keys, tryKeys());
        if (keys != Step::Refused)
            return keys;
        TRY_LET(auto const interactive, tryInteractive());
        if (interactive != Step::Refused)
            return interactive;
        return tryPassword();
    }

    Result<Step> judge(std::string const& answer, std::string const& what, AuthType type)
    {
        auto const code = static_cast<std::uint8_t>(answer.front());
        bool const partial = code == detail::kAuthFailure && m_wire.noteFailure(answer);
        if (code != detail::kAuthSuccess && !partial)
            return Step::Refused;
        m_succeeded.push_back(what);
        m_type = type;
        return partial ? Step::Partial : Step::Done;
    }

    // Keys

    /// The best key, without having asked what the server takes, if it can sign with nobody's help: that
    /// spares two round trips of most logins. A server that refuses it says what it takes. Refused also where
    /// there is no such key.
    Result<Step> firstKeyAtOnce()
    {
        if (m_attempts.connections > 1 || m_target.keyFiles.empty() || m_last.ends_with("password") ||
            m_last.ends_with("keyboard-interactive"))
            return Step::Refused;
        TRY(collectKeys());
        if (m_keys.keys.empty() || !signsByItself(m_keys.keys.front()))
            return Step::Refused;
        auto& key = m_keys.keys.front();
        key.offered = true;
        return offer(key, Asked::AtOnce);
    }

    /// No person, and nothing that could ask one, has a part in its signature.
    static bool signsByItself(LoginKey const& key)
    {
        return key.file && !key.blob.empty() && !key.file->encrypted() && !key.inAgent &&
               !blobType(key.blob).starts_with("sk-");
    }

    Result<void> collectKeys()
    {
        if (m_collected)
            return {};
        TRY_LET(m_keys,
                detail::collectKeys(m_target, *m_credentials, m_last, m_wire.deadline(), m_wire.stop()));
        m_collected = true;
        return {};
    }

    Result<Step> tryKeys()
    {
        if (!m_wire.takes("publickey"))
            return Step::Refused;
        TRY(collectKeys());
        for (auto& key : m_keys.keys) {
            if (key.offered || (key.blob.empty() && !unlock(key)) || wasRefused(key.what()))
                continue;
            key.offered = true;
            TRY_LET(auto const step, offer(key));
            if (step != Step::Refused)
                return step;
            if (!m_wire.takes("publickey"))
                return Step::Refused;
        }
        return Step::Refused;
    }

    [[nodiscard]] bool wasRefused(std::string const& what) const
    {
        return std::ranges::find(m_attempts.refused, what) != m_attempts.refused.end();
    }

    /// The signature algorithm for a key, empty if there is none in common. RFC 8332: an RSA key has several.
    [[nodiscard]] std::string signatureFor(std::string_view type) const
    {
        auto const plain = std::string(plainType(type));
        if (plain != "ssh-rsa")
            return plain;
        auto const theirs = m_wire.serverSignatures();
        for (std::string const ours : {"rsa-sha2-512", "rsa-sha2-256"})
            if (theirs.empty() || std::ranges::find(theirs, ours) != theirs.end())
                return ours;
        return {};
    }

    enum class Asked : std::uint8_t { First, AtOnce };

    /// `asked`: whether to ask first if the server wants the key, so that no person is asked for one that it
    /// does not want. What worked last time and can sign by itself needs no asking.
    Result<Step> offer(LoginKey& key, Asked asked = Asked::First)
    {
        auto const type = blobType(key.blob);
        if (asked == Asked::AtOnce &&
            plainType(type) == "ssh-rsa") // which of its signatures the server takes
            TRY(m_wire.hearServer());
        auto const signature = signatureFor(type);
        if (signature.empty()) {
            m_report.unusable(
                key.name + ": the server takes only SHA-1 signatures of RSA keys, which are no longer safe");
            return Step::Refused;
        }
        bool const certified = isCertificateType(type);
        auto const algorithm = certified ? signature.starts_with("rsa-") ? signature + "-cert-v01@openssh.com"
                                                                         : std::string(type)
                                         : signature;
        auto const packet = [&](std::uint8_t withSignature) {
            return m_wire.request("publickey") +
                   WireWriter().byte(withSignature).string(algorithm).string(key.blob).bytes();
        };
        if (asked == Asked::First && !(signsByItself(key) && m_last.contains(key.what()))) {
            TRY_LET(auto const answer, exchangeFor(key, packet(0)));
            if (static_cast<std::uint8_t>(answer.front()) != detail::kAuthMethodSpecific) {
                TRY_LET(auto const step, judge(answer, key.what(), AuthType::Key));
                if (step == Step::Refused)
                    refuse(key, "refused");
                return step;
            }
        }
        auto const data = WireWriter().string(m_wire.sessionId()).raw(packet(1)).bytes();
        bool byAgent = false;
        TRY_LET(auto const made, sign(key, data, signature, byAgent));
        if (made.empty())
            return Step::Refused;
        TRY_LET(auto const answer, exchangeFor(key, packet(1) + WireWriter().string(made).bytes()));
        auto const kind = certified ? AuthType::Certificate : byAgent ? AuthType::Agent : AuthType::Key;
        TRY_LET(auto const step, judge(answer, key.what(), kind));
        if (step == Step::Refused)
            refuse(key, "its signature was refused");
        else if (signature.starts_with("sk-"))
            m_neededPerson = true;
        return step;
    }

    /// As AuthWire::exchange; when the server hangs up over this key, it was this key that it did not want.
    /// As its first answer, and without a word, that is rather a line that was cut.
    Result<std::string> exchangeFor(LoginKey const& key, std::string const& packet)
    {
        auto answer = m_wire.exchange(packet);
        if (!answer && answer.error().code == Errc::Unreachable &&
            (m_wire.asked() || !m_wire.goodbye().empty()))
            refuse(key, "refused");
        return answer;
    }

    void refuse(LoginKey const& key, std::string_view how)
    {
        m_attempts.refused.push_back(key.what());
        m_report.offered(fmt::format("{} ({})", key.name, how));
    }

    /// Empty: nothing can sign, and notes say why. Errors: Timeout, Cancelled.
    Result<std::string> sign(LoginKey& key, std::string const& data, std::string const& algorithm,
                             bool& byAgent)
    {
        if (key.inAgent && m_keys.agent) {
            auto const before = Deadline::Clock::now();
            auto made = m_keys.agent->sign(key.agentBlob, data, algorithm, m_wire.deadline(), m_wire.stop());
            if (made) {
                byAgent = true;
                m_neededPerson = m_neededPerson || Deadline::Clock::now() - before > kPersonTime;
                return made;
            }
            if (made.error().code == Errc::Timeout || made.error().code == Errc::Cancelled)
                return made;
            m_report.unusable(key.name + ": " + made.error().message);
        }
        if (!key.signer && !unlock(key))
            return std::string();
        auto made = key.signer->sign(data, algorithm);
        if (made && verifySignature(plainKey(key.blob).value_or(std::string{}), *made, data))
            return made;
        if (made)
            m_report.unusable(key.name + ": gave a signature that is wrong");
        else
            m_report.hold(key.name, std::move(made).error());
        return std::string();
    }

    /// Opens the key's file with the passphrase if it has one. False: notes say why not.
    bool unlock(LoginKey& key)
    {
        if (!key.file || std::ranges::find(m_sealed, key.file->path()) != m_sealed.end())
            return false;
        std::optional<Secret> passphrase;
        if (key.file->encrypted()) {
            auto given = m_credentials->passphrase(m_target, key.file->path());
            if (!given)
                m_report.hold(key.name, std::move(given).error());
            else
                passphrase = *std::move(given);
        }
        auto opened = key.file->open(passphrase ? &*passphrase : nullptr);
        if (!opened) {
            m_sealed.push_back(key.file->path()); // its certificates need not ask again
            if (opened.error().kind == KeyFileError::Kind::NeedsPassphrase ||
                opened.error().kind == KeyFileError::Kind::WrongPassphrase)
                m_report.needsPassphrase();
            m_report.unusable(std::move(opened).error().message);
            return false;
        }
        key.signer = *std::move(opened);
        if (key.blob.empty())
            key.blob = key.signer->publicKey();
        return true;
    }

    // Questions and passwords

    Result<Step> tryInteractive()
    {
        if (m_triedInteractive || !m_wire.takes("keyboard-interactive"))
            return Step::Refused;
        m_triedInteractive = true;
        auto packet = m_wire.request("keyboard-interactive") + WireWriter().string("").string("").bytes();
        bool answered = false;
        for (int round = 0; round < kMostRounds; ++round) {
            auto const answer = m_wire.exchange(packet);
            wipe(packet);
            if (!answer)
                return std::unexpected(answer.error());
            if (static_cast<std::uint8_t>(answer->front()) != detail::kAuthMethodSpecific) {
                TRY_LET(auto const step, judge(*answer, "keyboard-interactive", AuthType::Interactive));
                if (step == Step::Refused)
                    m_report.offered(answered ? "keyboard-interactive (the answers were refused)"
                                              : "keyboard-interactive (refused)");
                return step;
            }
            auto reply = answerRound(*answer, answered);
            if (!reply)
                return Step::Refused; // the next request, if there is one, ends this method (RFC 4256 3.1)
            packet = *std::move(reply);
        }
        m_report.offered("keyboard-interactive (the server asked without end)");
        return Step::Refused;
    }

    /// The packet with the answers; empty if there are none.
    std::optional<std::string> answerRound(std::string const& packet, bool& answered)
    {
        WireReader in(packet);
        in.byte();
        in.string(); // a title
        auto const instruction = in.string();
        in.string(); // a language
        auto const count = in.u32();
        std::vector<Prompt> prompts;
        for (std::uint32_t i = 0; count && i < std::min(*count, kMostPrompts); ++i) {
            auto const text = in.string();
            auto const echo = in.byte();
            if (!in.failed())
                prompts.push_back({visible(*text), *echo != 0});
        }
        if (in.failed() || *count > kMostPrompts) {
            m_report.offered("keyboard-interactive (the server's questions are damaged)");
            return std::nullopt;
        }
        std::vector<Secret> answers;
        if (!prompts.empty()) {
            auto given = m_credentials->answers(m_target, visible(*instruction), prompts);
            if (!given || !*given || (*given)->size() != prompts.size()) {
                std::vector<std::string> texts;
                for (auto const& prompt : prompts)
                    texts.push_back('"' + prompt.text.substr(0, 80) + '"');
                auto const asked = "keyboard-interactive: the server asks " + joined(texts, ", ");
                if (!given)
                    m_report.hold(asked, std::move(given).error());
                else
                    m_report.unusable(asked + ", and there is no saved answer");
                return std::nullopt;
            }
            answers = *std::move(*given);
            m_neededPerson = true;
            answered = true;
        }
        WireWriter reply;
        reply.byte(detail::kAuthInfoResponse).u32(static_cast<std::uint32_t>(answers.size()));
        for (auto const& answer : answers) {
            reply.string(answer.reveal());
            if (answers.size() == 1)
                m_answer = answer.clone();
        }
        return std::move(reply).bytes();
    }

    Result<Step> tryPassword()
    {
        if (m_triedPassword || !m_wire.takes("password"))
            return Step::Refused;
        m_triedPassword = true;
        auto password = m_credentials->password(m_target);
        if (!password) {
            m_report.hold("password", std::move(password).error());
            return Step::Refused;
        }
        if (!*password) {
            m_report.unusable("password: none is saved");
            return Step::Refused;
        }
        // The same again would only bring the account closer to being locked.
        if (m_answer.reveal() == (*password)->reveal() && !m_answer.empty() && m_succeeded.empty())
            return Step::Refused;
        auto packet = m_wire.request("password") + WireWriter().byte(0).string((*password)->reveal()).bytes();
        auto const answer = m_wire.exchange(packet);
        wipe(packet);
        if (!answer)
            return std::unexpected(answer.error());
        if (static_cast<std::uint8_t>(answer->front()) == detail::kAuthMethodSpecific) // RFC 4252 8
            return fail(
                Errc::AuthFailed,
                fmt::format(
                    "The password of {} on {} has expired: the server lets nobody in before it is changed. "
                    "Log in once with ssh to change it, then save the new one.",
                    visible(m_target.user), visible(m_target.name)));
        TRY_LET(auto const step, judge(*answer, "password", AuthType::Password));
        if (step == Step::Refused)
            m_report.offered("password (refused)");
        return step;
    }

    // Messages

    Error explainRefusal()
    {
        m_report.unusable(m_keys.notes);
        return m_report.refusal(m_attempts.notes, m_wire.methods(), m_succeeded);
    }

    /// The line was cut: by a server that has had enough, if it said so or had refused something before.
    Error explainLoss(Error error)
    {
        if (error.code != Errc::Unreachable || (!m_report.anyOffered() && m_wire.goodbye().empty()))
            return error;
        m_attempts.hungUp =
            !m_wire.asked() || (!m_triedInteractive && m_wire.takes("keyboard-interactive")) ||
            (!m_triedPassword && m_wire.takes("password")) ||
            std::ranges::any_of(m_keys.keys,
                                [&](LoginKey const& key) { return !key.offered && !wasRefused(key.what()); });
        auto refusal = explainRefusal();
        refusal.message = fmt::format("{} hung up{} after {} attempts. {}", visible(m_target.name),
                                      m_wire.goodbye().empty() ? "" : " (\"" + m_wire.goodbye() + "\")",
                                      m_attempts.notes.size(), refusal.message);
        return refusal;
    }

    AuthWire m_wire;
    Target const& m_target;
    LoginAttempts& m_attempts;
    std::shared_ptr<Credentials> m_credentials;
    std::string m_last;

    detail::LoginKeys m_keys;
    bool m_collected = false;
    std::vector<std::string> m_sealed; ///< files that could not be opened
    detail::LoginReport m_report;
    bool m_triedInteractive = false;
    bool m_triedPassword = false;
    Secret m_answer; ///< the one answer to the one question of a round

    std::vector<std::string> m_succeeded;
    AuthType m_type{};
    bool m_neededPerson = false;
};

} // namespace

Result<LoggedIn> logIn(Session& session, Target const& target, LoginContext const& context, Deadline deadline,
                       std::stop_token const& stop, LoginAttempts& attempts)
{
    return Login(session, target, context, deadline, stop, attempts).run();
}

Result<LoggedIn> logIn(Session& session, Target const& target, LoginContext const& context, Deadline deadline,
                       std::stop_token const& stop)
{
    LoginAttempts attempts;
    return logIn(session, target, context, deadline, stop, attempts);
}

} // namespace termalin::ssh
