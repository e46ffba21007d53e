#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test:
#
#   packaging/test.sh          release and its whole suite; the unit and sshd tests under AddressSanitizer and UBSan
#   packaging/test.sh --full   on top of that: everything under asan, everything under tsan, fuzzing, the clang build, clang-tidy
#
# A test that is skipped counts as a failure unless tests/skips.txt names it. Works as root or with sudo; can be run again.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=packaging/packages.sh
. packaging/packages.sh
full=''
case ${1:-} in
'') ;;
--full) full=yes ;;
*)
    echo "usage: packaging/test.sh [--full]" >&2
    exit 2
    ;;
esac

install_packages "${build_packages[@]}" "${demo_packages[@]}" "${test_packages[@]}" ${full:+"${full_packages[@]}"}
install_node
prepare_sshd

# run_tests PRESET [CTEST ARGUMENT...]: fails on a failed test and on a skip that nobody has agreed to.
run_tests() {
    local preset=$1 report
    shift
    report=$PWD/build/$preset/tests.xml
    rm -f "$report"
    ctest --preset "$preset" -j "$(nproc)" --output-junit "$report" "$@" || return 1
    packaging/check-skips.sh "$report" tests/skips.txt
}

say "Release: build and the whole suite"
cmake --preset release -Wno-dev -DBUILD_TESTING=ON >/dev/null
cmake --build --preset release
run_tests release

say "AddressSanitizer and UBSan: build and the $([ -n "$full" ] && echo whole suite || echo unit and sshd tests)"
configure_and_build asan
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
if [ -n "$full" ]; then run_tests asan; else run_tests asan -L '^(unit|sshd)$'; fi

[ -n "$full" ] || exit 0

say "ThreadSanitizer: build and the whole suite"
configure_and_build tsan
# The preset has the options, so that ctest by hand does the same. Some tests fork a process that uses the libraries and
# is then killed; without die_after_fork=0 it would die before.
run_tests tsan

say "clang: build and the unit tests"
configure_and_build clang
run_tests clang -L '^unit$'

say "Fuzzing, ${FUZZ_SECONDS:=60} seconds a target"
configure_and_build fuzz
for target in build/fuzz/bin/fuzz_*; do
    [ -x "$target" ] || continue
    name=$(basename "$target")
    mkdir -p "build/fuzz/corpus/$name"
    echo "$name"
    "$target" -max_total_time="$FUZZ_SECONDS" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$name-" "build/fuzz/corpus/$name" >"build/fuzz/$name.log" 2>&1 || {
        tail -n 40 "build/fuzz/$name.log"
        exit 1
    }
    grep -E '^stat::(number_of_executed_units|new_units_added)' "build/fuzz/$name.log" || true
done

say "clang-format and clang-tidy"
git ls-files '*.h' '*.cpp' | xargs clang-format-19 --dry-run --Werror
git ls-files '*.cpp' | grep -vE '^tests/fuzz/' |
    xargs -P "$(nproc)" -n 1 clang-tidy-19 -p build/clang --quiet
echo "everything passed"
