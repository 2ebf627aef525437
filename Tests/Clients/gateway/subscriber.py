"""Clients of the feed of changes that lose their connections, and resume at the last row."""

import json
import socket
import struct
import threading
import time

from . import websocket
from .driver import Closed, Connection
from .request import query

NORMAL, LONG_POLL, CONTINUOUS, SOCKET = KINDS = ("normal", "longpoll", "continuous", "websocket")
# How long a subscriber to the feed `normal` waits when no row was new.
POLL_SECONDS = 0.02


class Cut(Exception):
    """The client's limit of bytes is reached."""


class Feed(Connection):
    """One request of a feed. `bytes_max` bytes of the answer are read, then `Cut` is raised.

    `login` is a header. `since` is as a row had it: a number, or a text such as "12:4".
    """

    def __init__(self, address, database, kind, login, bytes_max=None, **options):
        super().__init__(address)
        self.bytes_left = bytes_max
        self.kind = kind
        self.last_seq = None
        self.options = {"feed": kind, **options}
        path = f"/{database}/_changes"
        lines = ["Host: localhost", ": ".join(login)]
        if kind == SOCKET:
            path += "?feed=websocket"
            lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
            lines += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
        else:
            path += query(**self.options)
        self.send("\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode())

    def more(self):
        size = 1 << 16 if self.bytes_left is None else min(self.bytes_left, 1 << 16)
        if size == 0:
            raise Cut
        data = self.socket.recv(size)
        if not data:
            raise Closed
        self.buffer += data
        if self.bytes_left is not None:
            self.bytes_left -= len(data)

    def close(self, abruptly=False):
        """Closes the connection; `abruptly` resets it."""
        if abruptly:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        super().close()

    def interrupt(self):
        """Ends a read of another thread, which raises."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            self.is_open = False

    def rows(self):
        """The rows, each when it has come completely."""
        answer = self.head()
        if self.kind == SOCKET:
            yield from self._socket_rows(answer)
            return
        if answer.status != 200:
            raise ValueError(f"{answer.status} {answer.reason}")
        for line in self._lines(answer):
            text = line.strip().strip(b",")
            if text.startswith(b'{"seq"'):
                yield json.loads(text)
            elif text.startswith(b'"last_seq"'):
                self.last_seq = json.loads(b"{" + text)["last_seq"]
            elif text not in (b"", b'{"results":[', b"]"):
                raise ValueError(f"a line of the feed is {text!r}")

    def _socket_rows(self, answer):
        if answer.status != 101:
            raise ValueError(f"{answer.status} {answer.reason}")
        websocket.send_text(self, json.dumps(self.options).encode())
        for kind, payload in websocket.messages(self):
            if kind != websocket.CLOSE and payload:
                yield from json.loads(payload)

    def _lines(self, answer):
        """Lines of the body; what has no line end counts when the body has ended."""
        text = b""
        for part in self._parts(answer):
            *lines, text = (text + part).split(b"\n")
            yield from lines
        yield text

    def _parts(self, answer):
        """Parts of the body, as they come."""
        if answer.header("Transfer-Encoding").lower() != "chunked":
            yield from self._counted(int(answer.header("Content-Length")))
            return
        while size := int(self.until(b"\r\n").split(b";")[0], 16):
            yield from self._counted(size)
            self.until(b"\r\n")
        self.until(b"\r\n")

    def _counted(self, size):
        while size:
            if not self.buffer:
                self.more()
            part, self.buffer = self.buffer[:size], self.buffer[size:]
            size -= len(part)
            yield part


class Subscriber(threading.Thread):
    """Follows a feed, one connection after another, until it is stopped.

    `next_cut` gives the number of bytes after which the client cuts the next connection, or None.
    `rows` has the number of the connection and each row, `latest` the row of the newest revision of
    each document; rows of principals are left out.
    """

    def __init__(self, address, database, kind, login, next_cut, **options):
        super().__init__(daemon=True)
        self.address, self.database, self.kind, self.login = address, database, kind, login
        self.next_cut = next_cut
        self.options = options
        self.since = 0
        self.rows = []
        self.latest = {}
        self.connections = self.cuts = 0
        self.failure = None
        self.is_stopping = False
        self.feed = None

    def run(self):
        try:
            while not self.is_stopping:
                self.follow()
        except (OSError, Closed, ValueError, KeyError) as error:
            if not self.is_stopping:
                self.failure = f"connection {self.connections}, since {self.since}: {error!r}"

    def follow(self):
        """One connection."""
        self.connections += 1
        bytes_max = self.next_cut()
        self.feed = Feed(
            *(self.address, self.database, self.kind, self.login, bytes_max),
            since=self.since,
            **self.options,
        )
        count = 0
        try:
            for row in self.feed.rows():
                count += 1
                self.add(row)
            self.since = self.feed.last_seq if self.feed.last_seq is not None else self.since
            if count == 0 and self.kind == NORMAL:
                time.sleep(POLL_SECONDS)
        except Cut:
            self.cuts += 1
        finally:
            self.feed.close(abruptly=bytes_max is not None and bytes_max % 2 == 1)

    def add(self, row):
        self.since = row["seq"]
        if not row["id"].startswith("_user/"):
            self.rows.append((self.connections, row))
            known = self.latest.get(row["id"])
            # A removal behind a late grant may name an older revision than the client has.
            if known is None or generation(row) >= generation(known):
                self.latest[row["id"]] = row

    def stop(self):
        """Ends the connection, also one that the thread is about to open."""
        self.is_stopping = True
        while self.is_alive():
            if self.feed:
                self.feed.interrupt()
            self.join(0.05)


def generation(row):
    """The number that begins the revision of a row."""
    return int(row["changes"][0]["rev"].split("-")[0])


def repeated(rows):
    """The rows that came twice in one connection.

    A revision that left a channel comes again if the user later gets another channel that it is in,
    or left: in the dialect of 1.4, late rows have removals too.
    """
    seen, found = set(), []
    for connection, row in rows:
        revision, removed = row["changes"][0]["rev"], tuple(row.get("removed", ()))
        key = (connection, row["id"], revision, removed)
        if key in seen:
            found.append((*key, row["seq"]))
        seen.add(key)
    return found
