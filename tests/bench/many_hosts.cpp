#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>

#include "core/paths.h"
#include "core/store.h"

/// bench_many_hosts COUNT: fills the store below TERMALIN_HOME with hosts as a person with many servers has
/// them.
int main(int argc, char** argv)
{
    using namespace termalin; // NOLINT(google-build-using-namespace): main only
    auto const count =
        argc == 2 ? std::atoi(argv[1]) : 0; // NOLINT(cert-err34-c): a bad number is 0, and refused
    if (count <= 0) {
        std::fputs("usage: TERMALIN_HOME=DIR bench_many_hosts COUNT\n", stderr);
        return 2;
    }
    auto const paths = Paths::find();
    auto const store = paths ? Store::open(paths->store) : std::unexpected(paths.error());
    if (!store) {
        fmt::print(stderr, "{}\n", store.error().message);
        return 1;
    }
    for (int number = 0; number < count; ++number) {
        Host host;
        host.name = fmt::format("web-{:05}", number);
        host.hostname = fmt::format("web-{:05}.region-{}.example.org", number, number % 7);
        host.username = "deploy";
        host.policy = number % 3 == 0 ? AgentPolicy::Full : AgentPolicy::Allowlist;
        host.tags = {"web", fmt::format("region-{}", number % 7)};
        host.notes = "Restart nginx with systemctl; deploys run on Tuesdays.";
        host.rules = {"systemctl status *", "df -h", "journalctl -u * --no-pager"};
        host.reads = {"/var/log/**"};
        if (auto const added = (*store)->addHost(host); !added) {
            fmt::print(stderr, "{}\n", added.error().message);
            return 1;
        }
    }
    return 0;
}
