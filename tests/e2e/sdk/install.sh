#!/bin/sh
# Puts the official MCP client into a build folder, exactly as the lock file has it. $1: this folder; $2: the build's.
set -e
command -v npm >/dev/null || { echo "the tests with the official MCP client need node and npm"; exit 1; }
mkdir -p "$2"
cp "$1/sdk_test.mjs" "$2/"
cmp -s "$1/package-lock.json" "$2/package-lock.json" && [ -e "$2/node_modules/.package-lock.json" ] && exit 0
cp "$1/package.json" "$2/"
cd "$2"
cp "$1/package-lock.json" .
npm ci --no-audit --no-fund --ignore-scripts || { rm -f package-lock.json; exit 1; }
