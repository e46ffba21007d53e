#include "ssh/detail_login_keys.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

#include "core/output_buffer.h"
#include "ssh/known_hosts.h"
#include "ssh/public_key.h"

namespace termalin::ssh::detail {
namespace {

using namespace std::chrono_literals;

/// An agent that lists its keys later than this is out of order; a login does without it.
constexpr auto kListTime = 10s;

struct Certified {
    std::string blob;
    std::string plain;
    std::string file;
};

class Collector {
public:
    Collector(Target const& target, Credentials& credentials) : m_target(target), m_credentials(credentials)
    {
    }

    Result<void> askAgent(Deadline deadline, std::stop_token const& stop)
    {
        if (m_target.agentSocket.empty())
            return {};
        auto const until = Deadline::earlier(deadline, Deadline::in(kListTime));
        auto agent = AgentClient::connect(m_target.agentSocket, until, stop);
        auto list = agent ? (*agent)->identities(until, stop)
                          : Result<std::vector<AgentIdentity>>(std::unexpected(agent.error()));
        if (!list) {
            if (list.error().code == Errc::Cancelled ||
                (list.error().code == Errc::Timeout && deadline.passed()))
                return std::unexpected(std::move(list).error());
            m_found.notes.push_back(std::move(list).error().message);
            return {};
        }
        m_agentKeys = *std::move(list);
        m_found.agent = *std::move(agent);
        return {};
    }

    void readCertificates()
    {
        for (auto const& file : m_target.certificateFiles)
            addCertificate(file, true);
    }

    void addFiles()
    {
        for (auto const& path : m_target.keyFiles) {
            auto read = KeyFile::read(path);
            if (!read) {
                m_found.notes.push_back(std::move(read).error().message);
                continue;
            }
            auto const file = std::make_shared<KeyFile const>(*std::move(read));
            auto const base = path.ends_with(".pub") ? path.substr(0, path.size() - 4) : path;
            if (base.ends_with("-cert")) // the certificate itself, named as the key
                addCertificate(path, false);
            else
                addCertificate(base + "-cert.pub", false);
            LoginKey key;
            key.blob = file->publicKey();
            key.name = fmt::format("key file \"{}\"", path);
            if (file->hasPrivate())
                key.file = file;
            addWithCertificates(std::move(key));
        }
    }

    void addSigners(Deadline deadline, std::stop_token const& stop)
    {
        for (auto& signer : m_credentials.signers(m_target, deadline, stop)) {
            LoginKey key;
            key.blob = signer->publicKey();
            key.name = signer->describe();
            key.signer = std::move(signer);
            addWithCertificates(std::move(key));
        }
    }

    void addAgent()
    {
        for (auto const& identity : m_agentKeys) {
            bool const configured = std::ranges::any_of(
                m_certificates, [&](Certified const& one) { return one.blob == identity.blob; });
            if (m_target.identitiesOnly && !configured && !certifiedFor(identity.blob))
                continue;
            LoginKey key;
            key.blob = identity.blob;
            key.name = fmt::format("agent key {} \"{}\"", fingerprint(identity.blob),
                                   visible(identity.comment.substr(0, 80)));
            addWithCertificates(std::move(key), m_target.identitiesOnly && !configured);
        }
    }

    LoginKeys finish(std::string const& last)
    {
        // std::stable_partition of GCC 12's library does not build without warnings under clang.
        auto first = m_found.keys.begin();
        for (auto it = first; it != m_found.keys.end(); ++it) {
            auto const what = it->what();
            if (!what.empty() && last.contains(what))
                std::rotate(first++, it, std::next(it));
        }
        return std::move(m_found);
    }

private:
    [[nodiscard]] bool certifiedFor(std::string const& blob) const
    {
        return std::ranges::any_of(m_certificates, [&](Certified const& one) { return one.plain == blob; });
    }

    /// `named`: by the person, so that it is told when it cannot be used.
    void addCertificate(std::string const& file, bool named)
    {
        auto blob = readPublicKeyFile(file);
        if (!blob) {
            if (named || blob.error().code != Errc::NotFound)
                m_found.notes.push_back(std::move(blob).error().message);
            return;
        }
        auto const certificate = parseCertificate(*blob);
        auto plain = plainKey(*blob);
        auto const now = static_cast<std::uint64_t>(
            std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
        std::string wrong;
        if (!certificate || !plain)
            wrong = "is not a certificate";
        else if (certificate->forHost)
            wrong = "is a host certificate, not a user's";
        else if (now >= certificate->validBefore)
            wrong = "has expired";
        else if (now < certificate->validAfter)
            wrong = "is not valid yet";
        if (wrong.empty())
            m_certificates.push_back({*std::move(blob), *std::move(plain), file});
        else
            m_found.notes.push_back(fmt::format("\"{}\" {}", file, wrong));
    }

    void addWithCertificates(LoginKey key, bool certificatesOnly = false)
    {
        for (auto const& held : m_agentKeys)
            if (!key.blob.empty() && held.blob == key.blob) {
                key.inAgent = true;
                key.agentBlob = held.blob;
            }
        for (auto const& certificate : m_certificates)
            if (!key.blob.empty() && certificate.plain == key.blob) {
                auto certified = key;
                certified.blob = certificate.blob;
                certified.name = fmt::format("certificate \"{}\" with {}", certificate.file, key.name);
                add(std::move(certified));
            }
        if (!certificatesOnly)
            add(std::move(key));
    }

    void add(LoginKey key)
    {
        auto const type = blobType(key.blob);
        if (!key.blob.empty() && (plainType(type).empty() || plainType(type) == "ssh-dss")) {
            m_found.notes.push_back(fmt::format("{} is of the type {}, which is not supported", key.name,
                                                visible(type.substr(0, 80))));
            return;
        }
        if (!key.inAgent && !key.signer && !key.file) {
            m_found.notes.push_back(
                fmt::format("{} has only its public half, and no agent has the other", key.name));
            return;
        }
        auto const same = std::ranges::find_if(
            m_found.keys, [&](LoginKey const& had) { return !key.blob.empty() && had.blob == key.blob; });
        if (same == m_found.keys.end())
            m_found.keys.push_back(std::move(key));
        else if (!same->file)
            same->file = key.file;
    }

    Target const& m_target;
    Credentials& m_credentials;
    LoginKeys m_found;
    std::vector<AgentIdentity> m_agentKeys;
    std::vector<Certified> m_certificates;
};

} // namespace

std::string LoginKey::what() const
{
    if (blob.empty())
        return {};
    return (isCertificateType(blobType(blob)) ? "certificate " : "key ") + fingerprint(blob);
}

Result<LoginKeys> collectKeys(Target const& target, Credentials& credentials, std::string const& last,
                              Deadline deadline, std::stop_token const& stop)
{
    Collector collector(target, credentials);
    TRY(collector.askAgent(deadline, stop));
    collector.readCertificates();
    collector.addFiles();
    collector.addSigners(deadline, stop);
    collector.addAgent();
    return collector.finish(last);
}

} // namespace termalin::ssh::detail
