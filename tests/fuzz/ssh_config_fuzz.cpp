#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "core/output_buffer.h"
#include "ssh/ssh_config_import.h"

namespace {

/// The oracle failed: abort() is what the fuzzer reports.
void mustHold(bool condition)
{
    if (!condition)
        std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
    using namespace termalin;
    std::string_view const text(reinterpret_cast<char const*>(data), size);
    // What follows a form feed is the file that every Include finds.
    auto const cut = text.find('\f');
    std::string const included(cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1));
    auto const open = [&](std::string const& pattern) {
        return ssh::SshConfig::Included{{pattern, included}};
    };
    auto const config = ssh::SshConfig::parse(text.substr(0, cut), "config", "/home/ada", open);
    if (!config)
        return 0;
    for (auto const* const alias : {"web", "10.0.0.1", "a.b"}) {
        auto const host = config->resolve(alias, "ada");
        mustHold(!host.refused.empty() || (host.port != 0 && !host.user.empty()));
    }
    auto const report = ssh::importHosts(*config, "ada");
    std::set<std::string> before;
    for (auto const& imported : report.hosts) {
        for (auto const& jump : imported.host.jump)
            mustHold(before.contains(jump));
        mustHold(before.insert(imported.host.name).second);
        mustHold(imported.host.policy == AgentPolicy::Blocked);
    }
    for (auto const& note : report.refused)
        mustHold(!before.contains(note.name));
    bool lossy = false;
    auto const shown = ssh::toText(report);
    mustHold(toUtf8(shown, &lossy) == shown && !lossy);
    return 0;
}
