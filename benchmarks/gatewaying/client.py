"""A cheap client: prepared requests on connections that stay open, all in one thread."""

import gc
import os
import select
import socket
import time
from contextlib import contextmanager

from comparison.servers import Failure, connect

READ_BYTES = 1 << 18


@contextmanager
def on_core(core):
    """This process on one core, without pauses of the garbage collector."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        os.sched_setaffinity(0, before)


class Connection:
    def __init__(self, port):
        self.socket = connect(port, 120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        """Reads once; returns the status and the body of an answer that is complete, else None."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise Failure("the gateway closed a connection")
        self.buffer = self.buffer + data if self.buffer else data
        return self.take()

    def take(self):
        """The answer in the buffer, if it is complete."""
        buffer = self.buffer
        head = buffer.find(b"\r\n\r\n")
        if head < 0:
            return None
        status, begin = int(buffer[9:12]), head + 4
        place = buffer.find(b"Content-Length: ", 0, head + 2)
        if place >= 0:
            end = begin + int(buffer[place + 16:buffer.find(b"\r", place)])
            if len(buffer) < end:
                return None
            self.buffer = buffer[end:]
            return status, buffer[begin:end]
        if buffer.find(b"Transfer-Encoding: chunked", 0, head) < 0:
            self.buffer = buffer[begin:]
            return status, b""
        # The last chunk is at the end, as no request follows before the answer.
        if not buffer.endswith(b"0\r\n\r\n"):
            return None
        parts, at = [], begin
        while True:
            line = buffer.find(b"\r\n", at)
            if line < 0:
                return None
            size = int(buffer[at:line], 16)
            at = line + 2 + size + 2
            if at > len(buffer):
                return None
            if size == 0:
                self.buffer = buffer[at:]
                return status, b"".join(parts)
            parts.append(buffer[line + 2:at - 2])

    def exchange(self, data):
        self.send(data)
        while (answer := self.receive()) is None:
            pass
        return answer


class Poll:
    """Waits for the answers of many connections."""

    def __init__(self):
        self.epoll = select.epoll()
        self.connections = {}

    def add(self, connection, value=None):
        number = connection.socket.fileno()
        self.connections[number] = (connection, value)
        self.epoll.register(number, select.EPOLLIN)

    def answers(self, timeout=None):
        """(connection, value, status, body) of each answer that is complete within the time."""
        for number, _ in self.epoll.poll(timeout):
            connection, value = self.connections[number]
            answer = connection.receive()
            if answer is not None:
                yield connection, value, *answer

    def close(self):
        self.epoll.close()
        for connection, _ in self.connections.values():
            connection.close()


class Load:
    """A closed loop: each of `width` connections has one request in flight."""

    def __init__(self, port, width, requests, wanted=201, seen=None):
        self.requests, self.wanted, self.seen = iter(requests), wanted, seen
        self.poll = Poll()
        self.waiting = []
        for _ in range(width):
            connection = Connection(port)
            self.poll.add(connection)
            self.waiting.append(connection)

    def run(self, seconds=None):
        """Runs for a time, or until there are no more requests; returns the number of answers."""
        deadline = None if seconds is None else time.monotonic() + seconds
        count, under_way, is_open = 0, 0, True
        waiting, self.waiting = self.waiting, []
        while waiting:
            data = next(self.requests, None)
            if data is None:
                is_open = False
                self.waiting = waiting
                break
            waiting.pop().send(data)
            under_way += 1
        while under_way:
            for connection, _, status, body in self.poll.answers():
                if status != self.wanted:
                    raise Failure(f"a request was answered {status}: {body[:200]!r}")
                count += 1
                if self.seen:
                    self.seen(body)
                if is_open and deadline is not None and time.monotonic() >= deadline:
                    is_open = False
                data = next(self.requests, None) if is_open else None
                if data is None:
                    is_open = False
                    under_way -= 1
                    self.waiting.append(connection)
                else:
                    connection.send(data)
        return count

    def close(self):
        self.poll.close()
