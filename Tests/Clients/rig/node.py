"""A divan-server in a directory of its own, on free ports, ended by its process number."""

import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import termios
import time

from . import rest, wire
from .ports import free_port

ROOT = pathlib.Path(__file__).resolve().parents[3]
SERVER = pathlib.Path(os.environ.get("DIVAN_SERVER", ROOT / ".build/release/divan-server"))
USER, PASSWORD = "Administrator", "password"
START_SECONDS = 20
PORT_FLAGS = ("--kv-port", "--admin-port", "--views-port", "--peer-port")
TLS_FLAGS = ("--kv-tls-port", "--admin-tls-port", "--views-tls-port")
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class NotReady(Exception):
    """A server ended, or timed out, before it listened."""

    def __init__(self, text, code, log):
        super().__init__(f"{text} (exit code {code})\n{log}")
        self.code = code
        self.log = log


def wait_until(condition, seconds=10.0, what=None):
    """The value of `condition` once it is true; evaluated every few milliseconds."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {what or condition}")
        time.sleep(0.005)


class Node:
    """One node; `start` may be called again after `stop` or `kill`.

    `host` is where clients reach it, `prefix` what its command begins with. Its ports are free
    ones where `flags` name none, and stay the same over restarts.
    """

    def __init__(self, *flags, directory=None, data=None, host="127.0.0.1", prefix=()):
        self.host = host
        self.prefix = list(prefix)
        self.owns_directory = directory is None
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="divan-"))
        self.data = pathlib.Path(data) if data else self.directory / "data"
        self.flags = list(flags)
        for name in PORT_FLAGS + (() if "--no-tls" in self.flags else TLS_FLAGS):
            if name not in self.flags:
                self.flags += [name, str(free_port())]
        self.log_path = self.directory / "log"
        self.process = None
        self.ready = None

    def flag(self, name):
        """The value of a flag that the node was started with."""
        return self.flags[self.flags.index(name) + 1]

    # The process

    def command(self):
        return [*self.prefix, str(SERVER), "--data", str(self.data), *self.flags]

    def start(self, user=None, terminal=None):
        """Starts the server and waits for its ready line.

        `user` is another uid to run as, `terminal` the descriptor of a terminal that is the server's
        own, and takes its log.
        """
        if not SERVER.exists():
            raise FileNotFoundError(f"{SERVER} is not built: run make build")

        def before():
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            if terminal is not None:
                os.setsid()
                fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
            # The tests may run under nohup, whose children ignore it, too.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            # The server must not outlive the tests, even when they are killed.
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log if terminal is None else terminal,
                preexec_fn=before,
            )
        self.ready = self._await_ready()
        self.kv_port = self.ready["kv"]
        self.admin_port = self.ready["admin"]
        self.memcached_port = self.ready.get("memcached")
        return self

    def _await_ready(self):
        os.set_blocking(self.process.stdout.fileno(), False)
        line = b""
        deadline = time.monotonic() + START_SECONDS
        while not line.endswith(b"\n"):
            part = self.process.stdout.readline()
            if part:
                line += part
            elif self.process.poll() is not None:
                raise NotReady("the server ended", self.process.returncode, self.log())
            elif time.monotonic() > deadline:
                self.kill()
                raise NotReady("the server was not ready in time", None, self.log())
            else:
                time.sleep(0.002)
        return json.loads(line)

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, seconds=30):
        """Asks the server to end and returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        finally:
            if self.is_running:
                self.kill()

    def kill(self):
        """Ends the server as a crash would."""
        self.process.kill()
        self.process.wait(10)

    def close(self):
        if self.is_running:
            self.kill()
        if self.process is not None:
            self.process.stdout.close()
        if self.owns_directory and not os.environ.get("DIVAN_KEEP"):
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def resident_anonymous_bytes(self):
        """RssAnon: what the process really holds, files not counted."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
        raise LookupError("no RssAnon")

    def processor_seconds(self):
        """Seconds of processor time that the process has used, as user and in the kernel."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # Access

    @property
    def admin(self):
        """The admin port, as the administrator."""
        return rest.Rest(self.admin_port, (USER, PASSWORD), self.host)

    @property
    def anonymous(self):
        """The admin port, without a login."""
        return rest.Rest(self.admin_port, None, self.host)

    @property
    def token_file(self):
        return self.data / "init-token"

    @property
    def token(self):
        """The token with which a node without a cluster accepts changes from other machines; or None."""
        return self.token_file.read_text().strip() if self.token_file.exists() else None

    @property
    def newcomer(self):
        """The admin port of a node without a cluster, as an operator of its machine."""
        return rest.Rest(self.admin_port, ("operator", self.token or ""), self.host)

    @property
    def connection_string(self):
        return f"couchbase://{self.host}:{self.kv_port}"

    def provision(self, quota_megabytes=2048):
        form = {
            "port": "SAME",
            "username": USER,
            "password": PASSWORD,
            "services": "kv",
            "memoryQuota": quota_megabytes,
        }
        # On loopback a node needs no token.
        first = self.anonymous if self.host == "127.0.0.1" else self.newcomer
        # The least rounds that are allowed: a client derives its keys in 3 ms instead of 40.
        reply = first.post("/settings/security", {"scramShaIterations": 4096})
        if reply.status != 200:
            raise RuntimeError(f"settings/security: {reply.status} {reply.text}")
        reply = first.post("/clusterInit", form)
        if reply.status != 200:
            raise RuntimeError(f"clusterInit: {reply.status} {reply.text}")
        return self

    def create_bucket(self, name, **settings):
        """Creates a bucket and waits until it serves."""
        form = {"name": name, "ramQuotaMB": 100, "replicaNumber": 0, "flushEnabled": 1, **settings}
        reply = self.admin.post("/pools/default/buckets", form)
        if reply.status != 202:
            raise RuntimeError(f"bucket {name}: {reply.status} {reply.text}")
        self.await_bucket(name)
        return self

    def await_bucket(self, name, seconds=30):
        def serves():
            reply = self.admin.get(f"/pools/default/buckets/{name}")
            if reply.status != 200:
                return False
            nodes = reply.json["nodes"]
            if not nodes or any(node["status"] != "healthy" for node in nodes):
                return False
            with wire.Connection(self.kv_port, host=self.host) as connection:
                connection.log_in(USER, PASSWORD)
                return connection.select_bucket(name).status == 0

        wait_until(serves, seconds, f"bucket {name} serves")

    def connect(self, bucket=None, features=wire.USUAL_FEATURES, seconds=15):
        """A connection to the data port, logged in, with the bucket selected."""
        connection = wire.Connection(self.kv_port, seconds, self.host)
        connection.hello(features)
        connection.log_in(USER, PASSWORD)
        if bucket is not None:
            reply = connection.select_bucket(bucket)
            if reply.status != 0:
                raise RuntimeError(f"SELECT_BUCKET {bucket}: {reply.status:#x}")
            reply = self.admin.get(f"/pools/default/b/{bucket}")
            if reply.status != 200:
                # A node that starts again serves documents a moment before its admin port.
                raise RuntimeError(f"the map of {bucket}: {reply}")
            connection.vbuckets = len(reply.json["vBucketServerMap"]["vBucketMap"])
        return connection

    def database_files(self):
        """The SQLite files of all buckets."""
        return sorted(path for path in (self.data / "buckets").rglob("*.sqlite") if path.is_file())
