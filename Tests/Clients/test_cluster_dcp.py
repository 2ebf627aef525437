"""The change protocol over a cluster: rebalance and failover lose and repeat nothing unannounced."""

import json
import os
import struct
import threading
import time

import cluster
from rig import dcp
from rig.dcp import Consumer, Position
from rig.node import wait_until
from rig.wire import Closed, Op, Status, frame

BUCKET = "travel"
VBUCKETS = 64
WRITES = int(os.environ.get("DIVAN_CHANGES", 20_000))
ROLLBACK = 0x23


class Follower:
    """A consumer of a whole bucket, as a client library would be: it follows the map.

    Of each vBucket it keeps the position, the documents and the failover log. A rollback removes
    the documents behind its seqno; any other repeated or missing seqno fails the test.
    """

    def __init__(self, nodes):
        self.nodes = nodes
        self.positions = {number: Position() for number in range(VBUCKETS)}
        self.documents = {number: {} for number in range(VBUCKETS)}
        self.consumers, self.served = {}, {}
        self.rollbacks, self.failure, self.is_over = [], None, threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def stop(self):
        self.is_over.set()
        self.thread.join(60)
        assert not self.thread.is_alive()
        for consumer in self.consumers.values():
            consumer.close()
        if self.failure:
            raise self.failure

    def contents(self):
        return {
            key: value for each in self.documents.values() for key, (_, value) in each.items()
        }

    def _run(self):
        try:
            while not self.is_over.is_set():
                self._open_streams()
                for number in list(self.consumers):
                    self._read(number)
        except BaseException as failure:
            self.failure = failure

    def _map(self):
        for number in self.nodes.living:
            try:
                return self.nodes.vbucket_map(BUCKET, self.nodes.members.index(number))
            except (OSError, KeyError, TypeError, ValueError):
                continue
        return []

    def _open_streams(self):
        missing = [each for each in self.positions if each not in self.served]
        if not missing:
            return
        rows = self._map()
        for vbucket in missing:
            if len(rows) <= vbucket or rows[vbucket][0] is None:
                continue
            number = rows[vbucket][0]
            try:
                self._request(vbucket, number)
            except (Closed, OSError, RuntimeError):
                self._lose(number)

    def _consumer(self, number):
        if number not in self.consumers:
            connection = self.nodes[number].connect(BUCKET, seconds=10)
            self.consumers[number] = Consumer(connection, name=f"follower-{number}")
        return self.consumers[number]

    def _request(self, vbucket, number):
        consumer, at = self._consumer(number), self.positions[vbucket]
        consumer.connection.socket.settimeout(10)
        reply = consumer.request(vbucket, at)
        if reply.status == Status.SUCCESS:
            # The changes that follow may be of a newer history.
            at.uuid = dcp.log(reply.value)[0][0]
            self.served[vbucket] = number
        elif reply.status == ROLLBACK:
            seqno = int.from_bytes(reply.value, "big")
            assert seqno <= at.seqno
            self.rollbacks.append((vbucket, at.seqno, seqno))
            kept = self.documents[vbucket]
            # Documents that changed behind the seqno are sent again with their older versions.
            for key in [key for key, (changed, _) in kept.items() if changed > seqno]:
                del kept[key]
            if seqno == 0:
                kept.clear()
                at.uuid = 0
            at.seqno, at.snapshot = seqno, (seqno, seqno)

    def _lose(self, number):
        consumer = self.consumers.pop(number, None)
        if consumer:
            consumer.close()
        for vbucket in [each for each, node in self.served.items() if node == number]:
            del self.served[vbucket]
        time.sleep(0.05)

    def _read(self, number):
        consumer = self.consumers[number]
        consumer.connection.socket.settimeout(0.05)
        try:
            for _ in range(2_000):
                self._take(consumer.receive())
        except TimeoutError:
            pass
        except (Closed, OSError):
            self._lose(number)

    def _take(self, message):
        vbucket, at = message.vbucket, self.positions[message.vbucket]
        if message.op == dcp.SNAPSHOT:
            start, end = message.snapshot
            assert start >= at.seqno and end > at.seqno, (vbucket, at.seqno, start, end)
            at.snapshot = (start, end)
        elif message.op == dcp.STREAM_END:
            self.served.pop(vbucket, None)
        else:
            assert at.seqno < message.seqno <= at.snapshot[1], (vbucket, at.seqno, message.seqno)
            at.seqno = message.seqno
            if at.seqno == at.snapshot[1]:
                at.snapshot = (at.seqno, at.seqno)
            if message.op == dcp.MUTATION:
                self.documents[vbucket][message.key] = (message.seqno, message.value)
            else:
                self.documents[vbucket].pop(message.key, None)


def write(sdk_bucket, first, count, expected):
    """Writes documents, and deletes each tenth of them again."""
    for number in range(first, first + count):
        key = f"change-{number % 5_000}"
        sdk_bucket.upsert(key, {"n": number})
        expected[key.encode()] = number
        if number % 10 == 9:
            sdk_bucket.remove(key)
            del expected[key.encode()]


def test_consumer_follows_rebalance_and_failover_without_gap_or_repeat(start, client):
    nodes = start(cluster.made, 3, [BUCKET])
    documents, expected = client(nodes), {}
    follower = Follower(nodes)
    try:
        write(documents, 0, WRITES // 4, expected)
        nodes.start_rebalance(eject=[2])
        write(documents, WRITES // 4, WRITES // 4, expected)
        nodes.await_rebalance(seconds=120)
        # The removed node has not left yet: adding it waits for that.
        nodes.add(2)
        nodes.rebalance(seconds=120)
        write(documents, WRITES // 2, WRITES // 4, expected)
        assert nodes.fail_over(2, path="startGracefulFailover").status == 200
        write(documents, 3 * WRITES // 4, WRITES // 4, expected)

        nodes.await_rebalance(seconds=120)

        def numbers():
            if follower.failure:
                raise follower.failure
            return {key: json.loads(value)["n"] for key, value in follower.contents().items()}

        wait_until(lambda: numbers() == expected, 60, "the follower has every document")
        # No order above loses a change, so that no history may be rolled back.
        assert follower.rollbacks == []
    finally:
        follower.stop()


def test_tap_connection_closes_when_another_node_gets_copies(start):
    nodes = start(cluster.Cluster, 2)
    nodes[0].create_bucket(BUCKET, numVBuckets=VBUCKETS)
    with nodes[0].connect(BUCKET) as connection:
        # TAP_CONNECT without history.
        connection.send(frame(0x40, extras=struct.pack(">I", 1), value=b"\xff" * 8))
        assert connection.call(Op.NOOP).status == Status.SUCCESS
        nodes.add(1)
        nodes.rebalance()
        assert connection.is_closed_by_server()


def test_tap_client_that_was_closed_continues_where_it_was(start):
    nodes = start(cluster.Cluster, 2)
    nodes[0].create_bucket(BUCKET, numVBuckets=VBUCKETS)
    request = frame(0x40, extras=struct.pack(">I", 1), value=b"\xff" * 8)
    with nodes[0].connect(BUCKET) as connection:
        connection.send(request)
        assert connection.call(Op.NOOP).status == Status.SUCCESS
        nodes.add(1)
        nodes.rebalance()
        assert connection.is_closed_by_server()
    missing = set()
    with nodes[0].connect(BUCKET) as connection:
        for number in range(200):
            key = f"between-{number}"
            status = connection.set(key, b"1").status
            assert status in (Status.SUCCESS, Status.NOT_MY_VBUCKET)
            if status == Status.SUCCESS:
                missing.add(key.encode())
    assert missing
    with nodes[0].connect(BUCKET) as connection:
        connection.send(request)
        while missing:
            missing.discard(connection.receive().key)
