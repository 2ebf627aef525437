"""A checkout of the launcher's own, and the commands of `cluster/` in it."""

import fcntl
import json
import os
import pathlib
import pty
import signal
import socket
import struct
import subprocess
import termios
from concurrent.futures import ThreadPoolExecutor

from . import rest
from .node import PASSWORD, ROOT, SERVER, USER
from .ports import WORKER

LAUNCHER = ROOT / ".build/release/divan-cluster"


def free_offset():
    """An offset at which the ports of three nodes are free, another one for each worker."""
    for offset in range(1_000 + 500 * WORKER, 40_000, 337):
        try:
            for node in range(3):
                for port in (11210, 8091, 8092, 21100, 11207, 18091, 18092):
                    with socket.create_server(("127.0.0.1", port + offset + 100 * node)):
                        pass
            return offset
        except OSError:
            continue
    raise LookupError("no free ports")


def read_all(terminal):
    """Reads until the last writer has closed it."""
    parts = []
    while True:
        try:
            parts.append(os.read(terminal, 1 << 16))
        except OSError:
            return b"".join(parts).decode()


class Checkout:
    """A checkout of its own for the launcher, with the server that was built."""

    def __init__(self, path):
        assert LAUNCHER.exists(), f"{LAUNCHER} is not built: run make build"
        self.path = path
        programs = path / ".build/release"
        programs.mkdir(parents=True)
        (programs / "divan-server").symlink_to(SERVER)
        (programs / "divan-bench").symlink_to(LAUNCHER.with_name("divan-bench"))
        (path / "benchmarks").symlink_to(ROOT / "benchmarks")
        self.offset = free_offset()

    def run(self, *arguments, code=0, seconds=60, **environment):
        result = subprocess.run(
            [str(LAUNCHER), *arguments],
            env={**os.environ, "DIVAN_CHECKOUT": str(self.path), **environment},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert result.returncode == code, result.stdout + result.stderr
        return result.stdout + result.stderr

    def watch(self, *arguments, columns=80, seconds=120):
        """The output of a command, and its progress on a terminal."""
        terminal, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        with ThreadPoolExecutor(1) as pool:
            try:
                shown = pool.submit(read_all, terminal)
                result = subprocess.run(
                    [str(LAUNCHER), *arguments],
                    env={**os.environ, "DIVAN_CHECKOUT": str(self.path)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=screen,
                    text=True,
                    timeout=seconds,
                    check=False,
                )
            finally:
                # No other process has it open: the reader gets to its end.
                os.close(screen)
            text = shown.result()
        os.close(terminal)
        assert result.returncode == 0, result.stdout + text
        return result.stdout, text

    def launch(self, *arguments):
        """A command in the background of the test; a terminal may interrupt it."""
        return subprocess.Popen(
            [str(LAUNCHER), *arguments, "--port-offset", str(self.offset)],
            env={**os.environ, "DIVAN_CHECKOUT": str(self.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )

    def hold_back(self, node):
        """Replaces a node's server with one that never becomes ready."""
        program = self.path / ".build/release/divan-server"
        program.unlink()
        program.write_text(
            f"#!/bin/sh\ncase \"$*\" in *node-{node}*) while :; do sleep 1; done ;; esac\n"
            f'exec {SERVER} "$@"\n'
        )
        program.chmod(0o755)

    def release(self):
        program = self.path / ".build/release/divan-server"
        program.unlink()
        program.symlink_to(SERVER)

    def processes(self):
        """The numbers of the processes that serve nodes of this checkout, dead ones not counted."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--data" in words and any(str(self.path).encode() in word for word in words):
                found.append(int(path.name))
        return sorted(found)

    def start(self, *arguments, **options):
        return self.run("start", "--port-offset", str(self.offset), *arguments, **options)

    def status(self):
        return json.loads(self.run("status", "--json"))

    @property
    def admin(self):
        return rest.Rest(8091 + self.offset, (USER, PASSWORD))

    def demo(self, *arguments, **options):
        return self.run("demo", "--port-offset", str(self.offset), *arguments, **options)

    @property
    def memberships(self):
        """The cluster's state of each node; None for one in no cluster."""
        return [node.get("membership") for node in self.status()["nodes"]]

    @property
    def is_rebalancing(self):
        tasks = self.admin.get("/pools/default/tasks").json
        return any(task["type"] == "rebalance" and task["status"] == "running" for task in tasks)
