#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace termalin::ssh {

/// The server's side of SOCKS version 5 (RFC 1928) up to the point where a connection is to be made: no
/// authentication, CONNECT only. Pure; a client can make it hold 262 bytes at most.
class Socks5 {
public:
    enum class State : std::uint8_t {
        Talking,
        Asked,   ///< host() and port() say where to; answer with reply().
        Refused, ///< Send what take() gave, then close.
    };
    /// RFC 1928, section 6.
    enum class Answer : std::uint8_t {
        Succeeded = 0,
        GeneralFailure = 1,
        NotAllowed = 2,
        NetworkUnreachable = 3,
        HostUnreachable = 4,
        ConnectionRefused = 5,
        TtlExpired = 6,
        CommandNotSupported = 7,
        AddressTypeNotSupported = 8,
    };

    /// How many bytes to read next at most, so that none of what follows the request is taken. 0 unless
    /// Talking.
    [[nodiscard]] std::size_t wants() const noexcept { return m_wants - m_have.size(); }
    /// Takes at most wants() bytes and gives what to send; often nothing.
    std::string take(std::string_view bytes);

    [[nodiscard]] State state() const noexcept { return m_state; }
    [[nodiscard]] std::string const& host() const noexcept
    {
        return m_host;
    } ///< A name, or a numeric address.
    [[nodiscard]] std::uint16_t port() const noexcept { return m_port; }
    [[nodiscard]] std::string const& problem() const noexcept { return m_problem; } ///< Why Refused.

    static std::string reply(Answer answer);

private:
    enum class Part : std::uint8_t { Methods, MethodList, Request, NameLength, Address };
    std::string refuse(std::string answer, std::string why);
    std::string methods();
    std::string request();
    std::string address();
    void next(Part part, std::size_t wants);

    State m_state = State::Talking;
    Part m_part = Part::Methods;
    std::string m_have; ///< of the part
    std::size_t m_wants = 2;
    std::uint8_t m_addressType = 0;
    std::string m_host;
    std::uint16_t m_port = 0;
    std::string m_problem;
};

} // namespace termalin::ssh
