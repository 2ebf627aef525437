"""A node with views: documents over its plain port, views over HTTP on connections that stay open."""

import base64
import glob
import json
import os
import socket
import struct
import time
import urllib.parse

from comparison.servers import BUCKET, Divan, Failure, connect

SETQ, SET, NOOP = 0x11, 0x01, 0x0A
SUCCESS, NO_MEMORY, TEMPORARY = 0, 0x82, 0x86
# Values of these are JSON; all others are plain text.
JSON_PARAMETERS = ("key", "keys", "startkey", "endkey")
DESIGN_DOCUMENT = "bench"


class Documents:
    """A connection that stores documents over the plain port, which chooses the vBucket itself."""

    def __init__(self, port):
        self.socket = connect(port, 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb", 1 << 16)

    def close(self):
        self.reader.close()
        self.socket.close()

    @staticmethod
    def frame(operation, key, value, opaque=0):
        return b"".join((
            struct.pack(">BBHBBHIIQII", 0x80, operation, len(key), 8, 0, 0,
                        8 + len(key) + len(value), opaque, 0, 0, 0),
            key, value,
        ))

    def receive(self):
        """The status and the request's number of the next answer."""
        header = self.reader.read(24)
        if len(header) < 24:
            raise Failure("the node closed a connection of documents")
        status, length, opaque = struct.unpack(">6xHII8x", header)
        self.reader.read(length)
        return status, opaque

    def store(self, key, value):
        """Stores one document; returns when it is acknowledged."""
        self.socket.sendall(self.frame(SET, key, value))
        status, _ = self.receive()
        if status != SUCCESS:
            raise Failure(f"SET was answered {status:#x}")

    def load(self, pairs, depth=1_000):
        """Stores many (key, value) pairs: quiet requests in batches, again if memory is short."""
        pairs = iter(pairs)
        waiting = []
        noop = struct.pack(">BBHBBHIIQ", 0x80, NOOP, 0, 0, 0, 0, 0, depth, 0)
        deadline = time.monotonic() + 300
        while True:
            for pair in pairs:
                waiting.append(pair)
                if len(waiting) == depth:
                    break
            if not waiting:
                return
            self.socket.sendall(b"".join(
                self.frame(SETQ, key, value, number)
                for number, (key, value) in enumerate(waiting)
            ) + noop)
            again = []
            while True:
                status, number = self.receive()
                if number == depth:
                    break
                if status not in (NO_MEMORY, TEMPORARY):
                    raise Failure(f"SETQ was answered {status:#x}")
                again.append(waiting[number])
            if again:
                time.sleep(0.02)
                if time.monotonic() > deadline:
                    raise Failure("the node has no memory for the documents")
            waiting = again


class ViewConnection:
    """A connection to the view port that sends prepared requests: little time of the driver's own."""

    def __init__(self, port, seconds=900):
        self.socket = connect(port, seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb", 1 << 16)
        login = base64.b64encode(f"{Divan.user}:{Divan.password}".encode()).decode()
        self.head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Basic {login}\r\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.reader.close()
        self.socket.close()

    def prepared(self, method, path, body=None):
        lines = f"{method} {path} HTTP/1.1\r\n{self.head}"
        if body is not None:
            lines += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return f"{lines}\r\n{body or ''}".encode()

    def query(self, view, **parameters):
        """A query as bytes."""
        pairs = {
            name: json.dumps(value) if name in JSON_PARAMETERS else value
            for name, value in parameters.items()
        }
        path = f"/{BUCKET}/_design/{DESIGN_DOCUMENT}/_view/{view}?{urllib.parse.urlencode(pairs)}"
        return self.prepared("GET", path)

    def exchange(self, request):
        """Sends a request; returns the status and the body."""
        self.socket.sendall(request)
        line = self.reader.readline()
        if not line:
            raise Failure("the node closed a connection of views")
        status, length, chunked = int(line.split()[1]), 0, False
        while (line := self.reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            name = name.lower()
            if name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                chunked = b"chunked" in value
        return status, self.chunks() if chunked else self.reader.read(length)

    def chunks(self):
        parts = []
        while True:
            line = self.reader.readline()
            if not line:
                raise Failure("an answer of a view has no end")
            size = int(line.split(b";")[0], 16)
            if size == 0:
                while self.reader.readline() not in (b"\r\n", b""):
                    pass
                return b"".join(parts)
            parts.append(self.reader.read(size))
            self.reader.read(2)

    def answer(self, request):
        """The answer to a query; one with errors is a failure."""
        status, body = self.exchange(request)
        if status != 200:
            raise Failure(f"a query was answered {status}: {body[:300].decode(errors='replace')}")
        found = json.loads(body)
        if found.get("errors"):
            raise Failure(f"a query has errors: {found['errors'][:2]}")
        return found


class ViewNode(Divan):
    """One node with a persistent bucket, whose documents stay in memory."""

    def __init__(self, core=None, megabytes=4096):
        super().__init__(core, "persistent", megabytes=megabytes, quota=megabytes + 512)

    def __enter__(self):
        try:
            self.start()
            self.provision()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def documents(self):
        return Documents(self.plain)

    def load(self, pairs):
        connection = self.documents()
        try:
            connection.load(pairs)
        finally:
            connection.close()
        self.await_persisted()

    def await_persisted(self, seconds=120):
        deadline = time.monotonic() + seconds
        while int(self.statistics().get("ep_queue_size", 0)):
            if time.monotonic() > deadline:
                raise Failure(f"documents are not persisted after {seconds} s")
            time.sleep(0.05)

    def connection(self):
        return ViewConnection(self.views)

    def design(self, views):
        """Creates or replaces the design document; `views` are sources of maps, or (map, reduce)."""
        members = {}
        for name, view in views.items():
            source, reduce = (view, None) if isinstance(view, str) else view
            members[name] = {"map": source, **({"reduce": reduce} if reduce else {})}
        with self.connection() as connection:
            status, body = connection.exchange(connection.prepared(
                "PUT", f"/{BUCKET}/_design/{DESIGN_DOCUMENT}", json.dumps({"views": members})))
        if status != 201:
            raise Failure(f"the design document was answered {status}: {body.decode()}")

    def undesign(self):
        with self.connection() as connection:
            status, body = connection.exchange(
                connection.prepared("DELETE", f"/{BUCKET}/_design/{DESIGN_DOCUMENT}"))
        if status != 200:
            raise Failure(f"the design document's removal was answered {status}: {body.decode()}")

    def await_built(self, *views, seconds=600):
        """Waits until views have all documents; returns the total number of rows of each.

        A view that a node does not have yet, or that is not built in the server's time, is asked
        again.
        """
        deadline = time.monotonic() + seconds
        totals = []
        with self.connection() as connection:
            for view in views:
                request = connection.query(
                    view, stale="false", reduce="false", limit=1,
                    connection_timeout=1_000 * seconds)
                while True:
                    status, body = connection.exchange(request)
                    found = json.loads(body) if status == 200 else {"errors": [body.decode()]}
                    if not found.get("errors"):
                        totals.append(found["total_rows"])
                        break
                    if time.monotonic() > deadline:
                        raise Failure(f"view {view} is not built: {found['errors'][:2]}")
                    time.sleep(0.02)
        return totals

    def index_files(self):
        """The sizes of the index files by name; the one of a log that is not yet in its file is its
        own."""
        pattern = os.path.join(self.directory, "data", "indexes", "*", "*")
        return {path: os.path.getsize(path) for path in glob.glob(pattern)}
