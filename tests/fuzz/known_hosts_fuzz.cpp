#include <cstdint>
#include <cstdlib>

#include "ssh/known_hosts.h"
#include "ssh/wire.h"

/// Any bytes as a known_hosts file: no crash, no hang, and a key that is in none of the lines is never
/// trusted.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
    using namespace termalin::ssh;
    static std::string const blob =
        WireWriter().string("ssh-ed25519").string(std::string(32, '\x7b')).bytes();
    static std::string const encoded = base64(blob);
    std::string_view const text(reinterpret_cast<char const*>(data), size);
    auto const known = KnownHosts::parse(text, "fuzz");
    for (auto const port : {std::uint16_t{22}, std::uint16_t{2222}}) {
        auto const answer = known.check("server.example", port, {"ssh-ed25519", blob}, 1'700'000'000);
        if (answer.verdict == HostKeyVerdict::Trusted && !text.contains(encoded))
            std::abort();
        static_cast<void>(known.knownTypes("server.example", port));
        // The bytes as the server's key, too: certificates are read from strangers.
        static_cast<void>(
            known.check("server.example", port, {"ssh-ed25519-cert-v01@openssh.com", std::string(text)}, 0));
    }
    return 0;
}
