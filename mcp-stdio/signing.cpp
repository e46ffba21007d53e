#include "mcp-stdio/signing.h"

#include <fmt/format.h>

#include "core/account.h"
#include "core/output_buffer.h"
#include "ssh/wire.h"

namespace termalin::mcp {
namespace {

constexpr std::uint8_t kUserauthRequest = 50; // SSH_MSG_USERAUTH_REQUEST, RFC 4252 section 6
constexpr std::string_view kCertificateSuffix = "-cert-v01@openssh.com";

std::unexpected<Error> refused(std::string_view why)
{
    return fail(Errc::InvalidArgument,
                fmt::format("Termalin signs nothing but a login with this key to this host: {}.", why));
}

std::string_view withoutCertificate(std::string_view name)
{
    if (name.ends_with(kCertificateSuffix))
        name.remove_suffix(kCertificateSuffix.size());
    return name;
}

} // namespace

Result<UserauthRequest> parseUserauthRequest(std::string_view data)
{
    ssh::WireReader reader(data);
    auto const sessionId = reader.string();
    auto const message = reader.byte();
    auto const user = reader.string();
    auto const service = reader.string();
    auto const method = reader.string();
    auto const signs = reader.byte();
    auto const algorithm = reader.string();
    auto const publicKey = reader.string();
    if (reader.failed())
        return refused("the data is not a userauth request");
    if (*message != kUserauthRequest || *service != "ssh-connection" || *signs != 1)
        return refused("the data is another kind of message");
    if (*method == "publickey-hostbound-v00@openssh.com")
        reader.string(); // the server's key
    else if (*method != "publickey")
        return refused("the data belongs to another method of authentication");
    if (!reader.done())
        return refused("the data goes on after the request");
    if (sessionId->size() < 20 || sessionId->size() > 64) // SHA-1 to SHA-512: the exchange hash of RFC 4253 8
        return refused("the data has no session id");
    return UserauthRequest{*sessionId, *user, *algorithm, *publicKey};
}

Result<void> checkSigning(Host const& host, std::string_view publicKey, std::string_view algorithm,
                          std::string_view data)
{
    TRY_LET(auto const request, parseUserauthRequest(data));
    if (request.user.empty() || request.user != (host.username.empty() ? ownAccount() : host.username))
        return refused(fmt::format("the request is for the user \"{}\"", visible(request.user)));
    if (request.publicKey != publicKey)
        return refused("the request is for another key");
    ssh::WireReader reader(publicKey);
    auto const type = reader.string();
    if (!type)
        return refused("the key is not in SSH wire form");
    auto const isCertificate = type->ends_with(kCertificateSuffix);
    auto const plainType = withoutCertificate(*type);
    auto const plainAlgorithm = withoutCertificate(request.algorithm);
    auto const fits = plainType == "ssh-rsa"
                          ? plainAlgorithm == "rsa-sha2-256" || plainAlgorithm == "rsa-sha2-512"
                          : plainAlgorithm == plainType;
    if (!fits || isCertificate != request.algorithm.ends_with(kCertificateSuffix))
        return refused("the algorithm of the request is not one of this key's");
    if (withoutCertificate(algorithm) != plainAlgorithm)
        return refused("another algorithm is asked for than the request names");
    return {};
}

} // namespace termalin::mcp
