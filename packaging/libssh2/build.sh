#!/usr/bin/env bash
# Builds a static libssh2 1.11.1 from Debian 13's patched source package and installs it below PREFIX.
#
#   packaging/libssh2/build.sh PREFIX [C_FLAGS]
#
# The source comes through apt with this machine's own mirror and Debian's own signing keys, so its hashes are
# verified by the signed Release file; nothing of it is kept in the repository. On top go the patches of
# packaging/libssh2/patches, in the order of their names. Run again, it does nothing while the source package's
# version and the patches are the ones that PREFIX was built from. See docs/decisions/001-libssh2.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:?usage: packaging/libssh2/build.sh PREFIX [C_FLAGS]}
flags=${2:-}
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
stamp=$prefix/built-from

wanted=$({ echo "$flags"; cat "$here/version" "$here/build.sh" "$here"/patches/*.patch; } | sha256sum | cut -d' ' -f1)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# An apt of its own: the machine's configuration and package lists are neither used for writing nor changed.
mkdir -p "$work"/apt/{state/lists/partial,cache/archives/partial,etc/apt.conf.d,etc/preferences.d,etc/trusted.gpg.d}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# The first Debian mirror that this machine names, in either format of sources list.
mirror_of() { # mirror_of SUITE_PATTERN
    {
        awk -v want="$1" '
            /^URIs:/ { uri = $2 }
            /^Suites:/ { for (i = 2; i <= NF; i++) if ($i ~ want) found = 1 }
            /^$/ { if (found && uri) { print uri; exit } uri = ""; found = 0 }
            END { if (found && uri) print uri }' /etc/apt/sources.list.d/*.sources 2>/dev/null
        awk -v want="$1" '/^deb / { u = $2; s = $3; if (u ~ /^\[/) { u = $0; sub(/^deb \[[^]]*\] */, "", u);
            split(u, p, " "); u = p[1]; s = p[2] } if (s ~ want) { print u; exit } }' \
            /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null
    } | head -n 1 || true
}
main=$(mirror_of '^[a-z]+$')
security=$(mirror_of '-security$')
[ -n "$main" ] || { echo "libssh2: this machine names no Debian mirror in /etc/apt; add one and run this again" >&2; exit 1; }
{
    echo "deb-src [signed-by=$keyring] $main trixie main"
    [ -z "$security" ] || echo "deb-src [signed-by=$keyring] $security trixie-security main"
} >"$work/apt/etc/sources.list"
apt_options=(-o Dir::State="$work/apt/state" -o Dir::Cache="$work/apt/cache" -o Dir::Etc="$work/apt/etc"
    -o Dir::Etc::sourcelist="$work/apt/etc/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::status=/dev/null
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=3 -o Debug::NoLocking=1)
# How this machine reaches its mirror (proxy, certificates, clock checks) stays in force.
for part in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
    if [ -f "$part" ] && grep -qE '^ *Acquire(::| *\{)' "$part"; then
        cp "$part" "$work/apt/etc/apt.conf.d/"
    fi
done

version=$(cat "$here/version")
echo "libssh2: fetching the source package $version (Debian 13)"
apt-get "${apt_options[@]}" -qq update
fetch() { (cd "$work" && apt-get "${apt_options[@]}" -qq source "$1" >"$work/source.log" 2>&1); }
# A security update takes the older version off the mirror: then the newest is the one to have, if the patches still fit.
fetch "libssh2=$version" || { echo "libssh2: $version is gone from the mirror; taking the newest of Debian 13" && fetch libssh2; } || {
    cat "$work/source.log" >&2
    echo "libssh2: Debian 13's source package is not to be had through this machine's apt mirror (above is why)" >&2
    exit 1
}
source=$(find "$work" -maxdepth 1 -type d -name 'libssh2-*' | head -n 1)
for patch in "$here"/patches/*.patch; do
    [ -f "$patch" ] || continue
    patch -d "$source" -p1 --no-backup-if-mismatch -s <"$patch" || {
        echo "libssh2: $(basename "$patch") does not fit $(basename "$source"); it was made for $version" >&2
        exit 1
    }
done

echo "libssh2: building"
cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCRYPTO_BACKEND=OpenSSL -DBUILD_SHARED_LIBS=OFF -DBUILD_STATIC_LIBS=ON \
    -DENABLE_ZLIB_COMPRESSION=ON -DBUILD_EXAMPLES=OFF -DBUILD_TESTING=OFF \
    -DCMAKE_C_FLAGS="$flags" >"$work/cmake.log" 2>&1 || {
    tail -n 30 "$work/cmake.log" >&2
    exit 1
}
ninja -C "$work/build" install >"$work/ninja.log" 2>&1 || {
    tail -n 30 "$work/ninja.log" >&2
    exit 1
}
echo "$wanted" >"$stamp"
echo "libssh2: installed below $prefix"
