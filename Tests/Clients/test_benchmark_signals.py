"""Signals that end a load early, with its report."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import termios
import time

import pytest

from rig.node import PASSWORD, ROOT, USER

BENCH = ROOT / ".build/release/divan-bench"


@pytest.mark.parametrize("kind", ["steady", "check"])
def test_load_whose_terminal_closes_ends_early_and_writes_its_report(node, bucket, tmp_path, kind):
    """The progress line can no longer be written to the terminal."""
    report = tmp_path / "report.json"
    terminal, screen = pty.openpty()

    def own_terminal():
        os.setsid()
        fcntl.ioctl(screen, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    workload = [str(ROOT / "benchmarks/workloads/set50-100.json")] if kind == "steady" else []
    command = [
        str(BENCH), kind, *workload, "--bootstrap", f"127.0.0.1:{node.kv_port}", "--user", USER,
        "--password", PASSWORD, "--bucket", bucket, "--keys", "50", "--rate", "200",
        "--seconds", "60", "--json", str(report),
    ]
    with subprocess.Popen(
        command, stdin=screen, stdout=screen, stderr=screen, preexec_fn=own_terminal
    ) as load:
        os.close(screen)
        # It shows progress: the load runs.
        shown = b""
        deadline = time.monotonic() + 20
        while b"\r" not in shown:
            assert time.monotonic() < deadline, shown
            shown += os.read(terminal, 1 << 16)
        time.sleep(0.5)
        os.close(terminal)
        load.wait(30)
    found = json.loads(report.read_text())
    assert 0 < found["seconds"] < 30 if kind == "steady" else found["writes"] > 0
