#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "core/result.h"

namespace termalin::mcp {

/// Lets at most `kMost` logins to one host go on at a time; the rest wait within their deadlines.
class Handshakes {
public:
    static constexpr int kMost = 8;

    class Slot {
    public:
        Slot(Slot&& other) noexcept : m_in(std::exchange(other.m_in, nullptr)), m_ids(std::move(other.m_ids))
        {
        }
        Slot& operator=(Slot&&) = delete;
        Slot(Slot const&) = delete;
        Slot& operator=(Slot const&) = delete;
        ~Slot();

    private:
        friend class Handshakes;
        Slot(Handshakes* in, std::vector<std::string> ids) : m_in(in), m_ids(std::move(ids)) {}
        Handshakes* m_in;
        std::vector<std::string> m_ids;
    };

    /// One of each host's places, all at once, so that two routes through the same jump hosts cannot wait for
    /// each other. Errors: Timeout, Cancelled; nothing was sent.
    Result<Slot> enter(std::vector<std::string> hostIds, Deadline deadline, std::stop_token const& stop);

private:
    std::mutex m_mutex;
    std::condition_variable_any m_fewer;
    std::map<std::string, int> m_busy; ///< guarded by m_mutex
};

} // namespace termalin::mcp
