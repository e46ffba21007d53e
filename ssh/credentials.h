#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.h"
#include "core/result.h"
#include "core/secret.h"
#include "ssh/target.h"

namespace termalin::ssh {

/// One question of keyboard-interactive authentication (RFC 4256).
struct Prompt {
    std::string text; ///< The server's own words, made safe to show.
    bool echo = false;
};

/// Something that holds a private key and signs with it: the running app over its control socket, or the
/// vault. ssh-agents and key files need none of these; the login speaks to them itself.
class Signer {
public:
    virtual ~Signer() = default;
    /// The public key, or certificate, in SSH wire form (RFC 4253 6.6).
    [[nodiscard]] virtual std::string_view publicKey() const = 0;
    /// The signature in SSH wire form over `data`, a userauth request (RFC 4252 7), with `algorithm` such as
    /// "rsa-sha2-512".
    virtual Result<std::string> sign(std::string_view data, std::string_view algorithm) = 0;
    [[nodiscard]] virtual std::string describe() const = 0; ///< For messages: "vault key 'deploy'".
};

/// Where a login gets what only the person has. Called from the thread that logs in, before the connection's
/// own thread runs; may block. Implementations never invent an answer: "none" is an empty optional, "not now"
/// is an error such as VaultLocked, which the login reports if nothing else succeeds.
class Credentials {
public:
    virtual ~Credentials() = default;
    virtual Result<std::optional<Secret>> password(Target const& target) = 0;
    virtual Result<std::optional<Secret>> passphrase(Target const& target, std::string const& keyFile) = 0;
    /// The answers to one round of questions, as many as there are prompts.
    virtual Result<std::optional<std::vector<Secret>>>
    answers(Target const& target, std::string const& instruction, std::vector<Prompt> const& prompts) = 0;
    /// Each of them signs for this login alone: not after `deadline`, nor once `stop` is requested.
    virtual std::vector<std::shared_ptr<Signer>> signers(Target const& target, Deadline deadline,
                                                         std::stop_token const& stop) = 0;
};

/// Has nothing: agent and unencrypted key files only.
class NoCredentials : public Credentials {
public:
    Result<std::optional<Secret>> password(Target const&) override { return std::nullopt; }
    Result<std::optional<Secret>> passphrase(Target const&, std::string const&) override
    {
        return std::nullopt;
    }
    Result<std::optional<std::vector<Secret>>> answers(Target const&, std::string const&,
                                                       std::vector<Prompt> const&) override
    {
        return std::nullopt;
    }
    std::vector<std::shared_ptr<Signer>> signers(Target const&, Deadline, std::stop_token const&) override
    {
        return {};
    }
};

} // namespace termalin::ssh
