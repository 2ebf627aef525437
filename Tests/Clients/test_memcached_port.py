"""The plain memcached listener: any memcached client, one bucket, loopback only."""

import shutil
import struct
import subprocess

import pytest

from cluster import Cluster, Member, made
from rig.node import PASSWORD, USER, Node, NotReady, wait_until
from rig.wire import Connection, Op, Status


@pytest.fixture(scope="module")
def plain():
    """A node whose memcached port serves a bucket that does not exist at first."""
    with Node("--memcached-port", "0", "--memcached-bucket", "plain") as node:
        node.start().provision()
        yield node


@pytest.fixture
def connection(plain):
    if plain.admin.get("/pools/default/buckets/plain").status != 200:
        plain.create_bucket("plain", bucketType="ephemeral")
    with Connection(plain.memcached_port) as connection:
        yield connection


def test_listener_refuses_until_its_bucket_exists(make_node):
    node = make_node("--memcached-port", "0", "--memcached-bucket", "later").start().provision()
    with Connection(node.memcached_port) as connection:
        assert connection.get(b"key").status == Status.NO_BUCKET
        assert connection.set(b"key", b"1").status == Status.NO_BUCKET
        node.create_bucket("later", bucketType="ephemeral")
        assert connection.set(b"key", b"1").status == Status.SUCCESS
        assert connection.get(b"key").value == b"1"


def test_memcached_port_ignores_the_vbucket_of_the_header(connection):
    for vbucket in (0, 1, 1023, 1024, 0xFFFF):
        assert connection.set(b"anywhere", b"1", vbucket=vbucket).status == Status.SUCCESS
        assert connection.get(b"anywhere", vbucket=vbucket ^ 1).value == b"1"


def test_both_ports_see_the_same_documents(plain, connection):
    connection.set(b"shared", b"1", flags=5)
    with plain.connect("plain") as couchbase:
        found = couchbase.get(b"shared")
        assert (found.value, found.flags) == (b"1", 5)
        couchbase.set(b"shared", b"2")
    assert connection.get(b"shared").value == b"2"


def test_flush_of_a_bucket_on_several_nodes_is_refused_by_the_listener(start):
    flags = ("--memcached-port", "0", "--memcached-bucket", "plain")
    cluster = start(made, [Member(flags=flags), Member()], ["plain"])
    with Connection(cluster[0].memcached_port) as connection:
        reply = connection.call(Op.FLUSH, extras=struct.pack(">I", 0))
        assert reply.status == Status.NOT_SUPPORTED


PLAIN = ("--memcached-port", "0", "--memcached-bucket", "plain")
KEYS = [b"key-%d" % number for number in range(30)]


def listeners(node):
    """The memcached listeners in `/nodeStatuses`, by the number of the node."""
    statuses = node.admin.get("/nodeStatuses").json
    return {
        place: status["memcachedListener"]
        for place, status in statuses.items()
        if "memcachedListener" in status
    }


def assert_refused(cluster, number):
    """The listener refuses every key with a message, and every node shows the reason."""
    with Connection(cluster[number].memcached_port) as connection:
        for key in KEYS:
            reply = connection.get(key)
            assert reply.status == Status.NOT_SUPPORTED
            assert b"several nodes" in reply.value and b"Couchbase client" in reply.value
        assert connection.set(b"key", b"1").status == Status.NOT_SUPPORTED
        assert connection.call(Op.NOOP).status == Status.SUCCESS
    place = cluster[number].address
    for member in cluster.members:
        told = wait_until(lambda member=member: listeners(member).get(place), 10, "it is told")
        assert told["bucket"] == "plain" and told["serves"] is False
        assert "--memcached-bucket plain" in told["reason"]
    assert "The memcached port (--memcached-bucket plain) refuses requests" in cluster[number].log()
    alerts = cluster[number].admin.get("/pools/default").json["alerts"]
    assert any("memcached port" in alert["msg"] for alert in alerts)


def test_listener_refuses_in_a_cluster_and_serves_again_alone(start):
    cluster = start(Cluster, [Member(flags=PLAIN), Member()])
    first = cluster[0].create_bucket("plain", numVBuckets=64)
    with Connection(first.memcached_port) as connection:
        for key in KEYS:
            assert connection.set(key, key).status == Status.SUCCESS
        assert listeners(first)[first.address] == {"bucket": "plain", "serves": True}
        cluster.add(1)
        # Before any vBucket is moved: the connection stays open, and gets refusals.
        assert connection.get(KEYS[0]).status == Status.NOT_SUPPORTED
        cluster.rebalance()
        assert_refused(cluster, 0)
        # After a restart the node serves its vBuckets to other clients.
        assert first.stop() == 0
        first.start()
        cluster.await_healthy()
        assert_refused(cluster, 0)
        cluster.rebalance(eject=[1])
    with Connection(first.memcached_port) as connection:
        for key in KEYS:
            assert connection.get(key).value == key
    assert listeners(first)[first.address] == {"bucket": "plain", "serves": True}
    assert "The memcached port serves bucket plain again" in first.log()


def test_listener_of_a_node_that_joins_refuses_until_the_node_is_out(start):
    cluster = start(Cluster, [Member(), Member(flags=PLAIN)])
    cluster[0].create_bucket("plain", numVBuckets=64)
    joining = cluster[1]
    form = {"hostname": cluster[0].address, "user": USER, "password": PASSWORD}
    assert joining.anonymous.post("/node/controller/doJoinCluster", form).status == 200
    cluster.rebalance()
    assert_refused(cluster, 1)
    assert listeners(cluster[0]).keys() == {joining.address}
    cluster.rebalance(eject=[1])

    def is_alone():
        with Connection(joining.memcached_port) as connection:
            return connection.get(b"key").status == Status.NO_BUCKET

    # It has no buckets and no other nodes.
    wait_until(is_alone, 20, "the node that left is alone")
    assert listeners(cluster[0]) == {}


def test_flush_empties_the_bucket(connection):
    for number in range(100):
        connection.set(f"flushed-{number}".encode(), b"1")
    assert connection.call(Op.FLUSH, extras=struct.pack(">I", 0)).status == Status.SUCCESS
    for number in range(100):
        assert connection.get(f"flushed-{number}".encode()).status == Status.NOT_FOUND
    assert connection.set(b"after", b"1").status == Status.SUCCESS


def test_memccapable_passes(plain, connection):
    program = shutil.which("memccapable")
    assert program, "memccapable is missing: make deps installs it (libmemcached-tools)"
    result = subprocess.run(
        [program, "-h", "127.0.0.1", "-p", str(plain.memcached_port), "-b", "-t", "10"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report = result.stdout + result.stderr
    assert result.returncode == 0, report
    assert "[FAIL]" not in report, report
    assert "[pass]" in report, report


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_only_loopback_has_a_port_without_a_login(make_node, address):
    node = make_node("--bind", address, "--memcached-port", "0", "--memcached-bucket", "plain")
    with pytest.raises(NotReady) as refused:
        node.start()
    assert refused.value.code not in (0, None)
    assert "--memcached-port" in refused.value.log
    assert "loopback" in refused.value.log


def test_memcached_port_without_a_bucket_is_refused(make_node):
    with pytest.raises(NotReady) as refused:
        make_node("--memcached-port", "0").start()
    assert "--memcached-bucket" in refused.value.log
