#!/usr/bin/env bash
# The main job, shown: a throw-away OpenSSH server on a loopback port, saved as a host, and an agent's conversation with it.
#   packaging/demo/run.sh BINDIR
# BINDIR is where the build put termalin-mcp and termalin-demo. Everything that is started or written is gone afterwards.
set -euo pipefail
bin=${1:?usage: packaging/demo/run.sh BINDIR}
"$bin/termalin-demo" "$bin/termalin-mcp"

cat <<TEXT

For your own servers:
  $bin/termalin-mcp host add NAME USER@ADDRESS --policy allowlist --allow 'systemctl status * --no-pager'
  $bin/termalin-mcp host trust NAME
and for Claude Code (others: termalin-mcp install --help):
TEXT
"$bin/termalin-mcp" install claude --print 2>/dev/null | sed 's/^/  /'
