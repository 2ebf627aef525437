"""Gateways under test: ours and a peer, each with a copy of its configuration on free ports."""

import base64
import contextlib
import json
import os
import time

from comparison.servers import BUILD, ROOT, Failure, Server, connect, free_port
from viewing.processes import children, cpu_seconds

from .client import Connection

SEED = os.path.join(ROOT, "Fuzzing", "Seeds", "configuration", "walrus-jane-joe")
DATABASE = "demo"
PASSWORD = "password"


def login(user):
    """The header line of a Basic login."""
    return "Authorization: Basic " + base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()


class Gateway(Server):
    """A gateway with the database of walrus-jane-joe; `core` None: on all cores."""

    def __init__(self, core):
        super().__init__(core)
        self.admin = free_port()
        self.used = {}

    def __enter__(self):
        try:
            self.start()
            self.await_database()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def await_database(self):
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError, Failure):
                status, _ = self.ask("GET", f"/{DATABASE}/", port=self.admin)
                if status == 200:
                    return
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} does not serve {DATABASE}")
            time.sleep(0.01)

    def ask(self, method, path, body=None, user=None, port=None):
        """One request on a connection of its own; returns the status and the body."""
        connection = Connection(port or (self.port if user else self.admin))
        try:
            text = None if body is None else json.dumps(body).encode()
            return connection.exchange(request(method, path, text, user))
        finally:
            connection.close()

    def put_user(self, name, channels):
        """A user who sees the channels; a login by Basic, so that the gateway has verified it."""
        status, body = self.ask("PUT", f"/{DATABASE}/_user/{name}", {
            "name": name, "password": PASSWORD, "admin_channels": channels})
        if status not in (200, 201):
            raise Failure(f"the user {name} was answered {status}: {body[:200]!r}")
        self.log_in(name)

    def log_in(self, name):
        status, body = self.ask("GET", f"/{DATABASE}/", user=name)
        if status != 200:
            raise Failure(f"the login of {name} was answered {status}: {body[:200]!r}")

    # The process with its descendants: ours has script processes.

    def processes(self):
        found, waiting = [], [self.pid]
        while waiting:
            found.append(waiting.pop())
            waiting += children(found[-1])
        return found

    def cpu_seconds(self):
        """Since the start; of script processes that have ended, what the last call found."""
        for pid in self.processes():
            with contextlib.suppress(OSError):
                self.used[pid] = cpu_seconds(pid)
        return sum(self.used.values())

    def status_bytes(self, field):
        """The sum of a field of /proc/PID/status, over the processes."""
        total = 0
        for pid in self.processes():
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/status") as status:
                for line in status:
                    if line.startswith(field + ":"):
                        total += int(line.split()[1]) * 1024
        return total

    def private_bytes(self):
        return self.status_bytes("RssAnon")

    def peak_bytes(self):
        return self.status_bytes("VmHWM")


class DivanGateway(Gateway):
    name = "divan-gateway"

    def command(self):
        return [
            os.path.join(BUILD, "divan-gateway"), "-interface", f"127.0.0.1:{self.port}",
            "-adminInterface", f"127.0.0.1:{self.admin}", SEED,
        ]


class Peer(Gateway):
    """Couchbase Sync Gateway 3.x, whose databases come from a file."""

    name = "peer"

    def __init__(self, core, program, configuration):
        super().__init__(core)
        self.program = program
        with open(configuration) as file:
            content = json.load(file)
        content["interface"] = f"127.0.0.1:{self.port}"
        content["adminInterface"] = f"127.0.0.1:{self.admin}"
        content["metricsInterface"] = f"127.0.0.1:{free_port()}"
        # Requests are not logged, and there are no files of logs; so it is with ours.
        content["logging"] = {"console": {"log_level": "warn", "log_keys": []}}
        self.path = os.path.join(self.directory, "configuration.json")
        with open(self.path, "w") as file:
            json.dump(content, file)

    def command(self):
        return [self.program, "-disable_persistent_config", self.path]

    def release(self):
        """What the peer calls itself, for the table."""
        status, body = self.ask("GET", "/")
        version = json.loads(body).get("version", "") if status == 200 else ""
        return version.split("(")[0].replace("/", " ").strip() or "the peer"


def request(method, path, body=None, user=None, headers=()):
    """The bytes of a request that keeps its connection."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if user:
        lines.append(login(user))
    lines += headers
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def listens(port):
    try:
        connect(port).close()
        return True
    except OSError:
        return False
