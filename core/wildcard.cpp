#include "core/wildcard.h"

#include <cstddef>

namespace termalin {

bool matchesWildcard(std::string_view pattern, std::string_view text) noexcept
{
    constexpr auto kNone = std::string_view::npos;
    std::size_t p = 0;
    std::size_t t = 0;
    std::size_t star = kNone; // the last kAnyRun passed, and where its run ends so far
    std::size_t runEnd = 0;
    // It is enough to lengthen the last run: an earlier one can be longer only up to the next slash, which
    // bounds the last one as well.
    while (t < text.size() || p < pattern.size()) {
        if (p < pattern.size() && pattern[p] == kAnyRun) {
            star = p++;
            runEnd = t;
        } else if (p < pattern.size() && t < text.size() && pattern[p] == text[t]) {
            ++p;
            ++t;
        } else if (star != kNone && runEnd < text.size() && text[runEnd] != '/') {
            t = ++runEnd;
            p = star + 1;
        } else {
            return false;
        }
    }
    return true;
}

} // namespace termalin
