#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mcp-stdio/tool.h"

namespace termalin::mcp {
namespace {

using ::testing::HasSubstr;

Arg<std::string> const kName{.name = "name", .meaning = "A name", .limits = Limits{1, 5}};
Arg<std::int64_t> const kCount{.name = "count", .meaning = "", .fallback = 7, .limits = Limits{1, 60}};
Arg<std::int64_t> const kSize{.name = "size", .meaning = "", .fallback = 20};
Arg<bool> const kFlag{.name = "flag", .meaning = "", .fallback = false};
Arg<StringList> const kItems{
    .name = "items", .meaning = "", .fallback = StringList{}, .limits = Limits{0, 3}};
Arg<OneOf> const kKind{.name = "kind", .meaning = "", .fallback = OneOf{"a"}, .words = {"a", "b"}};
Arg<std::optional<std::int64_t>> const kPort{.name = "port", .meaning = "", .limits = Limits{1, 65'535}};

Tool tool()
{
    return {.name = "t",
            .title = "T",
            .description = "D",
            .args = {kName, kCount, kSize, kFlag, kItems, kKind, kPort}};
}

std::string problem(std::string_view arguments)
{
    auto const args = validate(tool(), Json::parse(arguments));
    EXPECT_TRUE(args || args.error().code == Errc::InvalidArgument);
    return args ? "" : args.error().message;
}

TEST(Validate, GivesHandlersTypedValuesAndDefaults)
{
    auto const args =
        validate(tool(), Json::parse(R"({"name":"x","count":60.0,"kind":"b","items":["p","q"]})"));
    ASSERT_TRUE(args) << args.error().message;
    EXPECT_EQ((*args)[kName], "x");
    EXPECT_EQ((*args)[kCount], 60);
    EXPECT_TRUE((*args).raw("count").is_number_integer()); // plain for whoever gets it next
    EXPECT_EQ((*args)[kSize], 20);
    EXPECT_FALSE((*args)[kFlag]);
    EXPECT_EQ((*args)[kItems], (StringList{"p", "q"}));
    EXPECT_EQ((*args)[kKind], "b");
    EXPECT_EQ((*args)[kPort], std::nullopt);
}

TEST(Validate, KnowsWholeNumbersInEverySpelling)
{
    for (auto const* good : {"1", "60", "60.0", "6e1", "1.0E0"})
        EXPECT_EQ(problem(R"({"name":"x","count":)" + std::string(good) + "}"), "") << good;
    for (auto const* bad :
         {"0", "61", "1.5", "\"60\"", "true", "null", "[1]", "1e300", "-1", "18446744073709551615"})
        EXPECT_THAT(problem(R"({"name":"x","count":)" + std::string(bad) + "}"),
                    HasSubstr("count must be a whole number from 1 to 60"))
            << bad;
    auto const huge = validate(tool(), Json::parse(R"({"name":"x","size":1e300})"));
    EXPECT_EQ((*huge)[kSize], std::numeric_limits<std::int64_t>::max()); // for the handler to clamp
}

TEST(Validate, NamesEveryArgumentThatIsWrongMissingOrUnknown)
{
    auto const text = problem(R"({"count":"60","kind":"c","colour":1,"flag":0})");
    EXPECT_THAT(text, HasSubstr("name is missing; it must be a string of 1 to 5 characters"));
    EXPECT_THAT(text, HasSubstr("count must be a whole number from 1 to 60, not \"60\""));
    EXPECT_THAT(text, HasSubstr("kind must be \"a\" or \"b\", not \"c\""));
    EXPECT_THAT(text, HasSubstr("flag must be true or false, not 0"));
    EXPECT_THAT(text, HasSubstr("There is no argument \"colour\"; t takes name, count (optional)"));
    EXPECT_THAT(problem(R"({"name":"x","port":null})"), HasSubstr("leave it out instead"));
    EXPECT_THAT(problem("[]"), HasSubstr("must be an object"));
}

TEST(Validate, CountsCharactersAsJsonSchemaDoesAndRefusesNul)
{
    EXPECT_EQ(problem(R"({"name":"äöüßé"})"), "");
    EXPECT_NE(problem(R"({"name":"äöüßéx"})"), "");
    EXPECT_NE(problem(R"({"name":""})"), "");
    EXPECT_NE(problem(R"({"name":"a\u0000b"})"), "");
    EXPECT_NE(problem(R"({"name":"x","items":["a\u0000"]})"), "");
    EXPECT_NE(problem(R"({"name":"x","items":["1","2","3","4"]})"), "");
    EXPECT_NE(problem(R"({"name":"x","items":[1]})"), "");
}

TEST(Validate, NeverShowsALongValue)
{
    EXPECT_LT(problem(R"({"name":")" + std::string(100'000, 'x') + R"("})").size(), 200U);
    std::string many = R"({"name":"x")";
    for (int i = 0; i < 1000; ++i)
        many += R"(,"unknown)" + std::to_string(i) + R"(":1)";
    EXPECT_LT(problem(many + "}").size(), 1500U);
}

TEST(ToolRow, IsStrictestWhereNothingIsSaid)
{
    Tool const row{.name = "t", .title = "T", .description = "D"};
    EXPECT_EQ(row.effect, Effect::Destructive);
    EXPECT_EQ(row.needs, Needs::App);
    EXPECT_EQ(row.gate, Gate::Never);
}

TEST(ToolResult, OfASuccessIsTheSameInBothForms)
{
    auto const value = toLine(Json{{"output", "a\xff\"\\\n\u20ac"}, {"n", 9007199254740993LL}});
    auto const result = Json::parse(toolResult(value));
    EXPECT_EQ(result.size(), 2U);
    EXPECT_EQ(result["content"].size(), 1U);
    EXPECT_EQ(result["content"][0]["type"], "text");
    EXPECT_EQ(result["content"][0]["text"], value);
    EXPECT_EQ(result["structuredContent"], Json::parse(value));
    EXPECT_EQ(result["structuredContent"]["output"], "a\xEF\xBF\xBD\"\\\n\xE2\x82\xAC");
    EXPECT_EQ(result["structuredContent"]["n"], 9007199254740993LL);
}

TEST(ToolResult, OfAFailureIsCodeAndSentenceAlone)
{
    auto const resultOf = [](std::unexpected<Error> error) {
        return Json::parse(toolResult(std::move(error)));
    };
    auto const result = resultOf(fail(Errc::Unreachable, "It did not answer.", "errno 110"));
    EXPECT_EQ(result["content"][0]["text"], "unreachable: It did not answer. [errno 110]");
    EXPECT_EQ(result["isError"], true);
    EXPECT_EQ(result["_meta"], (Json{{"code", "unreachable"}, {"retryable", true}}));
    EXPECT_FALSE(result.contains("structuredContent"));
    EXPECT_EQ(resultOf(std::unexpected(Error{Errc::Timeout, "x", "", true}))["_meta"]["retryable"], true);
    EXPECT_EQ(resultOf(fail(Errc::Timeout, "x"))["_meta"]["retryable"], false);
}

} // namespace
} // namespace termalin::mcp
