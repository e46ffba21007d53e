#pragma once

#include <mutex>
#include <utility>

namespace termalin {

/// A value that can be reached only while its mutex is held:
///     guarded.access()->push_back(x);
/// Keep an Access no longer than the statement or block that needs it, and call out of the program's own code
/// (callbacks, other objects that lock) without one.
template <class T>
class Guarded {
public:
    class Access {
    public:
        T* operator->() { return m_value; }
        T& operator*() { return *m_value; }
        /// For condition variables.
        std::unique_lock<std::mutex>& lock() { return m_lock; }

    private:
        friend class Guarded;
        Access(std::mutex& mutex, T& value) : m_lock(mutex), m_value(&value) {}

        std::unique_lock<std::mutex> m_lock;
        T* m_value;
    };

    Guarded() = default;
    explicit Guarded(T value) : m_value(std::move(value)) {}

    [[nodiscard]] Access access() { return Access(m_mutex, m_value); }

private:
    std::mutex m_mutex;
    T m_value{};
};

} // namespace termalin
