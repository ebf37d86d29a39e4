// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <coroutine>
#include <exception>
#include <utility>

/// A minimal coroutine type: the coroutine starts at once, and destroying the Task destroys it where it is suspended.
/// An application that uses QCoro would use QCoro::Task<> instead.
class Task
{
public:
    struct promise_type
    {
        Task get_return_object() { return Task(Frame::from_promise(*this)); }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };

    Task(Task &&other) noexcept
        : m_frame(std::exchange(other.m_frame, nullptr))
    {
    }
    ~Task()
    {
        if (m_frame)
            m_frame.destroy();
    }

private:
    using Frame = std::coroutine_handle<promise_type>;
    explicit Task(Frame frame)
        : m_frame(frame)
    {
    }
    Frame m_frame;
};
