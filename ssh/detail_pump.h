#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/unique_fd.h"
#include "ssh/channel.h"
#include "ssh/detail_task.h"

namespace termalin::ssh {

/// What a Pump tells of its life. All on the connection's thread.
struct PumpEvents {
    std::function<void()> onOpened;
    /// Once, when it is over; an error only if the channel could not be opened or broke. May be empty.
    std::function<void(std::optional<Error> const&)> onEnded;
    /// Bytes passed on, from the server and to it. May be empty.
    std::function<void(std::uint64_t fromServer, std::uint64_t toServer)> onBytes;
    /// Asked at each step: true ends it at once. May be empty.
    std::function<bool()> stopped;
};

/// Opens a direct-tcpip channel and passes bytes between it and a descriptor, each way only as fast as the
/// other side takes them; an end of input on one side is passed on alone (half-close). Ends when both ways
/// have ended or one broke, and closes the descriptor then.
class Pump final : public Task {
public:
    /// `stream`: a connected stream socket; made non-blocking.
    Pump(UniqueFd stream, std::string host, std::uint16_t port, PumpEvents events);
    ~Pump() override;

    bool step(Session& session) override;
    void ended(Error const& why) override;
    [[nodiscard]] Deadline wakeAt() const override;
    void polls(std::vector<pollfd>& out) const override;
    [[nodiscard]] bool minds() const override { return true; }

private:
    struct Buffer {
        std::vector<char> bytes; ///< start..end wait to be passed on
        std::size_t start = 0, end = 0;
        bool ended = false;    ///< nothing more comes in
        bool passedOn = false; ///< and the other side has been told
        [[nodiscard]] bool empty() const { return start == end; }
        [[nodiscard]] char const* data() const { return bytes.data() + start; }
        [[nodiscard]] std::size_t size() const { return end - start; }
        void hold(std::size_t count)
        {
            start = 0;
            end = count;
        }
    };
    bool finish(std::optional<Error> const& why);
    bool toServer();
    bool toStream();
    void fillFromStream();

    UniqueFd m_stream;
    std::string m_host;
    std::uint16_t m_port;
    PumpEvents m_events;
    std::optional<Channel> m_channel;
    Buffer m_up, m_down;
    std::optional<Deadline::Clock::time_point> m_asked; ///< when the channel was first asked for
    bool m_broken = false;
    bool m_more = false; ///< it could go on at once
    bool m_over = false;
};

} // namespace termalin::ssh
