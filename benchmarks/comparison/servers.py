"""Servers under test: each is started pinned to one core, on free loopback ports, in a directory
that is removed afterwards."""

import base64
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("DIVAN_BUILD", os.path.join(ROOT, ".build", "release"))
BUCKET = "bench"


class Failure(Exception):
    """Why the comparison cannot continue, as a message for the user."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connect(port, timeout=10):
    return socket.create_connection(("127.0.0.1", port), timeout=timeout)


class Server:
    """A process pinned to `core` (None: to no core), with a directory of its own."""

    name = ""

    def __init__(self, core, directory=None):
        self.core = core
        self.keeps = directory is not None
        self.directory = directory or tempfile.mkdtemp(prefix="divan-compare-")
        self.port = free_port()
        self.process = None

    def command(self):
        raise NotImplementedError

    def start(self):
        """Starts the process and returns when it answers; returns the seconds that took."""
        began = time.monotonic()
        self.launch()
        self.await_ready()
        return time.monotonic() - began

    def launch(self):
        """Starts the process only."""
        self.log = open(os.path.join(self.directory, f"{self.name}.log"), "ab")
        pinning = [] if self.core is None else ["taskset", "-c", str(self.core)]
        self.process = subprocess.Popen(
            pinning + self.command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=self.directory,
        )

    def await_ready(self):
        deadline = time.monotonic() + 60
        while True:
            if self.process.poll() is not None:
                raise Failure(f"{self.name} ended while starting; see {self.log.name}")
            try:
                connect(self.port).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise Failure(f"{self.name} does not listen on {self.port}") from None
                time.sleep(0.001)

    @property
    def pid(self):
        return self.process.pid

    def anonymous_bytes(self):
        """Private memory: RssAnon, as the kernel counts it."""
        with open(f"/proc/{self.pid}/status") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
        raise Failure(f"{self.name} has ended")

    def driver_arguments(self):
        return ["--port", str(self.port), "--server-pid", str(self.pid)]

    def stop(self, how=signal.SIGTERM):
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()
        self.process = None

    def remove(self):
        self.stop()
        if not self.keeps:
            shutil.rmtree(self.directory, ignore_errors=True)


class Memcached(Server):
    name = "memcached"

    def __init__(self, core, megabytes=2048):
        super().__init__(core)
        self.megabytes = megabytes

    def command(self):
        user = ["-u", "root"] if os.geteuid() == 0 else []
        return [
            "memcached", "-B", "binary", "-t", "1", "-m", str(self.megabytes), "-c", "4096",
            "-p", str(self.port), "-U", "0", "-l", "127.0.0.1",
        ] + user

    def driver_arguments(self):
        return ["--protocol", "memcached"] + super().driver_arguments()


class Redis(Server):
    name = "redis"

    def __init__(self, core, appends=False, directory=None):
        super().__init__(core, directory)
        self.appends = appends

    def command(self):
        # No rewrite of the AOF: the test is so short that a rewrite would distort it.
        return [
            "redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
            "--dir", self.directory, "--appendonly", "yes" if self.appends else "no",
            "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0",
        ]

    def driver_arguments(self):
        return ["--protocol", "redis"] + super().driver_arguments()

    def ask(self, *words):
        """One command; returns the first line of the answer."""
        with connect(self.port, 120) as stream:
            text = f"*{len(words)}\r\n" + "".join(f"${len(w)}\r\n{w}\r\n" for w in words)
            stream.sendall(text.encode())
            return stream.makefile("rb").readline().decode().strip()

    def await_loaded(self):
        while self.ask("PING") != "+PONG":
            time.sleep(0.002)


class Divan(Server):
    name = "divan"
    user, password = "Administrator", "password"

    def __init__(self, core, kind="ephemeral", megabytes=1024, quota=4096, directory=None):
        super().__init__(core, directory)
        self.kind = kind
        self.megabytes = megabytes
        self.quota = quota
        self.admin = free_port()
        self.plain = free_port()

    def command(self):
        return [
            os.path.join(BUILD, "divan-server"), "--data", os.path.join(self.directory, "data"),
            "--kv-port", str(self.port), "--admin-port", str(self.admin), "--views-port", "0",
            "--memcached-port", str(self.plain), "--memcached-bucket", BUCKET,
            "--log-level", "warning",
        ]

    def await_ready(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"divan-server did not start; see {self.log.name}")
        self.ready = json.loads(line)
        self.port, self.admin = self.ready["kv"], self.ready["admin"]
        self.views = self.ready["views"]

    def driver_arguments(self):
        return [
            "--bucket", BUCKET, "--user", self.user, "--password", self.password,
        ] + super().driver_arguments()

    # The admin port.

    def request(self, path, form=None):
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin}{path}", data=data)
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        request.add_header("Authorization", f"Basic {login}")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise Failure(f"{path} was answered {error.code}: {error.read().decode()}") from None

    def provision(self, buckets=(BUCKET,)):
        self.request("/clusterInit", {
            "port": "SAME", "username": self.user, "password": self.password,
            "services": "kv", "memoryQuota": str(self.quota),
        })
        for name in buckets:
            self.create(name)

    def create(self, name):
        persistent = self.kind == "persistent"
        self.request("/pools/default/buckets", {
            "name": name, "ramQuotaMB": str(self.megabytes), "replicaNumber": "0",
            "bucketType": "couchbase" if persistent else "ephemeral",
            "evictionPolicy": "valueOnly" if persistent else "noEviction",
        })
        deadline = time.monotonic() + 30
        while self.status(name) != "healthy":
            if time.monotonic() > deadline:
                raise Failure(f"bucket {name} does not become healthy")
            time.sleep(0.01)

    def bucket(self, name=BUCKET):
        return json.loads(self.request(f"/pools/default/buckets/{name}"))

    def status(self, name=BUCKET):
        nodes = self.bucket(name).get("nodes", [])
        return nodes[0]["status"] if nodes else ""

    def statistics(self, group=""):
        """STAT over the plain port, as a dictionary."""
        with connect(self.plain) as stream:
            key = group.encode()
            header = struct.pack(">BBHBBHIIQ", 0x80, 0x10, len(key), 0, 0, 0, len(key), 0, 0)
            stream.sendall(header + key)
            found, reader = {}, stream.makefile("rb")
            while True:
                answer = reader.read(24)
                keys, body = struct.unpack(">2xH4xI", answer[:12])
                content = reader.read(body)
                if keys == 0:
                    return found
                found[content[:keys].decode()] = content[keys:].decode()

    def start_and_get(self, key):
        """Starts the server; returns the seconds until a GET of `key` is answered as a client
        wants it: with the document, or with "not found"."""
        began = time.monotonic()
        self.start()
        header = struct.pack(">BBHBBHIIQ", 0x80, 0x00, len(key), 0, 0, 0, len(key), 0, 0)
        while True:
            try:
                with connect(self.plain) as stream:
                    stream.sendall(header + key)
                    answer = stream.makefile("rb").read(24)
                    status = struct.unpack(">H", answer[6:8])[0]
                    if status in (0, 1):
                        return time.monotonic() - began, status
            except OSError:
                pass
            time.sleep(0.001)
