// Whatever a server sends, the codec answers without reading beyond it, and in memory in proportion to it.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ssh/sftp_codec.h"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
    using namespace termalin::ssh::sftp;
    std::string_view const bytes(reinterpret_cast<char const*>(data), size);
    if (auto const reply = parseReply(bytes)) {
        if (auto const* const names = std::get_if<NameReply>(&reply->body)) {
            std::size_t total = 0;
            for (auto const& entry : *names) {
                total += entry.name.size() + entry.longName.size();
                static_cast<void>(ownerAndGroup(entry.longName));
                static_cast<void>(entry.attributes.kind());
            }
            if (total > size)
                std::abort();
        }
        if (auto const* const content = std::get_if<DataReply>(&reply->body);
            content && content->bytes.size() > size)
            std::abort();
    }
    static_cast<void>(parseVersion(bytes));
    static_cast<void>(parseLimits(bytes));
    static_cast<void>(parseSpace(bytes));
    static_cast<void>(ownerAndGroup(bytes));
    return 0;
}
