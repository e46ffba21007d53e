#!/bin/sh
# Fails when docs/reports.md names a test, or a file, that is not in the sources, or leaves out one of the reports.
# $1: the source tree.
cd "$1" || exit 2
page=docs/reports.md
status=0
complain() { printf '%s: %s\n' "$page" "$1"; status=1; }

# A test stands there as `Suite.Test` (tests/FILE); of node's tests, which are sentences, as `sentence` (tests/FILE.mjs).
named=$(grep -oE '`[^`]+` \(tests/[^)]+\)' "$page" | sed -E 's/^`(.*)` \((.*)\)$/\2\t\1/' | sort -u)
[ "$(printf '%s\n' "$named" | wc -l)" -ge 30 ] || complain 'names hardly any test; has its form changed?'
tab=$(printf '\t')
while IFS="$tab" read -r file test; do
    [ -f "$file" ] || { complain "there is no $file"; continue; }
    case $file in
    *.mjs) grep -qF "test('$test'" "$file" || complain "$file has no test '$test'" ;;
    *) tr -d '\n' <"$file" | grep -qE "TEST(_F|_P)?\\( *${test%%.*}, *${test#*.}\\)" || complain "$file has no test $test" ;;
    esac
done <<END
$named
END
# A name without its file would not be looked for.
bad=$(grep -oE '`[A-Z][A-Za-z0-9]+\.[A-Z][A-Za-z0-9]+`([^ ]| [^(]|$)' "$page")
[ -z "$bad" ] || complain "without the file behind it: $bad"

for number in $(seq 37); do
    [ "$(grep -c "^| $number |" "$page")" = 1 ] || complain "report $number is not there once"
done
exit $status
