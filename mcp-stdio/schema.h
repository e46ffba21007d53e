#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "core/json.h"

/// The few words of JSON Schema that results are described with.
namespace termalin::mcp::schema {

[[nodiscard]] inline Json text()
{
    return {{"type", "string"}};
}
[[nodiscard]] inline Json integer()
{
    return {{"type", "integer"}};
}
[[nodiscard]] inline Json flag()
{
    return {{"type", "boolean"}};
}
[[nodiscard]] inline Json oneOf(std::initializer_list<std::string_view> words)
{
    return {{"type", "string"}, {"enum", Json(words)}};
}
/// Which fields of an object in a list may be missing is not said: the list of tools is paid for in every
/// conversation.
[[nodiscard]] inline Json list(Json items)
{
    items.erase("required");
    return {{"type", "array"}, {"items", std::move(items)}};
}

/// An object with these fields. A name that ends in '?' is a field that may be missing.
[[nodiscard]] inline Json object(std::initializer_list<std::pair<std::string_view, Json>> fields)
{
    Json result{{"type", "object"}, {"properties", Json::object()}};
    for (auto const& [name, schema] : fields) {
        auto const optional = name.ends_with('?');
        auto const plain = std::string(optional ? name.substr(0, name.size() - 1) : name);
        result["properties"][plain] = schema;
        if (!optional)
            result["required"].push_back(plain);
    }
    return result;
}

/// `object` with further fields, as object() takes them.
[[nodiscard]] inline Json extended(Json object,
                                   std::initializer_list<std::pair<std::string_view, Json>> fields)
{
    auto const more = schema::object(fields);
    object["properties"].update(more["properties"]);
    if (auto const it = more.find("required"); it != more.end())
        for (auto const& name : *it)
            object["required"].push_back(name);
    return object;
}

} // namespace termalin::mcp::schema
