"""A node with few descriptors: it stays alive, its administrator is answered, nothing old is lost.

`DIVAN_STRANGERS` connections are opened to each port in turn (1 500, in a campaign 10 000).
"""

import json
import os
import resource
import socket
import threading
import time

import pytest

from cluster import Cluster, Member
from rig.node import PASSWORD, USER, wait_until
from rig.rest import Rest
from rig.wire import Closed, Connection, Status, vbucket_of

STRANGERS = int(os.environ.get("DIVAN_STRANGERS", "1500"))
LIMITED = ["prlimit", "--nofile=300:300"]
MAP = "function (doc) { emit(doc.n + %d, null); }"
# Strangers have another address than the tests' clients.
ADDRESS = "127.0.0.2"


def may_open(count):
    """Whether this process may open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count and (hard == resource.RLIM_INFINITY or hard >= count):
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= count


class Writer(threading.Thread):
    """Writes keys in turn over one connection, and remembers when each version was acknowledged."""

    def __init__(self, node, bucket, keys):
        super().__init__(daemon=True)
        self.connection = node.connect(bucket)
        self.keys = keys
        self.acknowledged = {}
        self.failures = 0
        self.is_over = False

    def run(self):
        version = 0
        while not self.is_over:
            version += 1
            for key in self.keys:
                try:
                    status = self.connection.set(key, b"%d" % version).status
                except (Closed, OSError):
                    self.is_over = True
                    return
                if status == Status.SUCCESS:
                    self.acknowledged.setdefault(key, []).append((time.monotonic(), version))
                else:
                    self.failures += 1
            time.sleep(0.02)


class Crowd:
    """Connections that send nothing and are not closed by their client."""

    def __init__(self, port, count):
        self.sockets = []
        for number in range(count):
            each = socket.socket()
            each.setblocking(False)
            self.sockets.append(each)
            each.bind((ADDRESS, 0))
            each.connect_ex(("127.0.0.1", port))
            # Faster than a node accepts, and slower than the kernel's queue overflows for good.
            if number % 100 == 99:
                time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self.sockets:
            each.close()


def put_view(node, bucket, number):
    """Stores a design document with a map function of its own; returns the reply."""
    body = json.dumps({"views": {"by_n": {"map": MAP % number}}})
    views = Rest(int(node.flag("--views-port")), (USER, PASSWORD))
    headers = {"Content-Type": "application/json"}
    return views.request("PUT", f"/{bucket}/_design/d{number}", body, headers)


def put_views(node, bucket, count):
    for number in range(count):
        wait_until(
            lambda: put_view(node, bucket, number).status == 201,
            20,
            "the design document is stored",
        )


def answers(node):
    """Whether the administrator is answered, over a new connection."""
    try:
        return node.admin.get("/pools/default", seconds=5).status == 200
    except OSError:
        return False


def test_node_of_300_descriptors_outlives_crowds_on_each_port_and_loses_nothing_old(start):
    if not may_open(STRANGERS + 500):
        pytest.skip(f"NOT TESTED: this process may not open {STRANGERS + 500} files (ulimit -n)")
    cluster = start(Cluster, [Member(prefix=LIMITED), Member(), Member()])
    node = cluster[0]
    for number in (1, 2):
        cluster.add(number)
    cluster.rebalance()
    for bucket, replicas in (("kept", 0), ("one", 1), ("two", 1)):
        node.create_bucket(bucket, replicaNumber=replicas, numVBuckets=64)
    for bucket, count in (("kept", 7), ("one", 7), ("two", 6)):
        put_views(node, bucket, count)
    rows = cluster.vbucket_map("kept")
    keys = [b"key-%d" % n for n in range(400)]
    keys = [key for key in keys if rows[vbucket_of(key, 64)][0] == 0]
    assert len(keys) > 50
    writer = Writer(node, "kept", keys)
    writer.start()
    wait_until(lambda: len(writer.acknowledged) == len(keys), 20, "each key is written")
    for flag in ("--kv-port", "--admin-port", "--views-port", "--peer-port"):
        with Crowd(int(node.flag(flag)), STRANGERS):
            wait_until(lambda: answers(node), 20, f"the administrator is answered: {flag}")
            assert node.is_running, node.log()
            time.sleep(2)
            wait_until(lambda: answers(node), 20, f"the administrator is answered: {flag}")
        assert node.is_running, node.log()
    assert not writer.is_over, node.log()
    wait_until(lambda: answers(node), 20, "the administrator is answered")
    time.sleep(3)
    killed = time.monotonic()
    node.kill()
    writer.join(20)
    assert not writer.is_alive(), "the writer ends with its connection"
    node.start()
    node.await_bucket("kept")
    with node.connect("kept") as connection:
        for key, versions in writer.acknowledged.items():
            old = [version for at, version in versions if at < killed - 2]
            if old:
                # The other nodes let the restarted copy serve again.
                wait_until(
                    lambda key=key: connection.get(key).status != Status.NOT_MY_VBUCKET, 20, key
                )
                found = connection.get(key)
                assert found.status == Status.SUCCESS and int(found.value) >= old[-1], key


def test_design_document_without_descriptors_is_refused_with_number_and_cure(make_node):
    node = make_node(prefix=LIMITED).start().provision().create_bucket("many")
    stored = 0
    for number in range(400):
        reply = put_view(node, "many", number)
        if reply.status != 201:
            assert reply.status == 503, reply
            assert "of 300 descriptors are open" in reply.text and "ulimit -n" in reply.text
            break
        stored += 1
    assert stored >= 20
    assert answers(node)
    with node.connect("many") as connection:
        assert connection.set(b"key", b"1").status == Status.SUCCESS


def test_clients_that_wait_for_descriptors_are_named_in_an_alert_and_accepted_later(make_node):
    node = make_node("--memcached-port", "0", "--memcached-bucket", "plain", prefix=LIMITED)
    node.start().provision().create_bucket("plain")
    with node.connect("plain") as connection:
        crowd = [Connection(node.memcached_port) for _ in range(290)]
        try:
            for each in crowd:
                each.send(b"version\r\n")

            def alerts():
                found = node.admin.get("/pools/default").json["alerts"]
                return [text for text in map(str, found) if "wait for descriptors" in text]

            alert = wait_until(alerts, 15, "an alert about descriptors")[0]
            assert "of 300 descriptors are open" in alert and "ulimit -n" in alert
            assert connection.set(b"key", b"1").status == Status.SUCCESS
            assert "wait for descriptors" in node.log()
        finally:
            for each in crowd:
                each.close()
    wait_until(lambda: node.connect("plain").get(b"key").value == b"1", 10, "a new client")
    wait_until(lambda: not alerts(), 30, "the alert ends")
