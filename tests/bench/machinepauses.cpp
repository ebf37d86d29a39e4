// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Not a competitor but a witness: when did the whole machine stand still? A virtual machine is stopped now
// and then for tens of milliseconds, and whoever waits for a lock just then waits as much longer.

#include "contender.h"

#include <QtCore/qjsonarray.h>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace Bench {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr auto Step = 1ms;
// What a thread before which nothing has precedence wakes up too late for want of a machine.
constexpr auto Late = 2ms;

struct Pause
{
    steady_clock::time_point from, to;
};

std::vector<size_t> ownProcessors()
{
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    std::vector<size_t> processors;
    for (size_t i = 0; i < CPU_SETSIZE; ++i) {
        if (CPU_ISSET(i, &set))
            processors.push_back(i);
    }
    return processors;
}

/// Ahead of every ordinary thread of that processor; false if that is not allowed.
bool takePrecedence(size_t processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    const sched_param priority{1};
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0
            && pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
}

class MachinePauses : public Contender
{
public:
    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        const auto processors = ownProcessors();
        std::vector<std::vector<Pause>> pauses(processors.size());
        std::vector<std::thread> threads;
        std::vector<int> watched(processors.size(), 0);
        const auto end = steady_clock::now() + duration;
        for (size_t i = 0; i < processors.size(); ++i) {
            threads.emplace_back([&, i] {
                watched[i] = takePrecedence(processors[i]);
                while (watched[i] && steady_clock::now() < end) {
                    const auto due = steady_clock::now() + Step;
                    std::this_thread::sleep_until(due);
                    const auto now = steady_clock::now();
                    if (now - due > Late)
                        pauses[i].push_back({due, now});
                }
            });
        }
        for (std::thread &thread : threads)
            thread.join();

        std::vector<Pause> common = pauses.front();
        for (size_t i = 1; i < pauses.size(); ++i) {
            std::vector<Pause> both;
            for (const Pause &a : common) {
                for (const Pause &b : pauses[i]) {
                    const Pause shared{std::max(a.from, b.from), std::min(a.to, b.to)};
                    if (shared.from < shared.to)
                        both.push_back(shared);
                }
            }
            common = std::move(both);
        }
        const auto toMicroseconds = [](steady_clock::time_point time) {
            return qint64(std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count());
        };
        QJsonArray list;
        for (const Pause &pause : common)
            list.append(QJsonArray{toMicroseconds(pause.from), toMicroseconds(pause.to)});
        const bool all = std::all_of(watched.cbegin(), watched.cend(), [](int one) { return one; });
        return {{QStringLiteral("watched"), all}, {QStringLiteral("pauses"), list}};
    }
};

} // namespace

std::unique_ptr<Contender> makeMachinePauses(const Setup &)
{
    return std::make_unique<MachinePauses>();
}

} // namespace Bench
