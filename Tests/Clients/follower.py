"""A consumer of a whole bucket, and a writer, that follow the map as a client library would."""

import struct
import threading
import time

from rig import dcp
from rig.dcp import Consumer, Position
from rig.wire import Closed, Op, Status, frame, vbucket_of

ROLLBACK = 0x23
# Older versions of a document that a follower keeps, to restore them after a rollback.
VERSIONS = 8


class Copy:
    """What a follower has of one vBucket: the versions of its documents, and where snapshots ended."""

    def __init__(self):
        self.at = Position()
        self.versions = {}
        self.ends = [0]
        # Versions up to this seqno were discarded: a rollback below it begins at zero.
        self.floor = 0

    def apply(self, message):
        at = self.at
        assert at.seqno < message.seqno <= at.snapshot[1], (at.seqno, message.seqno, at.snapshot)
        at.seqno = message.seqno
        value = message.value if message.op == dcp.MUTATION else None
        versions = self.versions.setdefault(message.key, [])
        versions.append((message.seqno, value))
        if len(versions) > VERSIONS:
            self.floor = max(self.floor, versions.pop(0)[0])
        if at.seqno == at.snapshot[1]:
            at.snapshot = (at.seqno, at.seqno)
            self.ends.append(at.seqno)

    def announce(self, start, end):
        # The same range again, or one that continues it: never back before the position.
        assert start >= self.at.seqno and end > self.at.seqno, (self.at.seqno, start, end)
        self.at.snapshot = (start, end)

    def roll_back(self, seqno):
        """Discards changes behind `seqno`, back to the last end of a snapshot.

        Between two ends a copy may lack versions that later changes of the snapshot replaced.
        """
        end = max(each for each in self.ends if each <= seqno)
        if end <= self.floor:
            self.__init__()
            return
        for key in list(self.versions):
            kept = [each for each in self.versions[key] if each[0] <= end]
            if kept:
                self.versions[key] = kept
            else:
                del self.versions[key]
        self.ends = [each for each in self.ends if each <= end]
        self.at.seqno, self.at.snapshot = end, (end, end)

    @property
    def documents(self):
        latest = {key: versions[-1][1] for key, versions in self.versions.items()}
        return {key: value for key, value in latest.items() if value is not None}


class Follower:
    """A consumer of a bucket's changes, in a thread of its own.

    A rollback removes the changes behind its seqno; any other repeated or missing seqno fails the
    test.

    - `vbuckets`: which it streams; all without it.
    - `buffer`: the bytes that a node may send unacknowledged; `pause`: seconds between two reads
      of at most 100 messages, for a slow consumer.
    - `disconnects_after`: the messages after which it closes a connection, and resumes by position
      and failover log.
    """

    def __init__(
        self, nodes, bucket, count, name, vbuckets=None, buffer=0, pause=0, disconnects_after=0
    ):
        self.nodes, self.bucket, self.name = nodes, bucket, name
        self.copies = {number: Copy() for number in vbuckets or range(count)}
        self.buffer, self.pause, self.disconnects_after = buffer, pause, disconnects_after
        self.consumers, self.served, self.received = {}, {}, {}
        self.rollbacks, self.expired, self.disconnects, self.changes = [], set(), 0, 0
        self.failure, self.is_over = None, threading.Event()
        # A test reads the copies while the thread changes them.
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def stop(self):
        self.is_over.set()
        self.thread.join(60)
        assert not self.thread.is_alive()
        for consumer in self.consumers.values():
            consumer.close()
        self.check()

    def check(self):
        """Raises what ended the thread, if anything did."""
        if self.failure:
            raise self.failure

    def contents(self):
        """The documents that it has."""
        self.check()
        with self.lock:
            return {
                key: value
                for copy in self.copies.values()
                for key, value in copy.documents.items()
            }

    def has(self, seqnos):
        """Whether it has every change up to these seqnos, by vBucket."""
        self.check()
        return all(self.copies[each].at.seqno >= seqnos[each] for each in self.copies)

    # The thread

    def _run(self):
        try:
            while not self.is_over.is_set():
                self._open_streams()
                for number in list(self.consumers):
                    self._read(number)
                self.is_over.wait(self.pause)
        except BaseException as failure:
            self.failure = failure

    def _open_streams(self):
        missing = [each for each in self.copies if each not in self.served]
        rows = active_nodes(self.nodes, self.bucket) if missing else []
        for vbucket in missing:
            if len(rows) <= vbucket or rows[vbucket] is None:
                continue
            try:
                self._request(vbucket, rows[vbucket])
            except (Closed, OSError, RuntimeError):
                self._lose(rows[vbucket])

    def _consumer(self, number):
        if number not in self.consumers:
            connection = self.nodes[number].connect(self.bucket, seconds=10)
            consumer = Consumer(connection, name=f"{self.name}-{number}")
            assert consumer.control("enable_expiry_opcode", "true") == Status.SUCCESS
            if self.buffer:
                status = consumer.control("connection_buffer_size", self.buffer)
                assert status == Status.SUCCESS
            self.consumers[number], self.received[number] = consumer, 0
        return self.consumers[number]

    def _request(self, vbucket, number):
        consumer, copy = self._consumer(number), self.copies[vbucket]
        consumer.connection.socket.settimeout(10)
        reply = consumer.request(vbucket, copy.at)
        if self.buffer:
            # For messages before the reply; more than was sent counts as all of it.
            consumer.acknowledge(self.buffer)
        if reply.status == Status.SUCCESS:
            # The changes that follow may be of a newer history.
            copy.at.uuid = dcp.log(reply.value)[0][0]
            self.served[vbucket] = number
        elif reply.status == ROLLBACK:
            seqno, before = int.from_bytes(reply.value, "big"), copy.at.seqno
            assert seqno <= before
            with self.lock:
                copy.roll_back(seqno)
            self.rollbacks.append((vbucket, before, seqno))

    def _lose(self, number):
        consumer = self.consumers.pop(number, None)
        if consumer:
            consumer.close()
        for vbucket in [each for each, node in self.served.items() if node == number]:
            del self.served[vbucket]
        time.sleep(0.05)

    def _read(self, number):
        consumer = self.consumers[number]
        consumer.connection.socket.settimeout(0.02)
        received = 0
        try:
            for _ in range(100 if self.pause else 2_000):
                self._apply(consumer.receive())
                received += consumer.last_bytes
                self.received[number] += 1
                if self.buffer and received * 2 > self.buffer:
                    consumer.acknowledge(received)
                    received = 0
                if 0 < self.disconnects_after <= self.received[number]:
                    self.disconnects += 1
                    return self._lose(number)
        except TimeoutError:
            pass
        except (Closed, OSError):
            return self._lose(number)
        if received and self.buffer:
            try:
                consumer.acknowledge(received)
            except OSError:
                self._lose(number)

    def _apply(self, message):
        copy = self.copies[message.vbucket]
        if message.op == dcp.SNAPSHOT:
            copy.announce(*message.snapshot)
        elif message.op == dcp.STREAM_END:
            self.served.pop(message.vbucket, None)
        elif (message.op, message.status) == (dcp.BUFFER_ACK, Status.ACCESS):
            # The node was removed from its cluster, and its users with it.
            raise Closed
        else:
            assert message.op in dcp.CHANGES, message
            with self.lock:
                copy.apply(message)
            self.changes += 1
            if message.op == dcp.EXPIRATION:
                self.expired.add(message.key)


def active_nodes(nodes, bucket):
    """The number of the active node of each vBucket, as a running node has it; empty without one."""
    for member in nodes.living:
        try:
            rows = nodes.vbucket_map(bucket, nodes.members.index(member))
            return [row[0] for row in rows]
        except (OSError, KeyError, TypeError, ValueError):
            continue
    return []


def visible_seqnos(nodes, bucket):
    """The newest visible seqno of each vBucket, from the nodes that serve it."""
    found = {}
    for number in {each for each in active_nodes(nodes, bucket) if each is not None}:
        with nodes[number].connect(bucket) as connection:
            # 1: active vBuckets.
            value = connection.call(dcp.ALL_SEQNOS, b"", struct.pack(">I", 1), vbucket=0).value
            for at in range(0, len(value), 10):
                vbucket, seqno = struct.unpack(">HQ", value[at : at + 10])
                found[vbucket] = seqno
    return found


class MapWriter:
    """Sends batches of writes to the nodes of the map, and repeats what was refused or lost.

    The writes of one batch belong to different keys, so that their order does not matter.
    """

    def __init__(self, nodes, bucket, count):
        self.nodes, self.bucket, self.count = nodes, bucket, count
        self.connections = {}
        self.owners, self.is_stale = (), True
        # The last written value by key; None once it was deleted.
        self.written = {}

    def close(self):
        for connection in self.connections.values():
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def documents(self):
        return {key: value for key, value in self.written.items() if value is not None}

    def write(self, changes, seconds=60):
        """Writes (key, value, expiry) in batches; a value of None deletes."""
        batch = {}
        for key, value, expiry in changes:
            if key in batch or len(batch) == 256:
                self._send(batch, seconds)
                batch = {}
            batch[key] = (value, expiry)
        self._send(batch, seconds)

    def _send(self, batch, seconds):
        deadline = time.monotonic() + seconds
        while batch:
            assert time.monotonic() < deadline, f"{len(batch)} writes are refused"
            if self.is_stale:
                self.owners, self.is_stale = active_nodes(self.nodes, self.bucket), False
            parts = {}
            for key, change in batch.items():
                parts.setdefault(self.owners[vbucket_of(key, self.count)], {})[key] = change
            left = {}
            for number, part in parts.items():
                left |= part if number is None else self._send_to(number, part)
            if left:
                self.is_stale = True
                time.sleep(0.02)
            batch = left

    def _send_to(self, number, part):
        """Sends a part of a batch to one node; returns what has to be sent again."""
        left = dict(part)
        try:
            if number not in self.connections:
                self.connections[number] = self.nodes[number].connect(self.bucket, seconds=10)
            connection = self.connections[number]
            connection.send(b"".join(self._request(key, *part[key]) for key in part))
            for key, (value, _) in part.items():
                status = connection.receive().status
                # A deletion that was applied before its connection was lost finds nothing.
                if status == Status.SUCCESS or (value is None and status == Status.NOT_FOUND):
                    self.written[key] = value
                    del left[key]
                elif status not in (Status.NOT_MY_VBUCKET, Status.TEMPORARY, Status.BUSY):
                    raise AssertionError(f"{key} was answered {status:#x}")
        except (Closed, OSError, RuntimeError):
            lost = self.connections.pop(number, None)
            if lost:
                lost.close()
        return left

    def _request(self, key, value, expiry):
        vbucket = vbucket_of(key, self.count)
        if value is None:
            return frame(Op.DELETE, key, vbucket=vbucket)
        return frame(Op.SET, key, struct.pack(">II", 0, expiry), value, vbucket=vbucket)
