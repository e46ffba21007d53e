#include "core/hosts.h"

#include <array>
#include <utility>

namespace termalin {
namespace {

constexpr std::array<std::pair<AgentPolicy, std::string_view>, 3> kPolicies{
    {{AgentPolicy::Blocked, "blocked"}, {AgentPolicy::Allowlist, "allowlist"}, {AgentPolicy::Full, "full"}}};

constexpr std::array<std::pair<AuthType, std::string_view>, 5> kAuthTypes{
    {{AuthType::Agent, "agent"},
     {AuthType::Key, "key"},
     {AuthType::Certificate, "certificate"},
     {AuthType::Password, "password"},
     {AuthType::Interactive, "interactive"}}};

constexpr std::array<std::pair<AddressFamily, std::string_view>, 3> kFamilies{
    {{AddressFamily::Any, "any"}, {AddressFamily::Inet, "inet"}, {AddressFamily::Inet6, "inet6"}}};

template <class Table, class Value>
std::string_view nameIn(Table const& table, Value value) noexcept
{
    for (auto const& [known, name] : table)
        if (known == value)
            return name;
    return table.front().second;
}

template <class Value, std::size_t N>
std::optional<Value> valueIn(std::array<std::pair<Value, std::string_view>, N> const& table,
                             std::string_view text) noexcept
{
    for (auto const& [value, name] : table)
        if (name == text)
            return value;
    return std::nullopt;
}

} // namespace

std::string_view toString(AgentPolicy policy) noexcept
{
    return nameIn(kPolicies, policy);
}

std::string_view toString(AuthType type) noexcept
{
    return nameIn(kAuthTypes, type);
}

std::string_view toString(AddressFamily family) noexcept
{
    return nameIn(kFamilies, family);
}

std::optional<AgentPolicy> parseAgentPolicy(std::string_view text) noexcept
{
    return valueIn(kPolicies, text);
}

std::optional<AuthType> parseAuthType(std::string_view text) noexcept
{
    return valueIn(kAuthTypes, text);
}

std::optional<AddressFamily> parseAddressFamily(std::string_view text) noexcept
{
    return valueIn(kFamilies, text);
}

bool sameRoute(Host const& a, Host const& b)
{
    return a.hostname == b.hostname && a.port == b.port && a.username == b.username && a.jump == b.jump &&
           a.proxyCommand == b.proxyCommand && a.addressFamily == b.addressFamily;
}

} // namespace termalin
