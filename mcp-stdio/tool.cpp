#include "mcp-stdio/tool.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace termalin::mcp {
namespace {

/// U+0000 can be in no command line, path or name, and would cut them short in C.
constexpr std::string_view kContentArgument = "content";

/// Code points, which is what JSON Schema counts.
std::int64_t characters(std::string_view utf8)
{
    return std::ranges::count_if(utf8,
                                 [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

/// A value as it stands in a message: short, on one line.
std::string shown(Json const& value)
{
    constexpr std::size_t limit = 60;
    if (value.is_structured())
        return value.is_array() ? "a list" : "an object";
    if (value.is_string() && value.get_ref<std::string const&>().size() > limit)
        return "a long string";
    return value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

/// Whole numbers in any spelling JSON has for them, held within 64 bits.
std::optional<std::int64_t> whole(Json const& value)
{
    constexpr auto max = std::numeric_limits<std::int64_t>::max();
    if (value.is_number_unsigned())
        return static_cast<std::int64_t>(std::min<std::uint64_t>(value.get<std::uint64_t>(), max));
    if (value.is_number_integer())
        return value.get<std::int64_t>();
    if (!value.is_number_float())
        return std::nullopt;
    auto const number = value.get<double>();
    if (!std::isfinite(number) || std::trunc(number) != number)
        return std::nullopt;
    if (number >= 0x1p63)
        return max;
    if (number <= -0x1p63)
        return std::numeric_limits<std::int64_t>::min();
    return static_cast<std::int64_t>(number);
}

bool within(std::optional<Limits> const& limits, std::int64_t value)
{
    return !limits || (value >= limits->min && value <= limits->max);
}

bool isText(ArgSpec const& spec, Json const& value)
{
    return value.is_string() && (spec.name == kContentArgument ||
                                 value.get_ref<std::string const&>().find('\0') == std::string::npos);
}

/// The value as handlers get it, or nothing if it is not allowed.
std::optional<Json> accept(ArgSpec const& spec, Json const& value)
{
    switch (spec.kind) {
    case ArgSpec::Kind::String:
        if (isText(spec, value) && within(spec.limits, characters(value.get_ref<std::string const&>())))
            return value;
        return std::nullopt;
    case ArgSpec::Kind::Integer:
        if (auto const number = whole(value); number && within(spec.limits, *number))
            return Json(*number);
        return std::nullopt;
    case ArgSpec::Kind::Flag: return value.is_boolean() ? std::optional(value) : std::nullopt;
    case ArgSpec::Kind::Strings:
        if (value.is_array() && within(spec.limits, static_cast<std::int64_t>(value.size())) &&
            std::ranges::all_of(value, [&](Json const& item) { return isText(spec, item); }))
            return value;
        return std::nullopt;
    case ArgSpec::Kind::OneOf:
        if (value.is_string() &&
            std::ranges::find(spec.words, value.get_ref<std::string const&>()) != spec.words.end())
            return value;
        return std::nullopt;
    }
    return std::nullopt;
}

std::string wrong(ArgSpec const& spec, Json const& value)
{
    auto text = fmt::format("{} must be {}, not {}", spec.name, spec.allowed(), shown(value));
    if (value.is_null() && !spec.required)
        text += "; leave it out instead";
    return text + '.';
}

std::string takes(Tool const& tool)
{
    if (tool.args.empty())
        return "takes no arguments";
    std::string text = "takes ";
    for (auto const& spec : tool.args)
        text += fmt::format("{}{}{}", &spec == tool.args.data() ? "" : ", ", spec.name,
                            spec.required ? "" : " (optional)");
    return text;
}

} // namespace

Json ArgSpec::schema() const
{
    Json result = Json::object();
    auto const limit = [&](char const* low, char const* high) {
        if (limits)
            result.update({{low, limits->min}, {high, limits->max}});
    };
    switch (kind) {
    case Kind::String:
        result["type"] = "string"; // its limits are left to validate(): they would double the list
        break;
    case Kind::Integer:
        result["type"] = "integer";
        limit("minimum", "maximum");
        break;
    case Kind::Flag: result["type"] = "boolean"; break;
    case Kind::Strings:
        result.update({{"type", "array"}, {"items", {{"type", "string"}}}});
        limit("minItems", "maxItems");
        break;
    case Kind::OneOf: result.update({{"type", "string"}, {"enum", words}}); break;
    }
    if (!meaning.empty())
        result["description"] = meaning;
    if (!fallback.is_null())
        result["default"] = fallback;
    return result;
}

std::string ArgSpec::allowed() const
{
    switch (kind) {
    case Kind::String:
        return limits
                   ? fmt::format("a string of {} to {} characters without U+0000", limits->min, limits->max)
                   : "a string";
    case Kind::Integer:
        return limits ? fmt::format("a whole number from {} to {}", limits->min, limits->max)
                      : "a whole number";
    case Kind::Flag: return "true or false";
    case Kind::Strings:
        return limits ? fmt::format("a list of {} to {} strings", limits->min, limits->max)
                      : "a list of strings";
    case Kind::OneOf: {
        std::string text;
        for (auto const& word : words)
            text += fmt::format("{}\"{}\"", text.empty() ? "" : " or ", word);
        return text;
    }
    }
    return {};
}

Json const& Args::raw(std::string_view name) const
{
    static Json const none;
    auto const it = m_values.find(name);
    return it == m_values.end() ? none : *it;
}

Json Tool::inputSchema() const
{
    Json schema{{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
    for (auto const& arg : args) {
        schema["properties"][arg.name] = arg.schema();
        if (arg.required)
            schema["required"].push_back(arg.name);
    }
    return schema;
}

Json Tool::listing(Effect shown) const
{
    Json annotations{{"readOnlyHint", shown == Effect::ReadOnly}};
    if (gate == Gate::Open)
        annotations["openWorldHint"] = false; // true is MCP's default
    if (shown != Effect::ReadOnly)            // the two hints mean something only then
        annotations["destructiveHint"] = shown == Effect::Destructive;
    Json entry{{"name", name},
               {"title", title},
               {"description", description},
               {"inputSchema", inputSchema()},
               {"outputSchema", outputSchema},
               {"annotations", std::move(annotations)}};
    if (maxResultChars > 0)
        entry["_meta"] = {{"anthropic/maxResultSizeChars", maxResultChars}};
    return entry;
}

Result<Args> validate(Tool const& tool, Json const& arguments)
{
    if (!arguments.is_object())
        return fail(Errc::InvalidArgument,
                    fmt::format("The arguments of {} must be an object; it {}.", tool.name, takes(tool)));
    Json values = Json::object();
    std::string problems;
    auto const report = [&](std::string const& problem) {
        if (problems.size() < 1000) // enough to mend the call
            problems += (problems.empty() ? "" : " ") + problem;
    };
    for (auto const& spec : tool.args) {
        auto const it = arguments.find(spec.name);
        if (it == arguments.end()) {
            if (spec.required)
                report(fmt::format("{} is missing; it must be {}.", spec.name, spec.allowed()));
        } else if (auto accepted = accept(spec, *it); accepted) {
            values[spec.name] = *std::move(accepted);
        } else {
            report(wrong(spec, *it));
        }
    }
    for (auto const& [name, ignored] : arguments.items())
        if (std::ranges::find(tool.args, name, &ArgSpec::name) == tool.args.end())
            report(fmt::format("There is no argument {}; {} {}.", shown(name), tool.name, takes(tool)));
    if (!problems.empty())
        return fail(Errc::InvalidArgument, std::move(problems));
    return Args(std::move(values));
}

namespace {

std::string failedResult(Error const& error)
{
    auto text = fmt::format("{}: {}", toString(error.code), error.message);
    if (!error.source.empty())
        text += fmt::format(" [{}]", error.source);
    return toLine({{"content", {{{"type", "text"}, {"text", std::move(text)}}}},
                   {"isError", true},
                   {"_meta", {{"code", toString(error.code)}, {"retryable", isRetryable(error)}}}});
}

} // namespace

std::string toolResult(Result<std::string> outcome)
{
    if (!outcome)
        return failedResult(outcome.error());
    // A long one stays where it is, and the rest is written behind it: memory that nobody has touched before
    // costs more than the bytes.
    auto text = *std::move(outcome);
    auto const length = text.size();
    text += R"(,"content":[{"type":"text","text":)";
    appendJsonString(text, std::string_view(text).substr(0, length));
    text += "}]}";
    text.insert(0, R"({"structuredContent":)");
    return text;
}

} // namespace termalin::mcp
