"""Sends requests to one gateway on kept connections, and reads answers as they are on the wire."""

import contextlib
import dataclasses
import json
import re
import socket
import time

from . import websocket
from .request import ADMIN, PUBLIC, Request

SECONDS = 30
SETTLE_SECONDS = 10
TAG = re.compile('If-Match: ([^"]+)$')


@dataclasses.dataclass
class RawAnswer:
    """An answer before normalisation. Status 0: the connection was closed without an answer."""

    status: int = 0
    reason: str = ""
    headers: list = dataclasses.field(default_factory=list)
    body: bytes = b""
    messages: list | None = None
    wake: object = None

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


class Closed(Exception):
    """The connection ended before the answer did."""


class Connection:
    """One HTTP/1.1 connection, read without a library: targets, reasons and headers stay raw."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.is_open = True

    def close(self):
        self.is_open = False
        self.socket.close()

    def send(self, data):
        # A gateway may answer and close before it has read the whole body.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def more(self):
        """Reads what has come; raises `Closed` at the end."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Closed
        self.buffer += data

    def until(self, mark):
        while mark not in self.buffer:
            self.more()
        found, _, self.buffer = self.buffer.partition(mark)
        return found

    def exactly(self, count):
        while len(self.buffer) < count:
            self.more()
        found, self.buffer = self.buffer[:count], self.buffer[count:]
        return found

    def head(self):
        """The answer's first line and headers."""
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        parts = lines[0].split(" ", 2)
        headers = [tuple(each.split(": ", 1)) for each in lines[1:] if ": " in each]
        return RawAnswer(int(parts[1]), parts[2] if len(parts) > 2 else "", headers)

    def read_body(self, answer, method):
        if method == "HEAD" or answer.status in (101, 204, 304):
            return
        if answer.header("Transfer-Encoding").lower() == "chunked":
            while size := int(self.until(b"\r\n").split(b";")[0], 16):
                answer.body += self.exactly(size)
                self.until(b"\r\n")
            while self.until(b"\r\n"):
                pass
        elif length := answer.header("Content-Length"):
            answer.body = self.exactly(int(length))
        else:
            self.is_open = False
            with contextlib.suppress(Closed):
                while True:
                    self.more()
            answer.body, self.buffer = self.buffer, b""


class Driver:
    """A client of one gateway. `names` has what this gateway chose at random."""

    def __init__(self, public, admin, names, release="1.4"):
        self.addresses = {PUBLIC: public, ADMIN: admin}
        self.names = names
        self.release = release
        self.connections = {}
        self.settled = {}

    def close(self):
        for each in self.connections.values():
            each.close()

    def send(self, request):
        """The answer; afterwards what `request.settles` names is in the feed."""
        if request.settles == "" and self.release == "3":
            # Its _resync goes on behind the answer.
            self._await_state(request, "Offline")
        answer = self._send(request)
        if request.settles:
            self._settle(request)
        elif request.settles == "":
            self._await_state(request, "Online")
        return answer

    def _connection(self, key, port):
        connection = self.connections.get(key)
        if connection is None or not connection.is_open:
            connection = self.connections[key] = Connection(self.addresses[port])
        return connection

    def _bytes(self, request):
        host = "%s:%d" % self.addresses[request.port]
        lines = [f"{request.method} {self.names.restore(request.target)} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {self.names.restore(value)}" for name, value in request.headers]
        if self.release == "3":
            # It takes an unquoted tag for none.
            lines = [TAG.sub(r'If-Match: "\1"', line) for line in lines]
        body = b"" if request.body is None else self.names.restore_bytes(request.body)
        if request.header("Transfer-Encoding"):
            size = max(1, len(body) // 3)
            chunks = [body[at : at + size] for at in range(0, len(body), size)]
            body = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in chunks) + b"0\r\n\r\n"
        elif request.body is not None or request.method in ("POST", "PUT"):
            lines.append(f"Content-Length: {len(body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8") + body

    def _send(self, request):
        if request.feed == "socket":
            return self._follow_socket(request)
        # A feed has a connection of its own, because `wake` uses the other meanwhile.
        key = (request.port, request.feed)
        connection = self._connection(key, request.port)
        connection.send(self._bytes(request))
        woken = None
        try:
            answer = connection.head()
            if request.wake:
                # The rows of the past come before the wake's, so that their order is fixed.
                if answer.status == 200:
                    time.sleep(0.05)
                woken = self._send(request.wake)
            connection.read_body(answer, request.method)
        except Closed:
            answer = RawAnswer(wake=woken)
            connection.close()
        answer.wake = woken
        if answer.header("Connection").lower() == "close":
            connection.close()
        return answer

    def _follow_socket(self, request):
        connection = Connection(self.addresses[request.port])
        try:
            lines = [
                ("Upgrade", "websocket"),
                ("Connection", "Upgrade"),
                ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
                ("Sec-WebSocket-Version", "13"),
            ]
            opening = dataclasses.replace(request, headers=request.headers + lines, body=None)
            connection.send(self._bytes(opening))
            answer = connection.head()
            if answer.status != 101:
                connection.read_body(answer, request.method)
                return answer
            websocket.send_text(connection, self.names.restore_bytes(request.body))
            if request.wake:
                time.sleep(0.05)
                answer.wake = self._send(request.wake)
            answer.messages = websocket.read_all(connection)
            return answer
        except Closed:
            return RawAnswer()
        finally:
            connection.close()

    def _asked_until(self, target, is_enough, what):
        """Asks the administration port until the parsed answer is enough; not part of the stream."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            answer = self._send(Request("GET", target, port=ADMIN))
            if answer.status == 200 and is_enough(json.loads(answer.body)):
                return
            time.sleep(0.001)
        raise TimeoutError(f"not within {SETTLE_SECONDS} s: {what}")

    def _settle(self, request):
        """Waits for the row of the document `request.settles`, which is written once."""
        database = request.target.split("/")[1]

        def has_row(feed):
            seen = [row["seq"] for row in feed["results"] if row["id"] == request.settles]
            self.settled[database] = seen[-1] if seen else self.settled.get(database, 0)
            return seen

        target = f"/{database}/_changes?since={self.settled.get(database, 0)}"
        self._asked_until(target, has_row, f"{request.settles} is in the feed of {database}")

    def _await_state(self, request, state):
        database = request.target.split("/")[1]
        has_state = lambda info: info["state"] == state
        self._asked_until(f"/{database}/", has_state, f"{database} is {state}")
