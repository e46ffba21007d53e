#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "mcp-stdio/call.h"

namespace termalin::mcp {

/// Inclusive limits: of a number's value, of a string's length in characters, of a list's length.
struct Limits {
    std::int64_t min = 0;
    std::int64_t max = 0;
};

/// The value of an argument that is one of a few words.
struct OneOf {
    std::string value;
    friend bool operator==(OneOf const& a, std::string_view b) { return a.value == b; }
};

using StringList = std::vector<std::string>;

/// One argument of a tool. Name, type, meaning, default and limits are said here and nowhere else: the
/// schema, the validation, the documentation and the handler all read this object.
///
/// T: std::string, std::int64_t, bool, StringList or OneOf; or std::optional of one of them for an argument
/// that may be left out and has no default. A string takes any text but U+0000.
template <class T>
struct Arg {
    std::string_view name;
    std::string_view meaning;            ///< May be empty where the tool's description has said it.
    std::optional<T> fallback = {};      ///< Empty: the argument is required, unless T is an optional.
    std::optional<Limits> limits = {};   ///< A number without limits is clamped to 64 bits.
    std::vector<std::string> words = {}; ///< The allowed ones, for OneOf.
};

/// An Arg without its C++ type, as a Tool lists it.
struct ArgSpec {
    enum class Kind : std::uint8_t { String, Integer, Flag, Strings, OneOf };

    std::string name;
    std::string meaning;
    Kind kind = Kind::String;
    bool required = true;
    Json fallback; ///< null: none
    std::optional<Limits> limits;
    std::vector<std::string> words;

    template <class T>
    ArgSpec(Arg<T> const& arg); // NOLINT(google-explicit-constructor): lets a Tool list its Args plainly

    [[nodiscard]] Json schema() const;
    /// What is allowed, as the end of a sentence: "a whole number from 1 to 3600".
    [[nodiscard]] std::string allowed() const;
};

/// The arguments of one call, already validated and made plain (60.0 has become 60).
class Args {
public:
    Args() : m_values(Json::object()) {}
    explicit Args(Json values) : m_values(std::move(values)) {}

    template <class T>
    [[nodiscard]] T operator[](Arg<T> const& arg) const;

    /// The value by name, or null: for code that looks at any tool's calls (gates, audit, forwarding).
    [[nodiscard]] Json const& raw(std::string_view name) const;
    [[nodiscard]] Json const& all() const noexcept { return m_values; }

private:
    Json m_values;
};

/// What a call may do; becomes MCP's hints. Zero is the strictest.
enum class Effect : std::uint8_t { Destructive, Additive, ReadOnly };

/// Where a tool can run. termalin-mcp hands calls that need the app to the running app.
enum class Needs : std::uint8_t { App, Nothing };

/// What a person must have allowed. It is asked before any handler runs, so that no handler can forget. Zero
/// is Never: a row that forgets its gate cannot run.
enum class Gate : std::uint8_t {
    Never,
    Open,
    HostPolicy,      ///< The host is not blocked; on an allowlist host the command or path must be admitted.
    FullAccessHost,  ///< The host has full access.
    AgentInTerminal, ///< "Agent in Terminal" is on.
    AgentMayRun,     ///< "Let agents run commands" too.
    DataGrant,       ///< The connection grants access.
};

/// One row of the tool table; see tools/table.cpp.
struct Tool {
    std::string name;
    std::string title;
    std::string description;
    Effect effect{};
    Needs needs{};
    Gate gate{};
    std::vector<ArgSpec> args = {};
    Json outputSchema = {};
    /// Handlers return what outputSchema describes, or an Error. Called on the call's own thread.
    std::function<Result<Json>(Args const&, Call const&)> run = {};
    /// In place of `run`, for a result of very many rows: gives the same as JSON text, because building it as
    /// a value first would take most of the call.
    std::function<Result<std::string>(Args const&, Call const&)> runText = {};
    /// How long the text of a result may get before a client that knows the hint cuts it; 0: no hint.
    std::int64_t maxResultChars = 0;
    /// The effect at this moment where it depends on what the person has granted; empty: `effect`.
    std::function<Effect(Services const&)> effectNow = {};

    [[nodiscard]] Json inputSchema() const;
    /// The entry of this tool in a tools/list reply, with `shown` as its effect.
    [[nodiscard]] Json listing(Effect shown) const;
    [[nodiscard]] Effect currentEffect(Services const& services) const
    {
        return effectNow ? effectNow(services) : effect;
    }
};

/// Checks the arguments of a call against the row's own. Errors: InvalidArgument; the message names each
/// argument that is wrong, missing or unknown, and what is allowed.
[[nodiscard]] Result<Args> validate(Tool const& tool, Json const& arguments);

/// A successful or failed call as the JSON text of MCP's CallToolResult, from what the handler gave as JSON
/// text: structuredContent and one text that parses to the same; or `<code>: <sentence>` with isError and
/// `_meta {code, retryable}`.
[[nodiscard]] std::string toolResult(Result<std::string> outcome);

// -- template implementation ------------------------------------------------------------------

namespace detail {

template <class T>
struct Optional : std::false_type {
    using Value = T;
};
template <class T>
struct Optional<std::optional<T>> : std::true_type {
    using Value = T;
};

template <class T>
[[nodiscard]] Json toJson(T const& value)
{
    if constexpr (std::same_as<T, OneOf>)
        return value.value;
    else
        return Json(value);
}

template <class T>
[[nodiscard]] T fromJson(Json const& value)
{
    if constexpr (std::same_as<T, OneOf>)
        return OneOf{value.get<std::string>()};
    else
        return value.get<T>();
}

template <class T>
[[nodiscard]] constexpr ArgSpec::Kind kindOf()
{
    if constexpr (std::same_as<T, std::string>)
        return ArgSpec::Kind::String;
    else if constexpr (std::same_as<T, std::int64_t>)
        return ArgSpec::Kind::Integer;
    else if constexpr (std::same_as<T, bool>)
        return ArgSpec::Kind::Flag;
    else if constexpr (std::same_as<T, StringList>)
        return ArgSpec::Kind::Strings;
    else {
        static_assert(std::same_as<T, OneOf>, "an Arg has one of the types that its comment lists");
        return ArgSpec::Kind::OneOf;
    }
}

} // namespace detail

template <class T>
ArgSpec::ArgSpec(Arg<T> const& arg)
    : name(arg.name)
    , meaning(arg.meaning)
    , kind(detail::kindOf<typename detail::Optional<T>::Value>())
    , required(!arg.fallback && !detail::Optional<T>::value)
    , limits(arg.limits)
    , words(arg.words)
{
    if constexpr (!detail::Optional<T>::value)
        if (arg.fallback)
            fallback = detail::toJson(*arg.fallback);
}

template <class T>
T Args::operator[](Arg<T> const& arg) const
{
    auto const& value = raw(arg.name);
    if constexpr (detail::Optional<T>::value) {
        if (value.is_null())
            return std::nullopt;
        return detail::fromJson<typename detail::Optional<T>::Value>(value);
    } else {
        return value.is_null() ? arg.fallback.value() : detail::fromJson<T>(value);
    }
}

} // namespace termalin::mcp
