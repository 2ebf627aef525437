"""A `divan-gateway` of a test: its lines, its ports and its processes."""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from rig.node import ROOT, wait_until
from rig.ports import free_port

GATEWAY = pathlib.Path(os.environ.get("DIVAN_GATEWAY", ROOT / ".build/release/divan-gateway"))
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (.*)")


def run(*arguments):
    """Runs the program to its end; its status, standard output and error."""
    ended = subprocess.run([GATEWAY, *arguments], capture_output=True, text=True, timeout=30)
    return ended.returncode, ended.stdout, ended.stderr


def parent_of(process):
    """The parent of a process; None if there is no such process, or it waits to be reaped."""
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, parent = stat.rpartition(")")[2].split()[:2]
    return None if state in "ZX" else int(parent)


def descendants(process):
    """The running processes below one."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    parents = {number: parent_of(number) for number in numbers}
    found = [process]
    for each in found:
        found += [number for number, parent in parents.items() if parent == each]
    return found[1:]


class SyncGateway:
    """A running gateway on free ports of the loopback address."""

    def __init__(self, *arguments, prefix=()):
        self.public, self.admin = free_port(), free_port()
        self.errors = tempfile.TemporaryFile()
        command = [*prefix, str(GATEWAY), "-interface", f"127.0.0.1:{self.public}"]
        command += ["-adminInterface", f"127.0.0.1:{self.admin}", *arguments]
        self.process = subprocess.Popen(command, stderr=self.errors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.errors.close()

    @property
    def log(self):
        return os.pread(self.errors.fileno(), 1 << 20, 0).decode()

    def lines(self):
        """The lines without their times, which each must have."""
        matches = [(line, TIME.fullmatch(line)) for line in self.log.splitlines()]
        assert all(match for _, match in matches), [line for line, match in matches if not match]
        return [match[1] for _, match in matches]

    def wait_for_start(self):
        """Waits until the gateway has announced its last port."""
        wait_until(lambda: "Starting server on" in self.log or self.process.poll() is not None)
        assert self.process.poll() is None, self.log
        wait_until(lambda: self.answers(self.public))
        return self

    @staticmethod
    def answers(port):
        try:
            return SyncGateway.ask(port, "/")[0] == 200
        except OSError:
            return False

    @staticmethod
    def ask(port, path, method="GET"):
        """A status and an answer of JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def end(self, number=signal.SIGTERM):
        """Ends the gateway by a signal; its status, and the seconds that it took."""
        started = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(timeout=30), time.monotonic() - started
