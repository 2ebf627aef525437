"""The unmodified Python client while the cluster changes: acknowledged writes stay."""

import struct
import threading
import time

import pytest
from couchbase.exceptions import (
    AmbiguousTimeoutException,
    CouchbaseException,
    DocumentNotFoundException,
    RequestCanceledException,
    TemporaryFailException,
    UnAmbiguousTimeoutException,
)

from cluster import Cluster, made
from rig.node import wait_until
from rig.wire import Closed, Op, Status, frame, vbucket_of

# Errors that a client may get while a node leaves: each means a retry.
RETRIABLE = (
    AmbiguousTimeoutException,
    UnAmbiguousTimeoutException,
    RequestCanceledException,
    TemporaryFailException,
)


class Traffic:
    """One writer and one reader over keys of their own, until they are stopped.

    The versions of a key rise: `acknowledged` is the newest that was answered with success,
    `sent` the newest that left. What is written over is read first: a version that was lost is
    among the `older` ones, though a newer one took its place since.
    """

    def __init__(self, collection, name, count=200):
        self.collection = collection
        self.keys = [f"{name}-{number}" for number in range(count)]
        self.acknowledged = dict.fromkeys(self.keys, 0)
        self.sent = dict.fromkeys(self.keys, 0)
        self.refusals = []
        self.wrong = []
        self.older = []
        self.slowest = 0.0
        self.writes = self.reads = 0
        self.is_paused = threading.Event()
        self.may_write = threading.Event()
        self.may_write.set()
        self.is_ended = False
        self.threads = [
            threading.Thread(target=work, daemon=True) for work in (self._write, self._read)
        ]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.is_ended = True
        self.may_write.set()
        for thread in self.threads:
            thread.join(30)

    def pause_writing(self):
        self.is_paused.clear()
        self.may_write.clear()
        assert self.is_paused.wait(30)

    def go_on_writing(self):
        self.may_write.set()

    def _write(self):
        version = 0
        while not self.is_ended:
            if not self.may_write.is_set():
                self.is_paused.set()
                self.may_write.wait()
                continue
            version += 1
            key = self.keys[version % len(self.keys)]
            self._check(key)
            self.sent[key] = version
            began = time.monotonic()
            try:
                self.collection.upsert(key, {"key": key, "version": version})
                self.acknowledged[key] = version
                self.writes += 1
            except CouchbaseException as failure:
                self.refusals.append(failure)
            self.slowest = max(self.slowest, time.monotonic() - began)

    def _read(self):
        number = 0
        while not self.is_ended:
            number += 1
            self._check(self.keys[number % len(self.keys)])
            time.sleep(0.001)

    def _check(self, key):
        acknowledged = self.acknowledged[key]
        try:
            document = self.collection.get(key).content_as[dict]
        except DocumentNotFoundException:
            document = {"key": key, "version": 0}
        except CouchbaseException as failure:
            self.refusals.append(failure)
            return
        if document["version"] < acknowledged:
            self.older.append((key, document, acknowledged))
        if document["version"] == 0:
            return
        self.reads += 1
        if document["key"] != key or not 0 < document["version"] <= self.sent[key]:
            self.wrong.append((key, document, self.sent[key]))

    def flaws(self):
        """Violations that may never occur if no loss is allowed; empty."""
        found = {"wrong": self.wrong, "older": self.older, "lost": self.lost()}
        return {kind: what for kind, what in found.items() if what}

    def lost(self):
        """Acknowledged versions that are lost, without a newer one of the key."""
        lost = {}
        for key, version in self.acknowledged.items():
            if version == 0:
                continue
            try:
                there = self.collection.get(key).content_as[dict]["version"]
            except DocumentNotFoundException:
                there = 0
            if there < version:
                lost[key] = (version, there)
        return lost

    def other_than_retriable(self):
        return [failure for failure in self.refusals if not isinstance(failure, RETRIABLE)]


def test_client_sees_no_error_while_the_cluster_grows_and_shrinks(start, client):
    cluster = start(Cluster, 3)
    cluster[0].create_bucket("travel", replicaNumber=1, numVBuckets=64)
    with Traffic(client(cluster), "grow") as traffic:
        for number in (1, 2):
            cluster.add(number)
        print("1 -> 3 nodes:", cluster.rebalance(), "s")
        print("3 -> 2 nodes:", cluster.rebalance(eject=(0,), at=1), "s")
        wait_until(lambda: traffic.writes > 100 and traffic.reads > 100, 60, "enough was asked")
        traffic.end()
        print(traffic.writes, "writes, slowest", traffic.slowest)
        assert traffic.refusals == []
        assert traffic.flaws() == {}


def test_client_sees_no_error_while_each_node_leaves_gracefully_and_is_recovered(start, client):
    """The leader, too; each order goes to a follower, even if it concerns that node."""
    cluster = start(made, 3, ["travel"])
    with Traffic(client(cluster), "graceful") as traffic:
        for turn, (number, recovery) in enumerate([(2, "delta"), (0, "reAddNode"), (1, "full")]):

            def follower(order, turn=turn):
                return cluster.followers()[(turn + order) % 2]

            writes = traffic.writes
            at = follower(0)
            assert cluster.fail_over(number, at, "startGracefulFailover").status == 200
            cluster.await_rebalance(at)
            assert cluster.membership(number, at) == "inactiveFailed"
            away = traffic.writes
            wait_until(lambda away=away: traffic.writes > away + 50, 20, "it writes meanwhile")
            cluster.take_back(number, recovery, at=follower(1))
            print(f"{recovery} of node {number}:", cluster.rebalance(at=follower(2)), "s")
            for each in range(3):
                assert cluster.membership(number, at=each) == "active"
            rows = cluster.vbucket_map("travel", at)
            assert all(None not in row for row in rows)
            assert any(row[0] == number for row in rows)
            print(traffic.writes - writes, "writes, slowest", traffic.slowest)
        traffic.end()
        assert traffic.refusals == []
        assert traffic.flaws() == {}


@pytest.mark.parametrize("recovery", ["full", "delta"])
def test_client_outlives_a_node_that_is_killed_failed_over_and_added_again(
    start, client, recovery
):
    cluster = start(made, 3, ["travel"])
    cluster.set_auto_failover(timeout=1)
    with Traffic(client(cluster), "kill") as traffic:
        time.sleep(1)
        cluster[2].kill()
        began = time.monotonic()
        wait_until(lambda: cluster.membership(2) == "inactiveFailed", 15, "it is failed over")
        print("failed over after", time.monotonic() - began, "s")
        wait_until(lambda: writes_pass(traffic), 10, "writes pass again")
        print("writes pass after", time.monotonic() - began, "s")
        # A replica lags by milliseconds: only writes in flight may be lost.
        traffic.pause_writing()
        tail = traffic.lost()
        print("lost with the killed node:", tail)
        assert len(tail) <= 20
        traffic.acknowledged.update({key: there for key, (_, there) in tail.items()})
        traffic.go_on_writing()
        cluster[2].start()
        cluster.take_back(2, recovery)
        print("rebalance:", cluster.rebalance(), "s")
        traffic.end()
        assert traffic.other_than_retriable() == []
        assert traffic.wrong == []
        assert traffic.lost() == {}


def test_writes_replicated_before_the_kill_are_not_lost(start, client):
    cluster = start(made, 3, ["travel"])
    cluster.set_auto_failover(timeout=1)
    with Traffic(client(cluster), "pause") as traffic:
        time.sleep(1)
        traffic.pause_writing()
        time.sleep(0.5)
        cluster[1].kill()
        wait_until(lambda: cluster.membership(1) == "inactiveFailed", 15, "it is failed over")
        assert traffic.lost() == {}
        traffic.go_on_writing()
        time.sleep(0.5)
        traffic.end()
        assert traffic.other_than_retriable() == []
        assert traffic.flaws() == {}


def writes_pass(traffic):
    """Whether a key of every vBucket can be written, all of them within ten seconds."""
    began = time.monotonic()
    for key in traffic.keys[:64]:
        try:
            traffic.collection.upsert("probe-" + key, {})
        except CouchbaseException:
            return False
    return time.monotonic() - began < 10


def test_stopped_node_acknowledges_nothing_after_its_lease(start):
    """Two writers, one at the old owner and one at the new: never do both succeed."""
    cluster = start(made, 3, ["travel"])
    cluster.set_auto_failover(timeout=1)
    key = b"whose"
    with cluster[0].connect("travel") as first:
        assert first.vbuckets == 64
    owner = next(
        number for number in range(3) if try_write(cluster[number], key, b"0") == Status.SUCCESS
    )
    other = (owner + 1) % 3
    connections = [cluster[owner].connect("travel") for _ in range(8)]
    cluster[owner].suspend()
    wait_until(
        lambda: cluster.membership(owner, at=other) == "inactiveFailed", 15, "it is failed over"
    )
    new = next(
        number
        for number in range(3)
        if number != owner and try_write(cluster[number], key, b"new") == Status.SUCCESS
    )
    # These wait in the stopped node's sockets: it reads them before it learns of the failover.
    for number, connection in enumerate(connections):
        send_write(connection, key, b"old %d" % number)
    cluster[owner].resume()
    for connection in connections:
        try:
            assert connection.receive().status != Status.SUCCESS
        except (Closed, ConnectionError):
            pass
        connection.close()
    with cluster[new].connect("travel") as connection:
        assert connection.get(key).value == b"new"
    assert try_write(cluster[owner], key, b"late") == Status.NOT_MY_VBUCKET


def send_write(connection, key, value):
    place = vbucket_of(key, connection.vbuckets)
    connection.send(frame(Op.SET, key, struct.pack(">II", 0, 0), value, vbucket=place))


def try_write(member, key, value):
    with member.connect("travel") as connection:
        return connection.set(key, value).status
