#include "tests/support/process.h"

#include <atomic>
#include <random>
#include <sstream>
#include <thread>
#include <unistd.h>

#include "tests/support/program.h"

namespace termalin::test {

std::vector<pid_t> processesWith(std::string_view marker)
{
    std::vector<pid_t> found;
    std::istringstream lines(run({"ps", "-ww", "-eo", "pid=,stat=,args="}).out);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        pid_t pid = 0;
        std::string state;
        words >> pid >> state;
        if (!state.starts_with('Z') && line.find(marker) != std::string::npos)
            found.push_back(pid);
    }
    return found;
}

std::string uniqueSeconds()
{
    static std::atomic<unsigned> next{std::random_device{}() % 100'000};
    return "3" + std::to_string(::getpid()) + std::to_string(next++) + ".25";
}

bool eventually(std::function<bool()> const& condition, std::chrono::milliseconds limit)
{
    auto const until = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= until)
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(10)); // between two looks, not for a time
    }
    return true;
}

} // namespace termalin::test
