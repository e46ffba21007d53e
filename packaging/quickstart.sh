#!/usr/bin/env bash
# From a machine that has nothing but Debian 12 to an agent's conversation with a real SSH server, in one command:
#
#   packaging/quickstart.sh
#
# It installs what the build needs, builds build/release/bin/termalin-mcp, and shows the main job: a throw-away sshd on a
# loopback port, added as a host, and an MCP conversation with it. It can be run again. Works as root or with sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=packaging/packages.sh
. packaging/packages.sh

install_packages "${build_packages[@]}" "${demo_packages[@]}"
prepare_sshd

say "Building (the first time this takes a few minutes)"
cmake --preset release -Wno-dev -DBUILD_TESTING=OFF >/dev/null
cmake --build --preset release

say "The main job: an agent's conversation with a real SSH server"
exec bash packaging/demo/run.sh build/release/bin
