# What the build and the tests need of the distribution, and how to install it. Sourced by the scripts beside it.
# shellcheck shell=bash

build_packages=(
    ca-certificates debian-archive-keyring dpkg-dev g++ cmake ninja-build ccache patch pkg-config
    libfmt-dev libcli11-dev nlohmann-json3-dev libsqlite3-dev libsodium-dev libsecret-1-dev libssl-dev zlib1g-dev
)
# What the main job and every test on top of that run against.
demo_packages=(openssh-client openssh-server openssh-sftp-server)
test_packages=(
    libgtest-dev libgmock-dev
    bash dash busybox zsh mksh fish tcsh procps gawk util-linux mount time iproute2
    libnss-wrapper libpam-wrapper gnome-keyring dbus-daemon libsecret-tools
    curl netcat-openbsd socat python3 mandoc
)
full_packages=(git clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev)

say() { printf '\n== %s\n' "$*"; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "This needs root to install packages: run it as root, or install sudo, or install these yourself: $*" >&2
        return 1
    fi
}

# install_packages NAME...: installs what is missing, and asks nothing of anybody when nothing is.
install_packages() {
    local missing=() name
    for name in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "Installing from the distribution: ${missing[*]}"
    # A server that comes with a package is for the tests to start, on loopback; installing must start nothing.
    local policy=/usr/sbin/policy-rc.d made_policy=''
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
        made_policy=yes
    fi
    local status=0
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
            -o Dpkg::Options::=--force-confold -o Dpkg::Use-Pty=0 "${missing[@]}" </dev/null >/dev/null || status=$?
    [ -z "$made_policy" ] || as_root rm -f "$policy"
    return "$status"
}

# The test of the official client needs Node.js 18 or later; any that is here will do.
install_node() {
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        install_packages nodejs npm
    fi
}

# sshd separates privileges in this folder, which only its service script would make.
prepare_sshd() {
    [ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd
}

configure_and_build() { # configure_and_build PRESET [TARGET...]
    local preset=$1 said
    shift
    said=$(cmake --preset "$preset" -Wno-dev 2>&1) || {
        printf '%s\n' "$said" >&2
        return 1
    }
    cmake --build --preset "$preset" ${1:+--target "$@"}
}
