#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"

/// JSON-RPC 2.0 as MCP uses it, as pure code.
namespace termalin::mcp::rpc {

inline constexpr int kParseError = -32700;
inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kToolFailed = -32000; ///< Methods of ours; `data` holds code and retryable.

/// The id of a request: a string or a whole number (MCP, basic/index, "Requests").
struct RequestId {
    std::string json; ///< As it is echoed: the client's own text for numbers that no machine type holds.
    std::string key;  ///< Equal for ids that are equal: 1 and 1.0, but not "1".

    /// Empty if `value` can be no id. `text`: its JSON text, if it is known.
    static std::optional<RequestId> from(Json const& value, std::string_view text = {});
    /// From a JSON text; empty unless it is an id.
    static std::optional<RequestId> fromText(std::string_view text);
};

/// What a line holds.
struct Message {
    enum class Problem : std::uint8_t { None, NotJson, DuplicateKey, TooMany };
    Problem problem = Problem::None;
    Json value;
    /// The texts of "id" values that are floating-point numbers, by their place in a batch (0 without one).
    std::map<std::size_t, std::string> idTexts;
    std::string duplicate; ///< The key, for DuplicateKey.
};

/// Parses one line, which LineScanner has bounded. An object with the same key twice is refused, since two
/// readers could understand it differently; so is one with more than a million values.
[[nodiscard]] Message parse(std::string_view text);

/// Whole reply lines, without a newline. `id` is JSON text; empty: null.
[[nodiscard]] std::string resultLine(std::string_view id, Json const& result);
/// The same for a result that is JSON text.
[[nodiscard]] std::string resultTextLine(std::string_view id, std::string result);
[[nodiscard]] std::string errorLine(std::string_view id, int code, std::string_view message,
                                    Json const& data = nullptr);
[[nodiscard]] std::string notificationLine(std::string_view method, Json const& params);

} // namespace termalin::mcp::rpc
