#include "ssh/saved_credentials.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "core/vault.h"

namespace termalin::ssh {
namespace {

/// Whether a question asks for something that a saved password cannot be.
bool asksForCode(std::string_view question)
{
    std::string lower(question);
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    constexpr std::array<std::string_view, 9> kWords{
        "verification", "one-time", "otp", "token", "passcode", "authenticat", "duo", "challenge", "code:"};
    return std::ranges::any_of(kWords, [&](std::string_view word) { return lower.contains(word); });
}

} // namespace

SavedCredentials::SavedCredentials(Vault* vault, SavedRoute const& route, SignerFactory signers,
                                   std::function<void(Secret const&)> onReveal)
    : m_vault(vault), m_signers(std::move(signers)), m_onReveal(std::move(onReveal))
{
    for (std::size_t i = 0; i < route.hostIds.size(); ++i)
        m_hostIds.emplace(route.route.hops[i].name, route.hostIds[i]);
    if (!route.hostIds.empty())
        m_leadsTo = route.hostIds.back();
}

Result<std::optional<Secret>> SavedCredentials::find(Target const& target, std::string const& name)
{
    auto const id = m_hostIds.find(target.name);
    if (m_vault == nullptr || id == m_hostIds.end() || m_vault->state() == Vault::State::Missing)
        return std::nullopt;
    TRY_LET(auto const there, m_vault->hasSecret(id->second, name));
    if (!there) // a locked vault is no hindrance to a login that needs nothing of it
        return std::nullopt;
    TRY_LET(auto secret, m_vault->secretSilently(id->second, name));
    if (secret && m_onReveal)
        m_onReveal(*secret);
    return secret;
}

Result<std::optional<Secret>> SavedCredentials::password(Target const& target)
{
    return find(target, "password");
}

Result<std::optional<Secret>> SavedCredentials::passphrase(Target const& target, std::string const& keyFile)
{
    return find(target, "passphrase:" + keyFile);
}

Result<std::optional<std::vector<Secret>>> SavedCredentials::answers(Target const& target,
                                                                     std::string const& /*instruction*/,
                                                                     std::vector<Prompt> const& prompts)
{
    if (prompts.empty()) // RFC 4256 3.4: a round without questions is answered with no answers
        return std::vector<Secret>();
    if (prompts.size() != 1 || prompts.front().echo || asksForCode(prompts.front().text) ||
        m_answered.contains(target.name))
        return std::nullopt;
    TRY_LET(auto secret, find(target, "password"));
    if (!secret)
        return std::nullopt;
    m_answered.insert(target.name);
    std::vector<Secret> answer;
    answer.push_back(*std::move(secret));
    return answer;
}

std::vector<std::shared_ptr<Signer>> SavedCredentials::signers(Target const& target, Deadline deadline,
                                                               std::stop_token const& stop)
{
    auto const id = m_hostIds.find(target.name);
    if (!m_signers || id == m_hostIds.end())
        return {};
    return m_signers({.hostId = id->second, .leadsTo = m_leadsTo, .deadline = deadline, .stop = stop});
}

} // namespace termalin::ssh
