#include <gtest/gtest.h>
#include <type_traits>

#include "core/deadline.h"
#include "core/error.h"
#include "core/json.h"
#include "core/result.h"
#include "core/secret.h"
#include "core/unique_fd.h"

namespace termalin {
namespace {

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<Secret>);
static_assert(!std::is_convertible_v<Secret, std::string>);
static_assert(!std::is_constructible_v<Json, Secret>);

Result<int> half(int value)
{
    if (value % 2 != 0)
        return fail(Errc::InvalidArgument, "odd");
    return value / 2;
}

Result<int> quarter(int value)
{
    TRY_LET(auto const once, half(value));
    TRY(half(once));
    return half(once);
}

TEST(Result, TryHandsTheFirstErrorToTheCaller)
{
    EXPECT_EQ(quarter(12).value(), 3);
    EXPECT_EQ(quarter(6).error().message, "odd");
    EXPECT_EQ(quarter(3).error().code, Errc::InvalidArgument);
}

TEST(Error, IsRetryableOnlyWhereTheContractSaysSo)
{
    for (auto const code : {Errc::Unreachable, Errc::TooMany, Errc::TabBusy, Errc::PortInUse})
        EXPECT_TRUE(isRetryable(Error{code, ""})) << toString(code);
    for (auto const code :
         {Errc::Timeout, Errc::ConsentRequired, Errc::AuthFailed, Errc::Internal, Errc::Cancelled})
        EXPECT_FALSE(isRetryable(Error{code, ""})) << toString(code);
    EXPECT_TRUE(isRetryable(Error{Errc::Timeout, "", "", true}));
}

TEST(Secret, ASourceThatWasMovedFromIsEmpty)
{
    std::string source = "short";
    Secret first(std::move(source));
    EXPECT_TRUE(source.empty()); // NOLINT(bugprone-use-after-move): the promise under test
    Secret const second(std::move(first));
    EXPECT_TRUE(first.empty()); // NOLINT(bugprone-use-after-move): the promise under test
    EXPECT_EQ(second.reveal(), "short");
}

TEST(Deadline, NeverIsFarAwayAndStillAPollTimeout)
{
    EXPECT_FALSE(Deadline::never().passed());
    EXPECT_EQ(Deadline::never().pollTimeout(), 60'000);
    EXPECT_EQ(Deadline::in(-1s).pollTimeout(), 0);
    EXPECT_TRUE(Deadline::in(0ms).passed());
}

TEST(Json, AnyBytesBecomeValidText)
{
    auto const line = toLine(Json{{"output", "a\xff\xfe"}});
    ASSERT_TRUE(parseJson(line));
    EXPECT_EQ((*parseJson(line))["output"], "a\xEF\xBF\xBD\xEF\xBF\xBD");
    EXPECT_FALSE(parseJson("{"));
}

} // namespace
} // namespace termalin
