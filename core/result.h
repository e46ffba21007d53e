#pragma once

#include <expected>
#include <utility>

#include "core/error.h"

namespace termalin {

/// A value or the Error that stands in its place.
template <class T>
using Result = std::expected<T, Error>;

} // namespace termalin

#define TERMALIN_JOIN_IMPL(a, b) a##b
#define TERMALIN_JOIN(a, b) TERMALIN_JOIN_IMPL(a, b)

/// Returns the error of a Result to the caller, or goes on.
#define TRY(...)                                              \
    do {                                                      \
        if (auto tried = (__VA_ARGS__); !tried)               \
            return std::unexpected(std::move(tried).error()); \
    } while (false)

/// TRY_LET(auto channel, open(session)); unwraps a Result into a new variable or returns its error.
#define TRY_LET(declaration, ...)                                                  \
    auto TERMALIN_JOIN(tried, __LINE__) = (__VA_ARGS__);                           \
    if (!TERMALIN_JOIN(tried, __LINE__))                                           \
        return std::unexpected(std::move(TERMALIN_JOIN(tried, __LINE__)).error()); \
    declaration = *std::move(TERMALIN_JOIN(tried, __LINE__))
