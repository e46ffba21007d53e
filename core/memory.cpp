#include "core/memory.h"

#include <malloc.h>
#include <memory>
#include <sys/mman.h>

namespace termalin {
namespace {

constexpr std::size_t kLargePage = 2U << 20U; ///< of x86-64 and of arm64 with pages of 4 KiB

} // namespace

void keepFreedMemory() noexcept
{
#ifdef __GLIBC__
    // NOLINTBEGIN(concurrency-mt-unsafe): see the declaration
    ::mallopt(M_TRIM_THRESHOLD, 8 << 20);
    ::mallopt(M_MMAP_THRESHOLD, 4 << 20); // from there on a block has pages of its own
    // NOLINTEND(concurrency-mt-unsafe)
#endif
}

void preferLargePages(void* block, std::size_t bytes) noexcept
{
    auto* const first = std::align(kLargePage, kLargePage, block, bytes);
    if (first != nullptr)
        (void)::madvise(first, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
}

} // namespace termalin
