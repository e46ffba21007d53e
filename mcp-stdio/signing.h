#pragma once

#include <string>
#include <string_view>

#include "core/hosts.h"
#include "core/result.h"

namespace termalin::mcp {

/// What an SSH login has a key sign: RFC 4252 section 7 ("publickey"), and OpenSSH's PROTOCOL section 3.1
/// ("publickey-hostbound-v00@openssh.com").
struct UserauthRequest {
    std::string_view sessionId;
    std::string_view user;
    std::string_view algorithm;
    std::string_view publicKey; ///< Or certificate; SSH wire form.
};

/// Reads `data`, which is to be signed; nothing may be left over. The views lead into `data`. Errors:
/// InvalidArgument says what is not as it must be.
[[nodiscard]] Result<UserauthRequest> parseUserauthRequest(std::string_view data);

/// Whether the app may sign `data` with `publicKey` for a login to `host`: only a userauth request for
/// exactly its user (the person's own account where it names none) and this key, with an algorithm that this
/// type of key has and that is not SHA-1's. `algorithm`: the signature's, such as "rsa-sha2-512". Errors:
/// InvalidArgument.
[[nodiscard]] Result<void> checkSigning(Host const& host, std::string_view publicKey,
                                        std::string_view algorithm, std::string_view data);

} // namespace termalin::mcp
