#include "mcp-stdio/docs.h"

#include <algorithm>
#include <fmt/format.h>

namespace termalin::mcp {
namespace {

std::string_view effectText(Tool const& tool)
{
    if (tool.effectNow)
        return "Reads; changes where a connection grants writes";
    return tool.effect == Effect::ReadOnly ? "Reads" : "Changes";
}

std::string_view gateText(Gate gate)
{
    switch (gate) {
    case Gate::Never: return "never runs";
    case Gate::Open: return "nothing";
    case Gate::HostPolicy: return "the host's policy; on an allowlist host a rule or readable path";
    case Gate::FullAccessHost: return "a host with full access";
    case Gate::AgentInTerminal: return "\"Agent in Terminal\"";
    case Gate::AgentMayRun:
        return R"("Agent in Terminal" and "Let agents run commands", and the host's policy)";
    case Gate::DataGrant: return "access granted to the connection";
    }
    return "";
}

std::string argumentLine(ArgSpec const& spec)
{
    auto line = fmt::format("- `{}`: {}", spec.name, spec.allowed());
    if (!spec.meaning.empty())
        line += fmt::format(". {}", spec.meaning);
    if (!spec.fallback.is_null())
        line += fmt::format(". Default: `{}`", toLine(spec.fallback));
    else if (!spec.required)
        line += ". Optional";
    return line + ".\n";
}

/// A schema as one reads it: `{name text, port integer}`, lists as `[...]`.
std::string shape(Json const& schema)
{
    auto const type = schema.value("type", std::string("any"));
    if (auto const it = schema.find("enum"); it != schema.end()) {
        std::string words;
        for (auto const& word : *it)
            words += fmt::format("{}`{}`", words.empty() ? "" : " or ", word.get<std::string>());
        return words;
    }
    if (type == "array")
        return schema.contains("items") ? "list of " + shape(schema["items"]) : "list";
    if (type != "object" || !schema.contains("properties"))
        return type;
    std::string fields;
    for (auto const& [name, field] : schema["properties"].items())
        fields += fmt::format("{}`{}` {}", fields.empty() ? "" : ", ", name, shape(field));
    return '(' + fields + ')';
}

std::string resultLines(Json const& schema)
{
    std::string lines;
    auto const required = schema.value("required", Json::array());
    for (auto const& [name, field] : schema["properties"].items())
        lines +=
            fmt::format("- `{}`: {}{}\n", name, shape(field),
                        std::ranges::find(required, Json(name)) == required.end() ? ". May be missing" : "");
    return lines;
}

} // namespace

std::string toolsAsMarkdown(std::span<Tool const> tools)
{
    std::string text = fmt::format("# Tools\n\nThe {} tools of `termalin-mcp`, made from the table in "
                                   "`mcp-stdio/tools` by `termalin-mcp --print-tools`.\n\n"
                                   "| tool | | effect | needs the app |\n|---|---|---|---|\n",
                                   tools.size());
    for (auto const& tool : tools)
        text += fmt::format("| [`{0}`](#{0}) | {1} | {2} | {3} |\n", tool.name, tool.title, effectText(tool),
                            tool.needs == Needs::App ? "yes" : "");
    for (auto const& tool : tools) {
        text += fmt::format("\n## {}\n\n{}\n\nNeeds: {}{}.\n\nTakes:\n", tool.name, tool.description,
                            gateText(tool.gate), tool.needs == Needs::App ? "; the running app" : "");
        for (auto const& spec : tool.args)
            text += argumentLine(spec);
        if (tool.args.empty())
            text += "- nothing\n";
        text += "\nGives:\n" + resultLines(tool.outputSchema);
    }
    return text;
}

} // namespace termalin::mcp
