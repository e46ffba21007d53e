#!/bin/sh
# check-skips.sh REPORT ALLOWED: fails when a test in the JUnit REPORT of ctest did not run and the file ALLOWED (one name
# a line, # starts a comment) does not name it.
report=$1
allowed=$2
[ -s "$report" ] || { echo "no test report at $report" >&2; exit 1; }
skipped=$(sed -n 's/.*<testcase name="\([^"]*\)".*status="\(notrun\|disabled\)".*/\1/p' "$report")
status=0
for name in $skipped; do
    if ! sed 's/#.*//; s/[[:space:]]*$//' "$allowed" | grep -qxF "$name"; then
        echo "skipped, and not in $allowed: $name" >&2
        status=1
    fi
done
exit $status
