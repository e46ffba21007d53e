#include "ssh/detail_kexinit.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/output_buffer.h"

namespace termalin::ssh {
namespace {

std::optional<std::uint32_t> number(std::string_view bytes, std::size_t at)
{
    if (at + 4 > bytes.size())
        return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
        value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
    return value;
}

std::vector<std::string_view> split(std::string_view list)
{
    std::vector<std::string_view> names;
    while (!list.empty()) {
        auto const comma = std::min(list.find(','), list.size());
        names.push_back(list.substr(0, comma));
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return names;
}

} // namespace

std::optional<std::size_t> findVersionLine(std::string_view bytes)
{
    for (std::size_t start = 0; start < bytes.size();) {
        auto const end = bytes.find('\n', start);
        if (bytes.substr(start).starts_with("SSH-"))
            return end == std::string_view::npos ? bytes.size() : end + 1;
        if (end == std::string_view::npos)
            break;
        start = end + 1;
    }
    return std::nullopt;
}

std::optional<KexLists> parseKexInit(std::string_view bytes)
{
    auto const start = findVersionLine(bytes);
    if (!start)
        return std::nullopt;
    // uint32 length, byte padding, byte SSH_MSG_KEXINIT (20), 16 bytes cookie, name lists
    auto const packet = bytes.substr(*start);
    if (packet.size() < 22 || packet[5] != 20)
        return std::nullopt;
    KexLists lists;
    std::size_t at = 22;
    for (auto& list : lists) {
        auto const size = number(packet, at);
        if (!size || *size > packet.size() - at - 4)
            return std::nullopt;
        list = packet.substr(at + 4, *size);
        at += 4 + *size;
    }
    return lists;
}

std::string explainKexInit(KexLists const& theirs, KexLists const& ours)
{
    static constexpr std::array kWhat{"key exchange",           "host key",
                                      "cipher (to the server)", "cipher (to us)",
                                      "MAC (to the server)",    "MAC (to us)"};
    std::string text;
    for (std::size_t i = 0; i < theirs.size(); ++i) {
        auto const offered = split(theirs[i]);
        auto const common = std::ranges::any_of(split(ours[i]), [&](std::string_view name) {
            return std::ranges::find(offered, name) != offered.end();
        });
        if (!common)
            text += " No " + std::string(kWhat[i]) + " algorithm in common: the server offers " +
                    visible(theirs[i]) + "; this program offers " + ours[i] + ".";
    }
    if (!text.empty())
        text += " Enable one of them on the server (sshd_config(5)).";
    return text;
}

} // namespace termalin::ssh
