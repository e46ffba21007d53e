#!/bin/sh
# Fails when a layer includes a header that it may not: of a layer above it, or a library's where it must not show.
# $1: the source tree. See ARCHITECTURE.md, "Layers".
cd "$1" || exit 2
status=0

only() { # only LAYER ALLOWED: what LAYER may include of ours, separated by |
    [ -d "$1" ] || return 0
    bad=$(grep -rnE '^#include "' "$1" --include='*.h' --include='*.cpp' | grep -vE "#include \"($2)/")
    [ -z "$bad" ] || { printf '%s may include only %s, written from the root:\n%s\n' "$1" "$2" "$bad"; status=1; }
}
only core 'core'
only ssh 'core|ssh'
only data 'core|data'
only mcp-stdio 'core|ssh|mcp-stdio'
only ui 'core|ssh|data|ui'

public='target|credentials|saved_credentials|route|connection|sftp|tunnel|shell|known_hosts|lookup|ssh_config|ssh_config_import|wire'
bad=$(grep -rnE '^#include "ssh/' mcp-stdio ui data app --include='*.h' --include='*.cpp' 2>/dev/null |
    grep -vE "#include \"ssh/($public)\\.h\"")
[ -z "$bad" ] || { printf 'only these headers of ssh are for others (%s):\n%s\n' "$public" "$bad"; status=1; }

libraries='Q[A-Z]|libssh2|libpq|mysql|mariadb|hiredis|sqlite3|sodium|libsecret|curl|openssl'
bad=$(grep -rnE "^#include <($libraries)" core mcp-stdio ssh data --include='*.h' 2>/dev/null |
    grep -vE '^(ssh/(session|channel|userauth|detail[a-z_]*)\.h):')
[ -z "$bad" ] || { printf 'no Qt and no third-party library in a header that others include:\n%s\n' "$bad"; status=1; }
bad=$(grep -rnE '^#include <Q[A-Z]' core mcp-stdio ssh data --include='*.cpp' 2>/dev/null)
[ -z "$bad" ] || { printf 'Qt is for ui and app only:\n%s\n' "$bad"; status=1; }
exit $status
