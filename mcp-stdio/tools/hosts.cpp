#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <memory_resource>
#include <string_view>
#include <vector>

#include "core/account.h"
#include "core/audit.h"
#include "core/memory.h"
#include "core/password.h"
#include "core/store.h"
#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {
namespace {

void appendField(std::string& to, std::string_view name, std::string_view text)
{
    to += name;
    appendJsonString(to, text);
}

void appendHost(std::string& to, HostView const& host, std::string const& ownAccount)
{
    appendField(to, R"({"id":)", host.id);
    appendField(to, R"(,"name":)", host.name);
    appendField(to, R"(,"hostname":)", host.hostname);
    fmt::format_to(std::back_inserter(to), R"(,"port":{})", host.port);
    appendField(to, R"(,"username":)", host.username.empty() ? ownAccount : host.username);
    appendField(to, R"(,"authType":)", toString(host.authType));
    appendField(to, R"(,"policy":)", toString(host.policy));
    to += R"(,"tags":[)";
    for (auto const& tag : host.tags)
        appendField(to, &tag == &host.tags.front() ? "" : ",", tag);
    to += ']';
    if (!host.notes.empty())
        appendField(to, R"(,"notes":)", host.notes);
    to += '}';
}

/// Texts that stay where they are, in blocks of memory that are taken as they are needed.
class Texts {
public:
    std::string_view keep(std::string_view text)
    {
        auto* const place = static_cast<char*>(m_blocks.allocate(text.size(), 1));
        std::ranges::copy(text, place);
        return {place, text.size()};
    }

private:
    std::pmr::monotonic_buffer_resource m_blocks{std::size_t{16} << 10U};
};

/// A person may have ten thousand hosts, so their texts are written once and put in order by what they are
/// called, with nothing else made of them.
Result<std::string> listHosts(Call const& call)
{
    struct Entry {
        std::string_view name, text;
    };
    auto const own = ownAccount();
    Texts texts;
    std::vector<Entry> entries;
    std::string one;
    std::size_t length = 0;
    TRY(call.services.store->lookAtOpenHosts([&](HostView const& host) {
        one.clear();
        appendHost(one, host, own);
        length += one.size() + 1;
        entries.push_back({texts.keep(host.name), texts.keep(one)});
    }));
    std::ranges::sort(entries, {}, &Entry::name);
    std::string text;
    text.reserve((length * 5 / 2) + 200); // the result has it twice, once with its quotes escaped
    preferLargePages(text.data(), text.capacity());
    text += R"({"hosts":[)";
    for (auto const& entry : entries) {
        if (&entry != &entries.front())
            text += ',';
        text += entry.text;
    }
    text += "]}";
    return text;
}

Result<Json> makePassword(std::int64_t length, Call const& call)
{
    auto const clamped = std::clamp<std::int64_t>(length, 8, 128);
    auto const password = generatePassword(static_cast<std::size_t>(clamped));
    if (call.services.audit != nullptr) // from here on it may come back in a command
        call.services.audit->hide(password);
    return Json{{"password", password.reveal()}, {"length", clamped}};
}

} // namespace

Tool hostsList()
{
    using schema::integer, schema::list, schema::object, schema::oneOf, schema::text;
    return {
        .name = "hosts_list",
        .title = "List servers",
        .description =
            "Lists the servers a person has opened to agents, with id, login and policy: full runs any "
            "command, allowlist only what its rules admit. Servers closed to agents are left out. Never "
            "holds secrets. Call it first; the other tools take its ids or names.",
        .effect = Effect::ReadOnly,
        .needs = Needs::Nothing,
        .gate = Gate::Open,
        .outputSchema = object({{"hosts", list(object({{"id", text()},
                                                       {"name", text()},
                                                       {"hostname", text()},
                                                       {"port", integer()},
                                                       {"username", text()},
                                                       {"authType", text()},
                                                       {"policy", oneOf({"allowlist", "full"})},
                                                       {"tags", list(text())},
                                                       {"notes?", text()}}))}}),
        .runText = [](Args const&, Call const& call) { return listHosts(call); },
        .maxResultChars = 200'000,
    };
}

Tool generatePasswordTool()
{
    using schema::integer, schema::object, schema::text;
    static Arg<std::int64_t> const length{
        .name = "length", .meaning = "Characters, clamped to 8-128", .fallback = 20};
    return {
        .name = "generate_password",
        .title = "Generate a password",
        .description =
            "Makes one strong random password with lower case, upper case, digit and symbol. It is stored "
            "and logged nowhere.",
        .effect = Effect::ReadOnly,
        .needs = Needs::Nothing,
        .gate = Gate::Open,
        .args = {length},
        .outputSchema = object({{"password", text()}, {"length", integer()}}),
        .run = [](Args const& args, Call const& call) { return makePassword(args[length], call); },
    };
}

} // namespace termalin::mcp
