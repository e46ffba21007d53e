#pragma once

#include <cstddef>

namespace termalin {

/// Lets this process keep up to 8 MiB of freed memory in each arena instead of giving it back to the kernel
/// at every 128 KiB (mallopt(3)). Each page that goes and comes again costs a fault: a packet is a block of
/// up to 35,000 bytes that lives for a moment, and it was a tenth of a tunnel's throughput. For main(),
/// before there is a second thread.
void keepFreedMemory() noexcept;

/// Asks the kernel for large pages where the block holds whole ones (madvise(2), MADV_HUGEPAGE): for
/// megabytes that will be written from end to end at once, which then cost few faults. It is a wish, and no
/// error where it is refused.
void preferLargePages(void* block, std::size_t bytes) noexcept;

} // namespace termalin
