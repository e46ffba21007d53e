#include "ssh/detail_login_report.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/command_policy.h"
#include "core/output_buffer.h"

namespace termalin::ssh::detail {

std::string joined(std::vector<std::string> const& parts, std::string_view separator)
{
    std::string text;
    for (auto const& part : parts)
        text += (text.empty() ? std::string() : std::string(separator)) + part;
    return text;
}

void LoginReport::unusable(std::string why)
{
    if (std::ranges::find(m_unusable, why) == m_unusable.end())
        m_unusable.push_back(std::move(why));
}

void LoginReport::unusable(std::vector<std::string> const& reasons)
{
    for (auto const& reason : reasons)
        unusable(reason);
}

void LoginReport::hold(std::string const& of, Error error)
{
    unusable(of + ": " + error.message);
    if (!m_held)
        m_held = std::move(error);
}

Error LoginReport::refusal(std::vector<std::string>& earlier, std::vector<std::string> const& methods,
                           std::vector<std::string> const& accepted) const
{
    earlier.insert(earlier.end(), m_offered.begin(), m_offered.end());
    auto text = fmt::format("{} did not let {} in.", visible(m_target.name), visible(m_target.user));
    text += earlier.empty() ? " There was nothing to offer that it takes."
                            : " Offered: " + joined(earlier, "; ") + ".";
    if (!m_unusable.empty())
        text += " Could not be used: " + joined(m_unusable, "; ") + ".";
    text += methods.empty() ? " It takes no method at all."
                            : " It takes: " + visible(joined(methods, ", ")) + ".";
    if (!accepted.empty())
        text += " It had accepted " + joined(accepted, " and ") + ", and wants more.";
    return {m_held ? m_held->code : Errc::AuthFailed, text + advice(methods)};
}

std::string LoginReport::advice(std::vector<std::string> const& methods) const
{
    auto const name = asArgument(m_target.name);
    if (m_held && m_held->code != Errc::AuthFailed)
        return {}; // it says itself what to do
    if (m_needsPassphrase)
        return fmt::format(
            " Save the passphrase with \"termalin-mcp host set {} --ask-passphrase\", or load the key into "
            "ssh-agent.",
            name);
    auto const takes = [&](std::string_view method) {
        return std::ranges::find(methods, method) != methods.end();
    };
    std::vector<std::string> ways;
    if (takes("publickey"))
        ways.push_back(fmt::format(
            "name a key that the server knows with \"termalin-mcp host set {} --key FILE\"", name));
    if (takes("password") || takes("keyboard-interactive"))
        ways.push_back(
            fmt::format("save the password with \"termalin-mcp host set {} --ask-password\"", name));
    if (ways.empty())
        return {};
    ways.front().front() = static_cast<char>(ways.front().front() - 'a' + 'A');
    return " " + joined(ways, ", or ") + ".";
}

} // namespace termalin::ssh::detail
