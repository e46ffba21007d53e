#include <array>
#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <latch>
#include <set>
#include <stdexcept>

#include "client.h"
#include "mcp-stdio/server.h"

namespace termalin::mcp {
namespace {

using namespace std::chrono_literals;
using test::Client;
using test::Waiter;
using ::testing::HasSubstr;

int errorOf(Json const& reply)
{
    return reply.contains("error") ? reply["error"]["code"].get<int>() : 0;
}

TEST(Server, EchoesAProtocolVersionItKnowsAndElseOffersTheNewest)
{
    for (auto const* version : {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"})
        Client(allTools()).initialize(version);
    Client client(allTools());
    client.send(
        R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1999-01-01","capabilities":{},"clientInfo":{"name":"x","version":"1"}}})");
    auto const result = client.next()["result"];
    EXPECT_EQ(result["protocolVersion"], "2025-11-25");
    EXPECT_EQ(result["capabilities"],
              (Json{{"tools", {{"listChanged", true}}}, {"logging", Json::object()}}));
    EXPECT_EQ(result["serverInfo"]["title"], "Termalin");
    EXPECT_THAT(result["instructions"].get<std::string>(), HasSubstr("no terminal, no input"));
}

TEST(Server, AnswersOnlyPingBeforeInitialize)
{
    Client client(allTools());
    client.send(R"({"jsonrpc":"2.0","id":1,"method":"ping"})");
    EXPECT_EQ(client.next(), Json::parse(R"({"jsonrpc":"2.0","id":1,"result":{}})"));
    for (auto const* method : {"tools/list", "tools/call", "logging/setLevel", "nope"}) {
        client.send(fmt::format(R"({{"jsonrpc":"2.0","id":"q","method":"{}"}})", method));
        auto const reply = client.next();
        EXPECT_EQ(errorOf(reply), -32600) << method;
        EXPECT_EQ(reply["id"], "q");
    }
    client.initialize();
    client.send(
        R"({"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25"}})");
    EXPECT_EQ(errorOf(client.next()), -32600);
}

TEST(Server, TellsWhatIsWrongWithAMessage)
{
    struct Case {
        std::string line;
        int code;
        std::string id;
    };
    Client client(allTools());
    client.initialize();
    for (
        auto const& [line, code, id] : std::vector<Case>{
            {"{", -32700, "null"},
            {"nonsense", -32700, "null"},
            {R"({"jsonrpc":"2.0","id":5,"method":"ping")", -32700, "5"},
            {"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"\xff\"}", -32700, "5"},
            {R"({"jsonrpc":"2.0","id":6,"method":"ping"} x)", -32700, "6"},
            {"3", -32600, "null"},
            {"null", -32600, "null"},
            {"{}", -32600, "null"},
            {"[]", -32600, "null"},
            {R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])", -32600, "null"},
            {R"({"id":1,"method":"ping"})", -32600, "1"},
            {R"({"jsonrpc":"1.0","id":1,"method":"ping"})", -32600, "1"},
            {R"({"jsonrpc":"2.0","id":1})", -32600, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":2})", -32600, "1"},
            {R"({"jsonrpc":"2.0","id":null,"method":"ping"})", -32600, "null"},
            {R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})", -32600, "null"},
            {R"({"jsonrpc":"2.0","id":true,"method":"ping"})", -32600, "null"},
            {R"({"jsonrpc":"2.0","id":{},"method":"ping"})", -32600, "null"},
            {R"({"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"})", -32600, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}})", -32600, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"nope"})", -32601, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})", -32602, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"ping","params":null})", -32602, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}})", -32602, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"tools/call"})", -32602, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}})", -32602, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}})", -32602, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hosts_list","arguments":[]}})",
             -32602, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hosts_list","_meta":1}})",
             -32602, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hosts_list","_meta":{"progressToken":{}}}})",
             -32602, "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}})", -32602,
             "1"},
            {R"({"jsonrpc":"2.0","id":1,"method":"logging/setLevel"})", -32602, "1"},
        }) {
        client.send(line);
        auto const reply = client.next();
        EXPECT_EQ(errorOf(reply), code) << line;
        EXPECT_EQ(reply["id"].dump(), id) << line;
    }
    EXPECT_TRUE(client.gate.log().empty());
}

TEST(Server, AnswersNoNotificationAndNoAnswer)
{
    Client client(allTools());
    client.initialize();
    for (auto const* line :
         {R"({"jsonrpc":"2.0","method":"ping"})", R"({"jsonrpc":"2.0","method":"nope","params":7})",
          R"({"jsonrpc":"2.0","method":"tools/call","params":{"name":"generate_password"}})",
          R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}})",
          R"({"jsonrpc":"2.0","method":"notifications/cancelled"})",
          R"({"jsonrpc":"2.0","id":4,"result":{}})",
          R"({"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"x"}})"})
        client.send(line);
    EXPECT_TRUE(client.upToPing().empty());
    EXPECT_TRUE(client.gate.log().empty()); // nothing ran either
}

TEST(Server, EchoesEachIdAsTheSameJson)
{
    Client client(allTools());
    for (auto const* id : {"0", "-7", "\"\"", "\"a\\\"b\"", "1.0", "9007199254740993", "18446744073709551615",
                           "123456789012345678901234567890", "1e3", "\"\xC3\xA4\""}) {
        client.send(fmt::format(R"({{"jsonrpc":"2.0","id":{},"method":"ping"}})", id));
        EXPECT_EQ(client.nextLine(), fmt::format(R"({{"jsonrpc":"2.0","id":{},"result":{{}}}})", id));
    }
}

TEST(Server, RefusesAnIdThatIsInFlightAndOnlyThat)
{
    Waiter waiter;
    std::vector<Tool> const tools{waiter.tool()};
    Client client(tools);
    client.initialize();
    client.call("1", "wait");
    ASSERT_TRUE(waiter.waitForRunning(1));
    for (auto const* method : {"ping", "tools/list", "tools/call"})
        for (auto const* id : {"1", "1.0"}) {
            client.send(fmt::format(R"({{"jsonrpc":"2.0","id":{},"method":"{}"}})", id, method));
            EXPECT_EQ(errorOf(client.next()), -32600) << method << ' ' << id;
        }
    client.send(R"({"jsonrpc":"2.0","id":"1","method":"ping"})"); // another id
    EXPECT_EQ(errorOf(client.next()), 0);
    waiter.release();
    EXPECT_EQ(client.next()["result"]["structuredContent"]["waited"], true);
    client.send(R"({"jsonrpc":"2.0","id":1,"method":"ping"})");
    EXPECT_EQ(errorOf(client.next()), 0);
}

TEST(Server, RunsCallsSideBySideSoThatASlowOneDelaysNoOther)
{
    Waiter waiter;
    std::vector<Tool> const tools{waiter.tool(), test::echo()};
    Client client(tools);
    client.initialize();
    client.call("1", "wait");
    client.call("2", "echo", R"({"text":"quick"})");
    auto const first = client.next();
    EXPECT_EQ(first["id"], 2);
    EXPECT_EQ(first["result"]["structuredContent"]["text"], "quick");
    waiter.release();
    EXPECT_EQ(client.next()["id"], 1);
    EXPECT_THAT(client.gate.log(), ::testing::UnorderedElementsAre("wait", "wait ok", "echo", "echo ok"));
}

TEST(Server, GivesNoReplyToACancelledCallAndTellsItsHandlerWhy)
{
    Waiter waiter;
    std::vector<Tool> const tools{waiter.tool()};
    Client client(tools);
    client.initialize();
    client.call("12345678901", "wait");
    ASSERT_TRUE(waiter.waitForRunning(1));
    client.send(
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345678901,"reason":"x"}})");
    ASSERT_TRUE(client.server.waitUntilIdle(Deadline::in(test::kPatience)));
    EXPECT_TRUE(client.upToPing().empty());
    EXPECT_EQ(waiter.reasons, std::vector{StopReason::ClientCancelled});
}

TEST(Server, AnswersACallThatSomebodyElseStopped)
{
    Waiter waiter;
    std::vector<Tool> const tools{waiter.tool()};
    Client client(tools);
    client.initialize();
    client.call("1", "wait");
    ASSERT_TRUE(waiter.waitForRunning(1));
    client.server.stopAll(StopReason::Shutdown);
    auto const reply = client.next();
    EXPECT_EQ(reply["result"]["_meta"]["code"], "cancelled");
    EXPECT_EQ(waiter.reasons, std::vector{StopReason::Shutdown});
    client.call("2", "wait");
    EXPECT_EQ(client.next()["result"]["_meta"]["code"], "cancelled"); // nothing starts any more
}

TEST(Server, RefusesTheTwoHundredFiftySeventhCallAndRecovers)
{
    Waiter waiter;
    std::vector<Tool> const tools{waiter.tool()};
    Client client(tools);
    client.initialize();
    for (std::size_t i = 0; i < Server::kMaxCalls; ++i)
        client.call(std::to_string(i), "wait");
    client.call("256", "wait");
    auto const refused = client.next();
    EXPECT_EQ(refused["id"], 256);
    EXPECT_EQ(refused["result"]["_meta"], (Json{{"code", "too_many"}, {"retryable", true}}));
    waiter.release();
    std::set<int> ids;
    for (std::size_t i = 0; i < Server::kMaxCalls; ++i)
        ids.insert(client.next()["id"].get<int>());
    EXPECT_EQ(ids.size(), Server::kMaxCalls);
    client.call("257", "wait");
    EXPECT_EQ(client.next()["result"]["structuredContent"]["waited"], true);
}

TEST(Server, RunsNothingWithoutItsGate)
{
    auto forbidden = test::echo();
    forbidden.run = [](Args const&, Call const&) -> Result<Json> {
        ADD_FAILURE() << "ran";
        return Json::object();
    };
    auto gateless = forbidden;
    gateless.name = "gateless";
    gateless.gate = Gate::Never;
    std::vector<Tool> const tools{forbidden, gateless};
    Client client(tools);
    client.gate.refuse = Errc::BlockedByPolicy;
    client.initialize();
    client.call("1", "echo");
    EXPECT_EQ(client.next()["result"]["content"][0]["text"], "blocked_by_policy: The gate said no.");
    client.gate.refuse.reset();
    client.call("2", "gateless");
    EXPECT_EQ(client.next()["result"]["_meta"]["code"], "internal");
    client.services.gatekeeper = nullptr;
    client.call("3", "echo");
    EXPECT_EQ(client.next()["result"]["_meta"]["code"], "internal");
}

TEST(Server, TurnsAnExceptionIntoAResultAndStillRecordsTheEnd)
{
    auto tool = test::echo();
    tool.run = [](Args const&, Call const&) -> Result<Json> { throw std::runtime_error("boom"); };
    std::vector<Tool> const tools{tool};
    Client client(tools);
    client.initialize();
    client.call("1", "echo");
    EXPECT_EQ(client.next()["result"]["_meta"]["code"], "internal");
    EXPECT_EQ(client.gate.log(), (std::vector<std::string>{"echo", "echo internal"}));
}

TEST(Server, AnswersABatchOfMarch2025AsABatch)
{
    Waiter waiter;
    std::vector<Tool> const tools{waiter.tool(), test::echo()};
    Client client(tools);
    client.initialize("2025-03-26");
    waiter.release();
    client.send(
        R"([{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},3,)"
        R"({"jsonrpc":"2.0","id":2.0,"method":"tools/call","params":{"name":"wait"}},)"
        R"({"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"echo","arguments":{"text":"t"}}}])");
    auto const replies = client.next();
    ASSERT_TRUE(replies.is_array());
    std::set<std::string> ids;
    for (auto const& reply : replies)
        ids.insert(reply["id"].dump());
    EXPECT_EQ(ids, (std::set<std::string>{"1", "null", "2.0", "\"c\""}));
    client.send(R"([{"jsonrpc":"2.0","method":"notifications/x"}])");
    EXPECT_TRUE(client.upToPing().empty());
    client.send("[]");
    EXPECT_EQ(errorOf(client.next()), -32600);
}

TEST(Server, SendsNothingForABatchWhoseCallsWereAllCancelled)
{
    Waiter waiter;
    std::vector<Tool> const tools{waiter.tool()};
    Client client(tools);
    client.initialize("2025-03-26");
    client.send(R"([{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}])");
    ASSERT_TRUE(waiter.waitForRunning(1));
    client.send(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}})");
    ASSERT_TRUE(client.server.waitUntilIdle(Deadline::in(test::kPatience)));
    EXPECT_TRUE(client.upToPing().empty());
}

TEST(Server, ReportsTheCleanedLastLineAsRisingProgressAndNothingAfterTheReply)
{
    Waiter waiter;
    auto tool = waiter.tool();
    tool.run = [run = tool.run](Args const& args, Call const& call) {
        call.progress.output("first\nsecond \x1b[31mred\x1b[0m line\n");
        auto result = run(args, call);
        for (int i = 0; i < 1000; ++i) // far more than may be told
            call.progress.output(std::string(300, 'x') + "\n");
        return result;
    };
    std::vector<Tool> const tools{tool};
    Client client(tools);
    client.initialize();
    client.call("1", "wait", "{}", R"({"progressToken":"tok"})");
    auto const first = client.next();
    EXPECT_EQ(first["method"], "notifications/progress");
    EXPECT_EQ(first["params"]["progressToken"], "tok");
    EXPECT_EQ(first["params"]["message"], "second red line");
    auto last = first["params"]["progress"].get<double>();
    waiter.release();
    int more = 0;
    for (auto line = client.next(); !line.contains("id"); line = client.next(), ++more) {
        EXPECT_GT(line["params"]["progress"].get<double>(), last);
        last = line["params"]["progress"].get<double>();
        EXPECT_LE(line["params"]["message"].get<std::string>().size(), 200U);
    }
    EXPECT_LT(more, 100);
    EXPECT_TRUE(client.upToPing().empty());
}

TEST(Server, ReportsProgressWithoutOutputWithinFiveSecondsAndOnlyIfAsked)
{
    Waiter waiter;
    std::vector<Tool> const tools{waiter.tool()};
    Client client(tools);
    client.initialize();
    client.call("1", "wait");
    client.call("2", "wait", "{}", R"({"progressToken":7})");
    auto const began = Deadline::Clock::now();
    auto const line = client.next();
    EXPECT_EQ(line["params"]["progressToken"], 7);
    EXPECT_GE(Deadline::Clock::now() - began, 4s);
    waiter.release();
}

TEST(Server, TellsOfAChangedEffectAndRemembersWhatTheClientWasShown)
{
    std::atomic<bool> grants = false;
    std::atomic<bool> shown = false;
    auto tool = test::echo();
    tool.effectNow = [&](Services const&) { return grants ? Effect::Destructive : Effect::ReadOnly; };
    tool.run = [&](Args const&, Call const& call) -> Result<Json> {
        shown = call.shownDestructive;
        return Json::object();
    };
    std::vector<Tool> const tools{tool};
    Client client(tools);
    client.initialize();
    auto const hint = [&] {
        client.send(R"({"jsonrpc":"2.0","id":"l","method":"tools/list"})");
        return client.next()["result"]["tools"][0]["annotations"]["readOnlyHint"];
    };
    EXPECT_EQ(hint(), true);
    client.server.toolsChanged();
    EXPECT_TRUE(client.upToPing().empty()); // nothing did
    grants = true;
    client.server.toolsChanged();
    EXPECT_EQ(client.next()["method"], "notifications/tools/list_changed");
    client.call("1", "echo");
    client.next();
    EXPECT_FALSE(shown); // the list has not been fetched since
    EXPECT_EQ(hint(), false);
    client.call("2", "echo");
    client.next();
    EXPECT_TRUE(shown);
}

TEST(Server, HandsOnTheLogFromTheLevelThatTheClientChose)
{
    LogLevel chosen = LogLevel::Error;
    Client client(allTools(), {.logLevel = [&](LogLevel level) { chosen = level; }});
    client.server.log(LogLevel::Error, "ssh", "before anybody listens");
    client.initialize();
    client.server.log(LogLevel::Info, "ssh", "too little");
    client.server.log(LogLevel::Warn, "ssh", "a\nb");
    EXPECT_EQ(client.next(), Json::parse(R"({"jsonrpc":"2.0","method":"notifications/message","params":)"
                                         R"({"level":"warning","logger":"ssh","data":"a\\x0Ab"}})"));
    client.send(R"({"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}})");
    EXPECT_EQ(client.next()["result"], Json::object());
    EXPECT_EQ(chosen, LogLevel::Debug);
    client.server.log(LogLevel::Debug, "ssh", "now");
    EXPECT_EQ(client.next()["params"]["level"], "debug");
    client.send(R"({"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"emergency"}})");
    client.next();
    client.server.log(LogLevel::Error, "ssh", "not even this");
    EXPECT_TRUE(client.upToPing().empty());
}

TEST(Server, TakesACleanNameFromTheClient)
{
    std::string name;
    auto tool = test::echo();
    tool.run = [&](Args const&, Call const& call) -> Result<Json> {
        name = call.client.name;
        return Json::object();
    };
    std::vector<Tool> const tools{tool};
    Client client(tools);
    client.send(
        R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"ev\u001b[31mil\u202e","version":"1"}}})");
    client.next();
    client.call("1", "echo");
    client.next();
    EXPECT_EQ(name.find('\x1b'), std::string::npos);
    EXPECT_EQ(name.find("\u202e"), std::string::npos);
    EXPECT_THAT(name, HasSubstr("ev"));
}

TEST(Server, RefusesAMessageWithMoreThanAMillionValues)
{
    Client client(allTools());
    client.initialize();
    std::string line = R"({"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[0)";
    for (int i = 0; i < 1'000'001; ++i)
        line += ",0";
    client.send(line + "]}}");
    auto const reply = client.next();
    EXPECT_EQ(errorOf(reply), -32600);
    EXPECT_EQ(reply["id"], 1);
}

TEST(Server, WhatAReplyNeedNotWaitForIsDoneAfterItAndMayFail)
{
    std::latch goOn(1);
    std::latch done(2);
    auto tool = test::echo();
    tool.run = [&](Args const&, Call const& call) -> Result<Json> {
        call.afterReply.add([&] { goOn.wait(); });
        call.afterReply.add([] { throw std::runtime_error("boom"); });
        call.afterReply.add([&] { done.count_down(); });
        return Json::object();
    };
    std::array const tools{tool};
    Client client(tools);
    client.initialize();
    for (auto const* id : {"1", "2"}) {
        client.call(id, "echo");
        EXPECT_EQ(client.next()["id"].dump(), id); // though goOn has not come
    }
    EXPECT_FALSE(done.try_wait());
    goOn.count_down();
    done.wait(); // both, each in spite of what failed before it
}

TEST(Server, WarmsUpOnceAndAnswersMeanwhile)
{
    std::latch goOn(1);
    std::atomic<int> times = 0;
    {
        Client client(allTools(), {.warmUp = [&] {
                          ++times;
                          goOn.wait();
                      }});
        client.initialize();
        client.call("1", "generate_password");
        EXPECT_EQ(client.next()["id"], 1);
        goOn.count_down();
    }
    EXPECT_EQ(times, 1);
}

} // namespace
} // namespace termalin::mcp
