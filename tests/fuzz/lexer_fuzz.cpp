#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/command_policy.h"
#include "core/output_buffer.h"

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
    if (auto const words = splitCommand(text)) {
        auto const quoted = quoteWords(*words);
        if (quoted.size() <= 8192) {
            auto const again = splitCommand(quoted);
            mustHold(again && *again == *words);
            // A command quoted again is a rule that admits it and nothing else.
            auto const rule = CommandRule::parse(quoted);
            mustHold(rule && rule->matches(*words));
            auto more = *words;
            more.emplace_back("x");
            mustHold(!rule->matches(more));
        }
        mustHold(visible(text) == text || text.contains('\t'));
    } else {
        bool lossy = false;
        mustHold(toUtf8(words.error().message, &lossy) == words.error().message && !lossy);
        mustHold(visible(words.error().message) == words.error().message);
    }
    if (auto const rule = CommandRule::parse(text))
        for (auto const& warning : rule->warnings())
            mustHold(visible(warning) == warning || text.contains('\t'));
    return 0;
}
