#include "ssh/socks5.h"

#include <arpa/inet.h>
#include <array>
#include <netinet/in.h>

namespace termalin::ssh {

namespace {

constexpr char kVersion = 5, kNoAuthentication = 0, kConnect = 1;
constexpr std::uint8_t kIpv4 = 1, kName = 3, kIpv6 = 4;

std::uint8_t byteOf(char c)
{
    return static_cast<std::uint8_t>(c);
}

} // namespace

std::string Socks5::reply(Answer answer)
{
    // The address that the server's end is bound to is not known, and clients do without.
    return {kVersion, static_cast<char>(answer), 0, static_cast<char>(kIpv4), 0, 0, 0, 0, 0, 0};
}

std::string Socks5::refuse(std::string answer, std::string why)
{
    m_state = State::Refused;
    m_problem = std::move(why);
    m_have.clear();
    m_wants = 0;
    return answer;
}

void Socks5::next(Part part, std::size_t wants)
{
    m_part = part;
    m_have.clear();
    m_wants = wants;
}

std::string Socks5::take(std::string_view bytes)
{
    m_have += bytes.substr(0, wants());
    if (m_state != State::Talking || m_have.size() < m_wants)
        return {};
    switch (m_part) {
    case Part::Methods:
        if (m_have[0] != kVersion)
            return refuse({}, m_have[0] == 4
                                  ? "A client spoke SOCKS version 4; this proxy speaks version 5 only."
                                  : "A client did not speak SOCKS; set it to a SOCKS5 proxy.");
        next(Part::MethodList, byteOf(m_have[1]));
        return m_wants == 0 ? methods() : std::string();
    case Part::MethodList: return methods();
    case Part::Request: return request();
    case Part::NameLength: {
        auto const size = byteOf(m_have[0]);
        if (size == 0)
            return refuse(reply(Answer::GeneralFailure), "A client asked for a host without a name.");
        next(Part::Address, size + 2U);
        return {};
    }
    case Part::Address: return address();
    }
    return {};
}

std::string Socks5::methods()
{
    if (m_have.find(kNoAuthentication) == std::string::npos)
        return refuse({kVersion, '\xff'},
                      "A client insists on a user name and password; this proxy asks for none.");
    next(Part::Request, 4);
    return {kVersion, kNoAuthentication};
}

std::string Socks5::request()
{
    if (m_have[0] != kVersion)
        return refuse(reply(Answer::GeneralFailure), "A client's request was not one of SOCKS version 5.");
    if (m_have[1] != kConnect)
        return refuse(reply(Answer::CommandNotSupported),
                      "A client asked for something else than a connection; only CONNECT is served.");
    m_addressType = byteOf(m_have[3]);
    switch (m_addressType) {
    case kIpv4: next(Part::Address, 4 + 2); return {};
    case kIpv6: next(Part::Address, 16 + 2); return {};
    case kName: next(Part::NameLength, 1); return {};
    default:
        return refuse(reply(Answer::AddressTypeNotSupported), "A client gave an address of an unknown type.");
    }
}

std::string Socks5::address()
{
    auto const size = m_have.size() - 2;
    m_port = static_cast<std::uint16_t>(byteOf(m_have[size]) << 8U | byteOf(m_have[size + 1]));
    if (m_addressType == kName) {
        m_host = m_have.substr(0, size);
        for (char const c : m_host)
            if (byteOf(c) <= 0x20 || byteOf(c) == 0x7f)
                return refuse(reply(Answer::GeneralFailure),
                              "A client asked for a host name with a blank in it.");
    } else {
        std::array<char, INET6_ADDRSTRLEN> text{};
        ::inet_ntop(m_addressType == kIpv4 ? AF_INET : AF_INET6, m_have.data(), text.data(), text.size());
        m_host = text.data();
    }
    if (m_port == 0)
        return refuse(reply(Answer::GeneralFailure), "A client asked for port 0.");
    m_state = State::Asked;
    next(m_part, 0);
    return {};
}

} // namespace termalin::ssh
