#!/usr/bin/env bash
# How fast our SFTP and tunnels are beside scp, sftp and `ssh -L`, with the same cipher, through the same server.
#
#   tests/bench/throughput.sh [BUILD_FOLDER] [MIB] [RUNS]          default: build/release, 512 and 5
#
# Starts an sshd of its own on a loopback port for the account that runs it and ends it. For the long way a relay of
# ours holds every byte back for half of 50 ms each way. Prints median and p95 of the rate in MiB/s, and the ratio of
# the medians. A rival that is missing is a failure.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$here/build/release}
mib=${2:-512}
runs=${3:-5}
ours=$build/bin/bench_throughput
cipher=aes128-gcm@openssh.com
[ -x "$ours" ] || { echo "throughput: build bench_throughput first (ninja -C $build bench_throughput)" >&2; exit 1; }
for rival in scp sftp ssh; do
    command -v "$rival" >/dev/null || { echo "throughput: $rival is missing; install openssh-client" >&2; exit 1; }
done
sshd=$(command -v sshd || echo /usr/sbin/sshd)
[ -x "$sshd" ] || { echo "throughput: sshd is missing; install openssh-server" >&2; exit 1; }

work=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
ssh-keygen -q -t ed25519 -N '' -f "$work/host"
ssh-keygen -q -t ed25519 -N '' -f "$work/key"
cp "$work/key.pub" "$work/authorized"
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd

# A free port is asked of the kernel by our own relay, which is then ended.
free_port() { "$ours" relay 1 0 >"$work/free" & local pid=$!; until [ -s "$work/free" ]; do sleep 0.05; done; kill $pid; cat "$work/free"; : >"$work/free"; }
port=$(free_port)
cat >"$work/config" <<END
Port $port
ListenAddress 127.0.0.1
HostKey $work/host
AuthorizedKeysFile $work/authorized
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
Ciphers $cipher
Subsystem sftp internal-sftp
END
"$sshd" -D -f "$work/config" -E "$work/log" &
pids+=($!)
"$ours" relay "$port" 50 >"$work/relay" &
pids+=($!)
"$ours" source $((mib << 20)) >"$work/source" &
pids+=($!)
# Between two looks at something that must come: what is to bring it must still be there.
still_coming() {
    for pid in "${pids[@]}"; do
        kill -0 "$pid" 2>/dev/null || { echo "throughput: a program that this needs has ended" >&2; cat "$work/log" >&2; exit 1; }
    done
    sleep 0.1
}
until [ -s "$work/relay" ] && [ -s "$work/source" ] && ssh-keyscan -p "$port" 127.0.0.1 2>/dev/null | grep -q .; do still_coming; done
far=$(cat "$work/relay")
source_port=$(cat "$work/source")
for each in "$port" "$far"; do echo "[127.0.0.1]:$each $(cut -d' ' -f1,2 "$work/host.pub")"; done >"$work/known"
user=$(id -un)
head -c $((mib << 20)) /dev/urandom >"$work/file"

options=(-F none -q -c "$cipher" -i "$work/key" -o "UserKnownHostsFile=$work/known" -o IdentitiesOnly=yes -o BatchMode=yes)
seconds() { local s; s=$(date +%s.%N); "$@" >/dev/null; awk -v a="$s" -v b="$(date +%s.%N)" 'BEGIN { print b - a }'; }
us() { "$ours" "$1" 127.0.0.1 "$2" "$user" "$work/key" "$work/known" "$3" "$4"; }
same() { cmp -s "$work/file" "$1" || { echo "throughput: $1 is not what was sent" >&2; exit 1; }; rm -f "$1"; }

measure() { # measure NAME PORT: one run of each of ours, scp and sftp, in turn
    case $1 in
    ours-down) us get "$2" "$work/got" "$work/file"; same "$work/got" ;;
    ours-up) us put "$2" "$work/file" "$work/put"; same "$work/put" ;;
    scp-down) seconds scp "${options[@]}" -P "$2" "$user@127.0.0.1:$work/file" "$work/got"; same "$work/got" ;;
    scp-up) seconds scp "${options[@]}" -P "$2" "$work/file" "$user@127.0.0.1:$work/put"; same "$work/put" ;;
    sftp-down) seconds sftp "${options[@]}" -P "$2" "$user@127.0.0.1:$work/file" "$work/got"; same "$work/got" ;;
    esac
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
slowest() { sort -n | awk '{ v[NR] = $1 } END { i = int(NR * 0.95 + 0.999); if (i > NR) i = NR; print v[i] }'; }
declare -A middle
show() { # show LABEL FILE_OF_SECONDS
    middle[$1]=$(median <"$2")
    awk -v n="$1" -v m="${middle[$1]}" -v p="$(slowest <"$2")" -v mib="$mib" \
        'BEGIN { printf "%-22s median %7.1f MiB/s   p95 %7.1f MiB/s\n", n, mib / m, mib / p }'
}
failed=0
ratio() { # ratio OURS RIVAL BAR
    awk -v a="${middle[$1]}" -v b="${middle[$2]}" -v bar="$3" -v n="$1 / $2" \
        'BEGIN { r = b / a; low = (r < bar); printf "%-36s %.2f x   (bar %s) %s\n", n, r, bar, (low ? "BELOW" : "ok"); exit low }' || failed=1
}

for way in near far; do
    at=$port
    [ $way = near ] || at=$far
    names="ours-down scp-down sftp-down ours-up scp-up"
    for ((run = 0; run < runs; run++)); do
        for name in $names; do measure "$name" "$at" >>"$work/$way-$name"; done
    done
    for name in $names; do show "$way $name" "$work/$way-$name"; done
done

"$ours" tunnel 127.0.0.1 "$port" "$user" "$work/key" "$work/known" "$source_port" >"$work/tunnel" < <(exec tail --pid=$$ -f /dev/null) &
pids+=($!)
rival_port=$(free_port)
ssh "${options[@]}" -p "$port" -N -L "127.0.0.1:$rival_port:127.0.0.1:$source_port" "$user@127.0.0.1" &
pids+=($!)
until [ -s "$work/tunnel" ] && (exec 3<>"/dev/tcp/127.0.0.1/$rival_port") 2>/dev/null; do still_coming; done
for ((run = 0; run < runs; run++)); do
    "$ours" drain "$(cat "$work/tunnel")" >>"$work/t-ours"
    "$ours" drain "$rival_port" >>"$work/t-ssh"
done
show "tunnel ours" "$work/t-ours"
show "tunnel ssh-L" "$work/t-ssh"

ratio "near ours-down" "near scp-down" 0.4
ratio "near ours-up" "near scp-up" 0.75
ratio "far ours-down" "far scp-down" 2
ratio "far ours-up" "far scp-up" 1.1
ratio "tunnel ours" "tunnel ssh-L" 0.8
exit $failed
