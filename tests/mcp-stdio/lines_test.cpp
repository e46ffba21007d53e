#include <gtest/gtest.h>
#include <vector>

#include "mcp-stdio/lines.h"

namespace termalin::mcp {
namespace {

struct Got {
    std::string text;
    Line::Problem problem;
    std::string id;
};

std::vector<Got> scan(std::string_view bytes, std::size_t piece = 1 << 20)
{
    std::vector<Got> lines;
    LineScanner scanner;
    auto const onLine = [&](Line const& line) {
        lines.push_back({std::string(line.text), line.problem, line.id});
    };
    for (std::size_t i = 0; i < bytes.size(); i += piece)
        scanner.feed(bytes.substr(i, piece), onLine);
    scanner.finish(onLine);
    return lines;
}

TEST(LineScanner, CutsLinesAlikeWhereverTheReadsEnd)
{
    std::string const stream =
        "\xEF\xBB\xBF{\"id\":1}\r\n\n  \r\n{\"a\":\"x\\\"\\n\",\"id\":\"two\",\"b\":[1]}\n[3]\nlast";
    for (std::size_t const piece : {1U, 2U, 3U, 7U, 1000U}) {
        auto const lines = scan(stream, piece);
        ASSERT_EQ(lines.size(), 4U) << piece;
        EXPECT_EQ(lines[0].text, "{\"id\":1}");
        EXPECT_EQ(lines[0].id, "1");
        EXPECT_EQ(lines[1].text, "{\"a\":\"x\\\"\\n\",\"id\":\"two\",\"b\":[1]}");
        EXPECT_EQ(lines[1].id, "\"two\"");
        EXPECT_EQ(lines[2].text, "[3]");
        EXPECT_EQ(lines[2].id, "");
        EXPECT_EQ(lines[3].text, "last");
    }
}

TEST(LineScanner, FindsTheIdOfALineThatIsTooLongWhereverItStands)
{
    auto const filler = std::string(LineScanner::kMaxBytes, 'x');
    auto const before = scan("{\"id\":17,\"params\":\"" + filler + "\"}\n{\"id\":3}\n", 65'536);
    ASSERT_EQ(before.size(), 2U);
    EXPECT_EQ(before[0].problem, Line::Problem::TooLong);
    EXPECT_EQ(before[0].id, "17");
    EXPECT_EQ(before[1].text, "{\"id\":3}");
    auto const after = scan("{\"params\":{\"id\":1,\"q\":\"" + filler + "\"}, \"id\" : \"late\" }\n", 65'536);
    ASSERT_EQ(after.size(), 1U);
    EXPECT_EQ(after[0].problem, Line::Problem::TooLong);
    EXPECT_EQ(after[0].id, "\"late\"");
}

TEST(LineScanner, TakesALineOfExactlyTheLimit)
{
    auto const line = '"' + std::string(LineScanner::kMaxBytes - 2, 'x') + '"';
    auto const lines = scan(line + "\r\n1\n", 65'536); // the carriage return is one byte too many
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].problem, Line::Problem::TooLong);
    EXPECT_EQ(scan(line + "\n", 65'536)[0].problem, Line::Problem::None);
}

TEST(LineScanner, StopsAtTheSixtyFifthLevelAndOnlyThere)
{
    auto const nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    EXPECT_EQ(scan(nested(64))[0].problem, Line::Problem::None);
    EXPECT_EQ(scan(nested(65))[0].problem, Line::Problem::TooDeep);
    auto const bomb = scan("{\"a\":" + std::string(1'000'000, '[') + "\n{\"id\":2}\n");
    ASSERT_EQ(bomb.size(), 2U);
    EXPECT_EQ(bomb[0].problem, Line::Problem::TooDeep);
    EXPECT_EQ(bomb[1].id, "2");
    auto const closed = scan("{\"a\":" + nested(70) + ",\"id\":9}");
    EXPECT_EQ(closed[0].problem, Line::Problem::TooDeep);
    EXPECT_EQ(closed[0].id, "9");
    EXPECT_EQ(scan("{\"a\":\"" + std::string(100, '[') + "\"}")[0].problem, Line::Problem::None);
}

TEST(LineScanner, TrustsNoIdThatMayBeCutOrIsThereTwice)
{
    EXPECT_EQ(scan("{\"id\":12")[0].id, ""); // it might have gone on
    EXPECT_EQ(scan("{\"id\":12,\"method\":")[0].id, "12");
    EXPECT_EQ(scan("{\"id\":1,\"id\":2}")[0].id, "");
    EXPECT_EQ(scan("{\"id\":{\"id\":5}}")[0].id, "");
    EXPECT_EQ(scan("{\"x\":\"id\",\"y\":7}")[0].id, "");
    EXPECT_EQ(scan("{\"idx\":7}")[0].id, "");
    EXPECT_EQ(scan("[{\"id\":7}]")[0].id, "");
    EXPECT_EQ(scan("{\"id\":\"a,}b\",\"q\":1}")[0].id, "\"a,}b\"");
}

} // namespace
} // namespace termalin::mcp
