// The parts of AgentSessions that need no server.
#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <latch>
#include <semaphore>
#include <thread>

#include "core/settings.h"
#include "core/store.h"
#include "mcp-stdio/background.h"
#include "mcp-stdio/base64.h"
#include "mcp-stdio/handshakes.h"
#include "mcp-stdio/policy_watch.h"
#include "mcp-stdio/random_id.h"
#include "mcp-stdio/running.h"
#include "tests/support/temp_dir.h"

namespace termalin::mcp {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using namespace std::chrono_literals;

TEST(Base64, IsThatOfRfc4648)
{
    // RFC 4648 section 10.
    std::pair<std::string, std::string> const vectors[] = {{"", ""},
                                                           {"f", "Zg=="},
                                                           {"fo", "Zm8="},
                                                           {"foo", "Zm9v"},
                                                           {"foob", "Zm9vYg=="},
                                                           {"fooba", "Zm9vYmE="},
                                                           {"foobar", "Zm9vYmFy"}};
    for (auto const& [plain, encoded] : vectors) {
        EXPECT_EQ(encodeBase64(plain), encoded);
        EXPECT_EQ(decodeBase64(encoded), plain);
    }
    EXPECT_EQ(encodeBase64(std::string("\xff\xfe\x00", 3)), "//4A");
    EXPECT_EQ(decodeBase64("Zm9v\nYmFy\r\n"), "foobar");
    EXPECT_EQ(decodeBase64("Zg"), "f");
}

TEST(Base64, WhatIsNotBase64IsNotDecoded)
{
    for (auto const* const wrong :
         {"Zm9v!", "Z", "Zg=", "Zg===", "Zm9v=", "Zg==Zg==", "_-8=", "Zh==", "=", "Zm9vYg===="})
        EXPECT_EQ(decodeBase64(wrong), std::nullopt) << wrong;
}

TEST(RandomId, Has128BitsAndIsNeverTheSame)
{
    std::set<std::string> seen;
    for (int i = 0; i < 1000; ++i)
        seen.insert(randomId());
    EXPECT_EQ(seen.size(), 1000U);
    EXPECT_THAT(*seen.begin(), MatchesRegex("[0-9a-f]{32}"));
}

TEST(HandshakesTest, TheNinthLoginToAHostWaitsUntilOneIsDone)
{
    Handshakes handshakes;
    std::vector<Handshakes::Slot> slots;
    for (int i = 0; i < Handshakes::kMost; ++i)
        slots.push_back(*handshakes.enter({"a"}, Deadline::in(1s), {}));
    EXPECT_TRUE(handshakes.enter({"b"}, Deadline::in(1s), {})) << "another host is not concerned";
    auto const late = handshakes.enter({"b", "a"}, Deadline::in(1ms), {});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Errc::Timeout);
    EXPECT_TRUE(isRetryable(late.error()));

    std::atomic<bool> entered = false;
    std::jthread const waiter([&] {
        auto const slot = handshakes.enter({"a", "b", "a"}, Deadline::in(60s), {});
        entered = slot.has_value();
    });
    slots.pop_back();
    const_cast<std::jthread&>(waiter).join();
    EXPECT_TRUE(entered);
}

TEST(HandshakesTest, AStopEndsTheWait)
{
    Handshakes handshakes;
    std::vector<Handshakes::Slot> slots;
    for (int i = 0; i < Handshakes::kMost; ++i)
        slots.push_back(*handshakes.enter({"a"}, Deadline::in(1s), {}));
    std::stop_source stop;
    std::jthread const stopper([&] { stop.request_stop(); });
    EXPECT_EQ(handshakes.enter({"a"}, Deadline::in(60s), stop.get_token()).error().code, Errc::Cancelled);
}

class RunningTest : public ::testing::Test {
protected:
    Running::Listed add(std::string hostId, std::shared_ptr<StopControl> const& control, bool admitted = true,
                        std::string sessionId = {})
    {
        return m_running.add({.hostId = std::move(hostId),
                              .routeRevision = 7,
                              .sessionId = std::move(sessionId),
                              .admitted = [admitted](Host const&) { return admitted; },
                              .control = control});
    }
    static Host open()
    {
        Host host;
        host.id = "a";
        host.policy = AgentPolicy::Allowlist;
        host.routeRevision = 7;
        return host;
    }

    Running m_running;
    std::shared_ptr<StopControl> m_control = std::make_shared<StopControl>();
    std::shared_ptr<StopControl> m_other = std::make_shared<StopControl>();
};

TEST_F(RunningTest, OnlyWhatIsNoLongerAdmittedIsEndedAndSaysWhy)
{
    auto const refused = add("a", m_control, false);
    auto const admitted = add("a", m_other, true);
    m_running.judge("b", fail(Errc::UnknownHost, "There is none."));
    EXPECT_EQ(m_control->reason(), StopReason::None);
    m_running.judge("a", open());
    EXPECT_EQ(m_control->reason(), StopReason::PolicyChanged);
    EXPECT_TRUE(m_control->token().stop_requested());
    EXPECT_NE(refused.why(), "");
    EXPECT_EQ(m_other->reason(), StopReason::None);
    EXPECT_EQ(admitted.why(), "");
}

TEST_F(RunningTest, ABlockedRemovedOrMovedHostEndsEverythingOnIt)
{
    auto blocked = open();
    blocked.policy = AgentPolicy::Blocked;
    auto moved = open();
    moved.routeRevision = 8;
    for (auto const& [host, why] : {std::pair<Result<Host>, std::string>(
                                        fail(Errc::UnknownHost, "There is none."), "removed this host"),
                                    {blocked, "closed this host"},
                                    {moved, "changed where this host is"}}) {
        auto const control = std::make_shared<StopControl>();
        auto const listed = add("a", control, true);
        m_running.judge("a", host);
        EXPECT_EQ(control->reason(), StopReason::PolicyChanged);
        EXPECT_THAT(listed.why(), HasSubstr(why));
    }
}

TEST_F(RunningTest, WhatIsSavedCannotBeReadEndsEverythingAndBlamesNobody)
{
    for (auto const code : {Errc::Timeout, Errc::Internal, Errc::PermissionDenied, Errc::NoSpace}) {
        auto const control = std::make_shared<StopControl>();
        auto const listed = add("a", control, true);
        m_running.judge("a", fail(code, "The store is in the way."));
        EXPECT_EQ(control->reason(), StopReason::PolicyChanged);
        EXPECT_THAT(listed.why(), HasSubstr("The store is in the way."));
        EXPECT_THAT(listed.why(), Not(HasSubstr("removed")));
    }
}

TEST_F(RunningTest, WhatAClientHasCancelledKeepsThatReason)
{
    auto const listed = add("a", m_control);
    m_control->request(StopReason::ClientCancelled);
    m_running.stopAll(StopReason::Person, "Stopped by the person.");
    EXPECT_EQ(m_control->reason(), StopReason::ClientCancelled);
}

TEST_F(RunningTest, ASessionsWorkIsWaitedFor)
{
    auto listed = std::optional(add("a", m_control, true, "s"));
    auto const elsewhere = add("a", m_other, true, "t");
    EXPECT_FALSE(m_running.waitForSession("s", Deadline::in(1ms), {}));
    m_running.stopSession("s", StopReason::Person, "closed");
    EXPECT_TRUE(m_control->token().stop_requested());
    EXPECT_FALSE(m_other->token().stop_requested());
    std::jthread const worker([&] { listed.reset(); });
    EXPECT_TRUE(m_running.waitForSession("s", Deadline::in(60s), {}));
}

TEST(BackgroundTest, ItsEndStopsAndAwaitsWhatRuns)
{
    std::atomic<int> ended = 0;
    {
        Background background;
        for (int i = 0; i < 5; ++i)
            background.run([&](std::stop_token const& stop) {
                std::binary_semaphore stopped(0);
                std::stop_callback const callback(stop, [&] { stopped.release(); });
                stopped.acquire();
                ++ended;
            });
    }
    EXPECT_EQ(ended, 5);
}

class PolicyWatchTest : public ::testing::Test {
protected:
    void SetUp() override
    {
        m_store = *Store::open(m_dir / "home/termalin.db");
        m_outside = *Store::open(m_dir / "home/termalin.db");
    }

    test::TempDir m_dir;
    std::unique_ptr<Store> m_store;
    std::unique_ptr<Store> m_outside; ///< As another process has it.
    std::counting_semaphore<1000> m_changes{0};
};

TEST_F(PolicyWatchTest, ChangesByOthersAreNoticedWithNoCallArriving)
{
    auto const settings = m_dir / "settings.json";
    PolicyWatch watch(
        *m_store, settings,
        {.onChange = [this] { m_changes.release(); }, .onTick = [] {}, .isIdle = [] { return false; }});
    ASSERT_TRUE(m_changes.try_acquire_for(30s)) << "the first look counts as a change";
    Host host;
    host.name = "web";
    host.hostname = "web.example";
    host.username = "deploy";
    ASSERT_TRUE(m_outside->addHost(host));
    EXPECT_TRUE(m_changes.try_acquire_for(30s));
    ASSERT_TRUE(changeSetting(settings, "agents.stopped", "true"));
    EXPECT_TRUE(m_changes.try_acquire_for(30s));
}

TEST_F(PolicyWatchTest, AnIdleWatchLooksWhenItIsWoken)
{
    PolicyWatch watch(
        *m_store, m_dir / "settings.json",
        {.onChange = [this] { m_changes.release(); }, .onTick = [] {}, .isIdle = [] { return true; }});
    watch.wake();
    EXPECT_TRUE(m_changes.try_acquire_for(30s));
}

} // namespace
} // namespace termalin::mcp
