#include "mcp-stdio/rpc.h"

#include <cmath>
#include <fmt/format.h>
#include <vector>

namespace termalin::mcp::rpc {
namespace {

constexpr std::size_t kMaxValues = 1'000'000;
constexpr std::size_t kMaxDepth = 66; // LineScanner allows less

/// Builds the value and looks at what a plain parser would pass over.
class Builder : public nlohmann::json_sax<Json> {
public:
    explicit Builder(Message& message) : m_message(message) {}

    bool null() override { return put(nullptr) != nullptr; }
    bool boolean(bool value) override { return put(value) != nullptr; }
    bool number_integer(number_integer_t value) override { return put(value) != nullptr; }
    bool number_unsigned(number_unsigned_t value) override { return put(value) != nullptr; }
    bool number_float(number_float_t value, string_t const& text) override
    {
        if (m_isId)
            m_message.idTexts[elementIndex()] = text;
        return put(value) != nullptr;
    }
    bool string(string_t& value) override { return put(std::move(value)) != nullptr; }
    bool binary(binary_t&) override { return false; } // not of JSON texts
    bool start_object(std::size_t) override { return open(Json::object()); }
    bool start_array(std::size_t) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t& name) override
    {
        auto& object = *m_open.back();
        if (object.contains(name)) {
            m_message.problem = Message::Problem::DuplicateKey;
            m_message.duplicate = name;
            return false;
        }
        m_isId = name == "id" && isMessage();
        m_slot = &object[name];
        return true;
    }
    bool parse_error(std::size_t, std::string const&, nlohmann::detail::exception const&) override
    {
        m_message.problem = Message::Problem::NotJson;
        return false;
    }

private:
    /// Whether the open object is the message itself, or one of a batch.
    [[nodiscard]] bool isMessage() const
    {
        return m_open.size() == 1 || (m_open.size() == 2 && m_open.front()->is_array());
    }
    [[nodiscard]] std::size_t elementIndex() const
    {
        return m_open.size() == 2 ? m_open.front()->size() - 1 : 0;
    }
    Json* put(Json value)
    {
        m_isId = false;
        if (++m_count > kMaxValues) {
            m_message.problem = Message::Problem::TooMany;
            return nullptr;
        }
        if (m_open.empty()) {
            m_message.value = std::move(value);
            return &m_message.value;
        }
        if (auto& parent = *m_open.back(); parent.is_array()) {
            parent.push_back(std::move(value));
            return &parent.back();
        }
        *m_slot = std::move(value);
        return m_slot;
    }
    bool open(Json container)
    {
        auto* const place = put(std::move(container));
        if (place == nullptr)
            return false;
        if (m_open.size() >= kMaxDepth) {
            m_message.problem = Message::Problem::TooMany;
            return false;
        }
        m_open.push_back(place);
        return true;
    }
    bool close()
    {
        m_open.pop_back();
        return true;
    }

    Message& m_message;
    std::vector<Json*> m_open;
    Json* m_slot = nullptr;
    bool m_isId = false;
    std::size_t m_count = 0;
};

} // namespace

std::optional<RequestId> RequestId::from(Json const& value, std::string_view text)
{
    if (value.is_string())
        return RequestId{toLine(value), 's' + value.get<std::string>()};
    if (value.is_number_integer())
        return RequestId{value.dump(), 'n' + value.dump()};
    if (!value.is_number_float())
        return std::nullopt;
    auto const number = value.get<double>();
    if (!std::isfinite(number) || std::trunc(number) != number)
        return std::nullopt;
    auto const json = text.empty() ? value.dump() : std::string(text);
    if (std::abs(number) < 0x1p63)
        return RequestId{json, fmt::format("n{}", static_cast<std::int64_t>(number))};
    return RequestId{json, fmt::format("n{:.0f}", number)};
}

std::optional<RequestId> RequestId::fromText(std::string_view text)
{
    auto const value = text.empty() ? std::nullopt : parseJson(text);
    return value ? from(*value, text) : std::nullopt;
}

Message parse(std::string_view text)
{
    Message message;
    Builder builder(message);
    if (!Json::sax_parse(text.begin(), text.end(), &builder) && message.problem == Message::Problem::None)
        message.problem = Message::Problem::NotJson;
    return message;
}

std::string resultLine(std::string_view id, Json const& result)
{
    return resultTextLine(id, toLine(result));
}

std::string resultTextLine(std::string_view id, std::string result)
{
    result.insert(0, fmt::format(R"({{"jsonrpc":"2.0","id":{},"result":)", id.empty() ? "null" : id));
    result += '}';
    return result;
}

std::string errorLine(std::string_view id, int code, std::string_view message, Json const& data)
{
    Json error{{"code", code}, {"message", message}};
    if (!data.is_null())
        error["data"] = data;
    return fmt::format(R"({{"jsonrpc":"2.0","id":{},"error":{}}})", id.empty() ? "null" : id, toLine(error));
}

std::string notificationLine(std::string_view method, Json const& params)
{
    Json message{{"jsonrpc", "2.0"}, {"method", method}};
    if (!params.is_null())
        message["params"] = params;
    return toLine(message);
}

} // namespace termalin::mcp::rpc
