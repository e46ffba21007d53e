// The other process in the tests of the store and the audit: does one thing, says each step that was
// confirmed on stdout, and is killed or ends by itself.

#include <csignal>
#include <cstdlib>
#include <grp.h>
#include <iostream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "core/audit.h"
#include "core/store.h"

namespace {

using namespace termalin; // NOLINT(google-build-using-namespace): a program of one file

void say(std::string const& line)
{
    auto const whole = line + "\n";
    if (::write(STDOUT_FILENO, whole.data(), whole.size()) < 0)
        std::_Exit(3);
}

int fault(Error const& error)
{
    say("error " + std::string(toString(error.code)) + " " + error.message + " [" + error.source + "]");
    return 1;
}

Host hostNamed(std::string const& name)
{
    Host host;
    host.name = name;
    host.hostname = "server.example";
    host.notes = std::string(2000, 'n');
    return host;
}

/// Adds hosts named PREFIX-0, PREFIX-1, ... and says each name; `most` of them, or until something fails.
int addHosts(Store& store, std::string const& prefix, int most)
{
    for (int i = 0; i < most; ++i) {
        auto const name = prefix + "-" + std::to_string(i);
        if (auto const added = store.addHost(hostNamed(name)); !added)
            return fault(added.error());
        say(name);
    }
    return 0;
}

int writeAudit(Store& store, std::string const& file, std::string const& client, int most,
               std::int64_t rotateAt)
{
    auto audit = Audit::open(file, store, rotateAt);
    if (!audit)
        return fault(audit.error());
    for (int i = 0; i < most; ++i) {
        AuditCall call;
        call.client = client;
        call.tool = "ssh_exec";
        call.subject = "command " + std::to_string(i);
        auto const number = (*audit)->begin(call);
        if (!number)
            return fault(number.error());
        say(std::to_string(*number));
        if (auto const ended = (*audit)->end(*number, {}); !ended)
            return fault(ended.error());
    }
    return 0;
}

/// From now on no file may grow beyond this, as if the disk were full.
void limitFiles(rlim_t bytes)
{
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit const limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
}

void becomeNobody()
{
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setresgid(kNobody, kNobody, kNobody) != 0 ||
                             ::setresuid(kNobody, kNobody, kNobody) != 0))
        std::_Exit(4);
}

} // namespace

int main(int argc, char** argv)
{
    std::vector<std::string> const words(argv + 1, argv + argc);
    auto const& what = words.at(0);
    auto const& file = words.at(1);
    if (what == "open-as-nobody")
        becomeNobody();
    auto store = Store::open(file);
    if (!store)
        return fault(store.error());
    if (what == "add-hosts")
        return addHosts(**store, words.at(2), std::stoi(words.at(3)));
    if (what == "fill") {
        limitFiles(std::stoul(words.at(2)));
        return addHosts(**store, "fill", 1'000'000);
    }
    if (what == "audit")
        return writeAudit(**store, words.at(2), words.at(3), std::stoi(words.at(4)), std::stoll(words.at(5)));
    if (what == "fill-audit") {
        limitFiles(std::stoul(words.at(3)));
        return writeAudit(**store, words.at(2), "fill", 1'000'000, 1LL << 40);
    }
    say("opened");
    return 0;
}
