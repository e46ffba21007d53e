#include <algorithm>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "ssh/detail_crypto.h"
#include "ssh/detail_known_hosts.h"
#include "ssh/wire.h"

namespace termalin::ssh::detail {
namespace {

constexpr std::size_t kSha1Size = 20;
constexpr std::size_t kLongestPattern =
    1023; // longer ones match nothing in ssh, nor does the rest of the list

std::string hmacSha1(std::string_view key, std::string_view text)
{
    std::string hash(kSha1Size, '\0');
    unsigned size = kSha1Size;
    HMAC(EVP_sha1(), key.data(), static_cast<int>(key.size()), bytesOf(text), text.size(), bytesOf(hash),
         &size);
    return hash;
}

} // namespace

std::optional<HashedName> parseHashed(std::string_view names)
{
    if (!names.starts_with("|1|"))
        return std::nullopt;
    names.remove_prefix(3);
    auto const bar = names.find('|');
    if (bar == std::string_view::npos)
        return std::nullopt;
    auto salt = fromBase64(names.substr(0, bar));
    auto hash = fromBase64(names.substr(bar + 1));
    if (!salt || salt->size() != kSha1Size || !hash)
        return std::nullopt;
    return HashedName{std::move(*salt), std::move(*hash)};
}

bool matchesPattern(std::string_view text, std::string_view pattern)
{
    std::size_t t = 0;
    std::size_t p = 0;
    std::size_t star = std::string_view::npos;
    std::size_t starText = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            starText = t;
        } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
            ++p;
            ++t;
        } else if (star != std::string_view::npos) {
            p = star + 1; // the last star takes one more; earlier ones never need to
            t = ++starText;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool matchesNames(std::string_view name, std::string_view names)
{
    auto const lower = lowerCase(name);
    if (names.starts_with('|')) {
        auto const hashed = parseHashed(names);
        return hashed && (hashed->hash == hmacSha1(hashed->salt, name) ||
                          (lower != name && hashed->hash == hmacSha1(hashed->salt, lower)));
    }
    bool matched = false;
    while (!names.empty()) {
        auto pattern = names.substr(0, names.find(','));
        names.remove_prefix(std::min(pattern.size() + 1, names.size()));
        bool const negated = pattern.starts_with('!');
        if (negated)
            pattern.remove_prefix(1);
        if (pattern.size() >= kLongestPattern)
            return false;
        if (!matchesPattern(lower, lowerCase(pattern)))
            continue;
        if (negated)
            return false; // one that is excluded is excluded, whatever else matches
        matched = true;
    }
    return matched;
}

} // namespace termalin::ssh::detail
