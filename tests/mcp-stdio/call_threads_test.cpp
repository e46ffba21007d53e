#include <atomic>
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <set>
#include <thread>

#include "mcp-stdio/call_threads.h"

namespace termalin::mcp {
namespace {

/// Runs one job and waits for its end; the thread that it ran on.
std::thread::id runOne(CallThreads& threads)
{
    std::mutex mutex;
    std::condition_variable changed;
    std::thread::id id;
    threads.run([&] {
        std::lock_guard const lock(mutex);
        id = std::this_thread::get_id();
        changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return id != std::thread::id(); });
    return id;
}

TEST(CallThreads, OneThreadDoesOneJobAfterAnother)
{
    CallThreads threads;
    std::set<std::thread::id> seen;
    for (int i = 0; i < 200; ++i)
        seen.insert(runOne(threads));
    // A job may come before the last one's thread has begun to wait; that makes one more now and then.
    EXPECT_LE(seen.size(), CallThreads::kMostIdle + 1);
}

TEST(CallThreads, JobsThatWaitForEachOtherAllRunAtOnce)
{
    constexpr int kJobs = 100;
    CallThreads threads;
    for (int round = 0; round < 3; ++round) {
        std::mutex mutex;
        std::condition_variable changed;
        int met = 0;
        int left = kJobs;
        for (int i = 0; i < kJobs; ++i)
            threads.run([&] {
                std::unique_lock lock(mutex);
                ++met;
                changed.notify_all();
                changed.wait(lock, [&] { return met == kJobs; });
                --left;
                changed.notify_all();
            });
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return left == 0; });
        EXPECT_EQ(met, kJobs);
    }
}

TEST(CallThreads, ItsEndWaitsForWhatRuns)
{
    std::atomic<int> done = 0;
    {
        CallThreads threads;
        for (int i = 0; i < 50; ++i)
            threads.run([&] {
                std::this_thread::yield();
                ++done;
            });
    }
    EXPECT_EQ(done, 50);
}

TEST(CallThreads, WhatAJobHoldsGoesWithIt)
{
    CallThreads threads;
    auto held = std::make_shared<int>(1);
    std::weak_ptr<int> const watch = held;
    threads.run([held = std::move(held)] {});
    while (!watch.expired()) // for ever if the idle thread kept it: the test's own time limit ends that
        std::this_thread::yield();
}

} // namespace
} // namespace termalin::mcp
