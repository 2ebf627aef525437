"""A divan-gateway in memory, on free ports, with a configuration file."""

import os
import pathlib
import signal
import socket
import subprocess
import tempfile

from .node import ROOT, wait_until
from .ports import free_port

PROGRAM = pathlib.Path(os.environ.get("DIVAN_GATEWAY", ROOT / ".build/release/divan-gateway"))
# Users jane and joe, a sync function in back-quotes, the store in memory.
CONFIGURATION = ROOT / "Fuzzing/Seeds/configuration/walrus-jane-joe"
START_SECONDS = 20


class DivanGateway:
    """The program, ended by its process number."""

    def __init__(self, configuration=CONFIGURATION):
        self.public_port, self.admin_port = free_port(), free_port()
        self.directory = tempfile.TemporaryDirectory(prefix="divan-gateway-")
        self.log_path = pathlib.Path(self.directory.name) / "log"
        flags = ["-interface", f"127.0.0.1:{self.public_port}"]
        flags += ["-adminInterface", f"127.0.0.1:{self.admin_port}"]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [PROGRAM, *flags, configuration],
                cwd=self.directory.name,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def start(self):
        """Returns once both ports listen."""
        for port in (self.admin_port, self.public_port):
            wait_until(lambda port=port: self._listens(port), START_SECONDS, f"port {port} listens")
        return self

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    def _listens(self, port):
        if self.process.poll() is not None:
            raise RuntimeError(f"the gateway ended ({self.process.returncode})\n{self.log}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")[-4000:]

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.directory.cleanup()
