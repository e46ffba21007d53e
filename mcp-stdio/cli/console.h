#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>

#include "core/output_buffer.h"
#include "core/result.h"
#include "core/secret.h"

namespace termalin::cli {

/// What a command line's run ends with.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUse = 2;

/// Writes to stdout: what was asked for.
void print(std::string_view text);
/// Writes one line to stderr, after the program's name: what the person should know beside the answer.
void remark(std::string_view text);

template <class... T>
void say(fmt::format_string<T...> format, T&&... arguments)
{
    print(fmt::format(format, std::forward<T>(arguments)...) + "\n");
}

template <class... T>
void note(fmt::format_string<T...> format, T&&... arguments)
{
    remark(fmt::format(format, std::forward<T>(arguments)...));
}

/// Reports a failure on stderr and gives the exit code for it: kWrongUse for InvalidArgument, else kFailed.
int report(Error const& error);

/// Whether there is a person to ask: stdin and stderr are both a terminal.
[[nodiscard]] bool canAsk();

/// Asks on the terminal; anything but "y" or "yes" is no, and so is the end of input.
[[nodiscard]] bool askYes(std::string_view question);

/// Reads a line from the terminal without showing it. Errors: InvalidArgument where there is no terminal;
/// Cancelled on Ctrl+C or Ctrl+D.
Result<Secret> askSecret(std::string_view prompt);
/// The same twice, for a new secret. Errors: also InvalidArgument when the two differ.
Result<Secret> askNewSecret(std::string_view prompt);

/// Reads one line, or what there is up to the end, from a descriptor that the caller of the program has
/// opened; the line's end is not part of it. Not one byte behind the line is read, so that a second secret
/// can follow. At most 64 KiB. Errors: InvalidArgument for a descriptor that cannot be read or has nothing.
Result<Secret> readSecretFrom(int fd);

} // namespace termalin::cli
