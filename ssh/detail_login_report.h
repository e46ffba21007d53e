#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "ssh/target.h"

namespace termalin::ssh::detail {

[[nodiscard]] std::string joined(std::vector<std::string> const& parts, std::string_view separator);

/// What became of a login's steps, for the message if it fails. Nothing in here is a secret.
class LoginReport {
public:
    explicit LoginReport(Target const& target) : m_target(target) {}

    void offered(std::string what) { m_offered.push_back(std::move(what)); }
    void unusable(std::string why); ///< The same reason is kept once.
    void unusable(std::vector<std::string> const& reasons);
    /// An error of the credentials: its code is what is reported if nothing else succeeds.
    void hold(std::string const& of, Error error);
    void needsPassphrase() noexcept { m_needsPassphrase = true; }
    [[nodiscard]] bool anyOffered() const noexcept { return !m_offered.empty(); }

    /// `earlier`: what other connections of the same opening have offered; gets this one's as well.
    /// `methods`: what the server takes now. `accepted`: what it took on the way.
    [[nodiscard]] Error refusal(std::vector<std::string>& earlier, std::vector<std::string> const& methods,
                                std::vector<std::string> const& accepted) const;

private:
    [[nodiscard]] std::string advice(std::vector<std::string> const& methods) const;

    Target const& m_target;
    std::vector<std::string> m_offered;
    std::vector<std::string> m_unusable;
    std::optional<Error> m_held;
    bool m_needsPassphrase = false;
};

} // namespace termalin::ssh::detail
