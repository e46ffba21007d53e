#!/usr/bin/env python3
"""Compares termalin-mcp with what people use otherwise, both in one run, and prints the ratios.

    tests/bench/agent_bench.py [--bin build/release/bin/termalin-mcp] [--runs 200] [--only NAME ...]

The server is a real sshd on a loopback port (sshd -i for each accepted connection), the account has /bin/sh and no rc
files. Needs sshd, ssh, libnss-wrapper, node and npm; mcp-ssh-manager is installed from tests/bench/package-lock.json into the
build folder. A missing rival is a failure. The exit code is 1 when a bar is missed, so that a script can tell.

Ours is measured as an MCP client sees it: from writing the request to having read the whole reply, in this Python
process. `ssh` is measured as a whole process. Times are milliseconds.
"""

import argparse
import json
import os
import pathlib
import pwd
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NSS_WRAPPER = "libnss_wrapper.so"


class Sshd:
    """A real sshd: this process listens and hands each connection to `sshd -i`."""

    def __init__(self, folder, extra=""):
        self.folder = folder
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        (folder / "authorized_keys").write_text((folder / "user.pub").read_text())
        home = folder / "account"
        home.mkdir()
        me = pwd.getpwuid(os.getuid())
        (folder / "passwd").write_text(
            f"bench:x:{me.pw_uid}:{me.pw_gid}::{home}:/bin/sh\n"
            + "".join(":".join(map(str, entry)) + "\n" for entry in pwd.getpwall() if entry.pw_name == "sshd")
        )
        (folder / "group").write_text(f"bench:x:{me.pw_gid}:\n")
        (folder / "sshd_config").write_text(
            f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nPermitRootLogin yes\nMaxSessions 300\nMaxStartups 300\nUseDNS no\n"
            f"PrintMotd no\nPrintLastLog no\nSubsystem sftp internal-sftp\n{extra}"
        )
        if os.getuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(256)
        self.port = self.listener.getsockname()[1]
        self.children = []
        self.started = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        environment = dict(
            os.environ,
            LD_PRELOAD=NSS_WRAPPER,
            NSS_WRAPPER_PASSWD=str(self.folder / "passwd"),
            NSS_WRAPPER_GROUP=str(self.folder / "group"),
        )
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with client:
                self.children.append(
                    subprocess.Popen(
                        ["/usr/sbin/sshd", "-i", "-f", self.folder / "sshd_config", "-E", self.folder / "log"],
                        stdin=client, stdout=client, stderr=client, env=environment,
                    )
                )
            self.children = [child for child in self.children if child.poll() is None]
            self.started += 1

    def come_to_rest(self, started, alive):
        """Waits until so many connections have been taken and have logged in, and so many are left."""
        limit = time.monotonic() + 20
        while True:
            log = self.folder / "log"
            logged_in = log.read_text().count("Accepted ") if log.exists() else 0
            left = sum(child.poll() is None for child in self.children)
            if self.started == started and logged_in == started and left == alive:
                return
            if time.monotonic() > limit:
                raise RuntimeError(f"{self.started} connections, {logged_in} logins and {left} left; "
                                   f"{started} and {alive} were expected")
            time.sleep(0.01)

    def close(self):
        self.listener.close()
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.wait()

    def ssh_config(self):
        file = self.folder / "ssh_config"
        (self.folder / "known_hosts").write_text(
            f"[127.0.0.1]:{self.port} " + " ".join((self.folder / "host.pub").read_text().split()[:2]) + "\n"
        )
        file.write_text(
            f"Host bench\n HostName 127.0.0.1\n Port {self.port}\n User bench\n IdentityFile {self.folder}/user\n"
            f" IdentitiesOnly yes\n UserKnownHostsFile {self.folder}/known_hosts\n GlobalKnownHostsFile /dev/null\n"
            " BatchMode yes\n LogLevel ERROR\n"
        )
        return file


class Client:
    """One MCP server process and a conversation with it."""

    def __init__(self, command, environment, cwd=None):
        self.started = time.perf_counter()
        self.process = subprocess.Popen(command, env=environment, cwd=cwd, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        self.buffer = bytearray()
        self.last = 0

    def send(self, method, params=None, notify=False):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if not notify:
            self.last += 1
            message["id"] = self.last
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        return self.last

    def line(self, timeout=60):
        searched = 0
        while (end := self.buffer.find(b"\n", searched)) < 0:
            searched = len(self.buffer)
            if not select.select([self.process.stdout], [], [], timeout)[0]:
                raise RuntimeError("no reply in time")
            got = os.read(self.process.stdout.fileno(), 1 << 16)  # mapping a larger buffer takes 0.3 ms
            if not got:
                raise RuntimeError("the server ended")
            self.buffer += got
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 1]
        return line

    def reply(self, wanted):
        while True:
            message = json.loads(self.line())
            if message.get("id") == wanted:
                if "error" in message:
                    raise RuntimeError(message["error"])
                return message["result"]

    def request(self, method, params=None):
        return self.reply(self.send(method, params))

    def initialize(self):
        result = self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                             "clientInfo": {"name": "bench", "version": "1"}})
        self.send("notifications/initialized", notify=True)
        return result

    def call(self, tool, **arguments):
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(result["content"][0]["text"])
        return result.get("structuredContent", result)

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def timed(action):
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def describe(times):
    times = sorted(times)
    return statistics.median(times), times[min(len(times) - 1, int(len(times) * 0.95))]


class Report:
    def __init__(self):
        self.missed = 0

    def pair(self, name, ours, theirs, rival, bar):
        (mine, mine95), (other, other95) = describe(ours), describe(theirs)
        ratio = mine / other
        verdict = "ok" if ratio <= bar else "MISSED"
        self.missed += ratio > bar
        print(f"{name}\n    termalin-mcp  median {mine:8.2f}  p95 {mine95:8.2f}  ({len(ours)} runs)\n"
              f"    {rival:<13} median {other:8.2f}  p95 {other95:8.2f}  ({len(theirs)} runs)\n"
              f"    ratio {ratio:.3f}  bar {bar}  {verdict}", flush=True)

    def value(self, name, value, unit, bar):
        verdict = "ok" if value <= bar else "MISSED"
        self.missed += value > bar
        print(f"{name}\n    {value:.1f} {unit}  bar {bar} {unit}  {verdict}", flush=True)


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.report = options, folder, Report()
        self.program = str(pathlib.Path(options.bin).resolve())
        self.home = folder / "home"
        self.environment = {"PATH": os.environ["PATH"], "TERMALIN_HOME": str(self.home), "LANG": "C.UTF-8"}
        server = folder / "server"
        server.mkdir()
        self.sshd = Sshd(server)
        self.config = self.sshd.ssh_config()
        self.command_line("host", "add", "bench", f"bench@127.0.0.1:{self.sshd.port}", "--key", str(server / "user"),
                          "--known-hosts", str(server / "known_hosts"), "--policy", "full", "--yes")

    def command_line(self, *arguments, home=None):
        environment = dict(self.environment, **({"TERMALIN_HOME": str(home)} if home else {}))
        done = subprocess.run([self.program, *arguments], env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stdout}{done.stderr}")

    def ours(self, home=None):
        environment = dict(self.environment, **({"TERMALIN_HOME": str(home)} if home else {}))
        return Client([self.program], environment)

    def rival(self):
        if not shutil.which("node") or not shutil.which("npm"):
            sys.exit("the rival needs node and npm: a comparison without it is none")
        folder = ROOT / "build" / "bench"
        folder.mkdir(parents=True, exist_ok=True)
        entry = folder / "node_modules" / "mcp-ssh-manager" / "src" / "index.js"
        if not entry.exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, folder)
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"], cwd=folder, check=True)
        return Client(["node", str(entry)], dict(self.environment, HOME=str(self.folder)), cwd=self.folder)

    def ssh(self, *arguments):
        subprocess.run(["ssh", "-F", self.config, *arguments], check=True, stdin=subprocess.DEVNULL)

    # -- the rows ---------------------------------------------------------------------------------

    def start(self):
        def until_listed(make):
            client = make()
            client.initialize()
            client.request("tools/list")
            took = (time.perf_counter() - client.started) * 1000
            client.close()
            return took

        self.rival().close()  # installs it
        runs = min(self.options.runs, 40)  # the rival takes half a second each
        ours, theirs = [], []
        for _ in range(runs):
            ours.append(until_listed(self.ours))
            theirs.append(until_listed(self.rival))
        self.report.pair("start to answered tools/list", ours, theirs, "mcp-ssh-manager", 0.1)

    def session_exec(self):
        control = str(self.folder / "control")
        master = subprocess.Popen(["ssh", "-F", self.config, "-M", "-S", control, "-N", "bench"], stdin=subprocess.DEVNULL)
        while subprocess.run(["ssh", "-F", self.config, "-S", control, "-O", "check", "bench"],
                             capture_output=True).returncode != 0:
            if master.poll() is not None:
                sys.exit("the ssh master did not start")
        client = self.ours()
        client.initialize()
        session = client.call("session_open", host="bench")["sessionId"]
        ours, theirs = [], []
        for _ in range(self.options.runs):
            ours.append(timed(lambda: client.call("session_exec", session=session, command="true")))
            theirs.append(timed(lambda: self.ssh("-S", control, "bench", "true")))
        client.close()
        master.send_signal(signal.SIGTERM)
        master.wait()
        self.report.pair("session_exec true, warm", ours, theirs, "ssh (master)", 0.4)

    def ssh_exec(self):
        first, spare, theirs = [], [], []
        for _ in range(max(20, self.options.runs // 4)):
            done = self.sshd.started  # nothing is measured while something else begins or ends on the server
            client = self.ours()
            client.initialize()
            first.append(timed(lambda: client.call("ssh_exec", host="bench", command="true")))
            self.sshd.come_to_rest(done + 2, 1)  # the spare is there
            theirs.append(timed(lambda: self.ssh("bench", "true")))
            self.sshd.come_to_rest(done + 3, 1)
            spare.append(timed(lambda: client.call("ssh_exec", host="bench", command="true")))
            self.sshd.come_to_rest(done + 4, 1)
            client.close()
            self.sshd.come_to_rest(done + 4, 0)
        self.report.pair("ssh_exec true, first", first, theirs, "ssh host true", 0.3)
        self.report.pair("ssh_exec true, with the spare", spare, theirs, "ssh host true", 0.05)

    def concurrent(self):
        client = self.ours()
        client.initialize()
        session = client.call("session_open", host="bench")["sessionId"]
        params = {"name": "session_exec", "arguments": {"session": session, "command": "true"}}

        def together():
            ids = {client.send("tools/call", params) for _ in range(200)}
            while ids:
                message = json.loads(client.line())
                if message["result"].get("isError") or message["result"]["structuredContent"].get("exitCode") != 0:
                    raise RuntimeError(message)
                ids.discard(message["id"])

        def one_by_one():
            for _ in range(200):
                client.request("tools/call", params)

        together()
        ours, theirs = [], []
        for _ in range(7):
            ours.append(timed(together))
            theirs.append(timed(one_by_one))
        client.close()
        self.report.pair("200 session_exec true at once", ours, theirs, "one by one", 1.0)

    def memory(self):
        client = self.ours()
        client.initialize()
        for _ in range(10):
            session = client.call("session_open", host="bench")["sessionId"]
            client.call("session_exec", session=session, command="true")
        rollup = pathlib.Path(f"/proc/{client.process.pid}/smaps_rollup").read_text()
        pss = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        client.close()
        self.report.value("memory with ten sessions (PSS)", pss / 1024, "MiB", 25)

    def hosts(self):
        home = pathlib.Path(tempfile.mkdtemp(prefix="termalin-bench-", dir="/dev/shm"))  # filling it costs no disk syncs
        subprocess.run([pathlib.Path(self.program).parent / "bench_many_hosts", "10000"], check=True,
                       env=dict(self.environment, TERMALIN_HOME=str(home)))
        times = []
        for _ in range(20):
            client = self.ours(home)
            client.initialize()
            client.send("tools/call", {"name": "hosts_list", "arguments": {}})
            line = client.line()
            times.append((time.perf_counter() - client.started) * 1000)
            listed = json.loads(line)["result"]["structuredContent"]["hosts"]
            client.close()
            if len(listed) != 10000:
                sys.exit(f"hosts_list gave {len(listed)} of 10000 hosts")
        shutil.rmtree(home)
        self.report.value("start to answered hosts_list, 10,000 hosts", statistics.median(times), "ms", 150)


ROWS = ("start", "session_exec", "ssh_exec", "concurrent", "memory", "hosts")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin/termalin-mcp"))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", nargs="*", choices=ROWS, default=ROWS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="termalin-bench-") as folder:
        bench = Bench(options, pathlib.Path(folder))
        try:
            for row in options.only:
                getattr(bench, row)()
        finally:
            bench.sshd.close()
    return 1 if bench.report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
