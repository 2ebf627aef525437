"""Nodes on separate machines, and partitions of every kind between them."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cluster import Cluster, Member, made
from documents import Documents, Doors
from rig import network as rig_network
from rig.node import PASSWORD, USER, wait_until
from rig.wire import Closed, Op, Status, frame, vbucket_of
from test_cluster_durable import MAJORITY, ON_ACTIVE, ON_MAJORITY, frames
from test_cluster_lifecycle import is_unprovisioned
from test_cluster_quorum import is_stale

BUCKET = "travel"
NAMES = ("db1", "db2", "db3")
# Each machine has its own ports.
PORTS = (11210, 8091, 8092, 21100)
VBUCKETS = 64
# After these three: a node that was failed over and has ended, and a node without a cluster.
LOST, STRANGER = 3, 4


@pytest.fixture
def machines():
    """Three machines and that of the client, in which this test opens its sockets."""
    with rig_network.opened(NAMES) as network:
        yield network


def members(network, names=NAMES):
    return [
        Member(
            PORTS,
            host=network.addresses[name],
            prefix=network.command(name),
            flags=("--bind", "0.0.0.0"),
        )
        for name in names
    ]


def formed(start, network, **settings):
    """Three nodes with an automatic failover after one second."""
    cluster = start(made, members(network), [BUCKET], numVBuckets=VBUCKETS, **settings)
    cluster.set_auto_failover(timeout=1)
    return cluster


def formed_with_strangers(start, network):
    """The same three, and on the client's machine, which every one reaches, two more nodes."""
    more = [
        Member(
            tuple(port + 100 * place for port in PORTS),
            host=network.addresses["client"],
            prefix=network.command("client"),
            flags=("--bind", "0.0.0.0"),
        )
        for place in (1, 2)
    ]
    cluster = start(Cluster, [*members(network), *more])
    for each in (1, 2, LOST):
        cluster.add(each)
    cluster.rebalance()
    assert cluster.fail_over(LOST).status == 200
    cluster[LOST].kill()
    cluster[0].create_bucket(BUCKET, replicaNumber=1, numVBuckets=VBUCKETS)
    cluster.set_auto_failover(timeout=1)
    return cluster


def answers(cluster, number, keys):
    """How a node answers writes and reads of keys, including those of other owners."""
    told = set()
    with cluster[number].connect(BUCKET, seconds=5) as connection:
        for key in keys:
            told.add(connection.set(key, b"too late").status)
            told.add(connection.get(key).status)
    return told


def changes_asked_of(cluster, number, others):
    """Answers to orders that need a majority; each takes seconds, so all are sent at once."""
    known = ",".join(node["otpNode"] for node in cluster.nodes(number).values())
    other, lost = ({"otpNode": cluster.name(each, number)} for each in (others[1], LOST))
    stranger = {
        "hostname": cluster[STRANGER].address,
        "user": "",
        "password": cluster[STRANGER].token,
    }
    attempts = {
        "/pools/default/buckets": {"name": "more", "ramQuotaMB": 100},
        "/controller/failOver": other,
        "/controller/startGracefulFailover": other,
        "/controller/rebalance": {"knownNodes": known, "ejectedNodes": ""},
        "/controller/addNode": stranger,
        "/controller/ejectNode": lost,
        "/controller/setRecoveryType": {**lost, "recoveryType": "delta"},
        "/controller/reAddNode": lost,
    }

    def ask(attempt):
        path, form = attempt
        return path, cluster[number].admin.post(path, form, seconds=30)

    with ThreadPoolExecutor() as several:
        return list(several.map(ask, attempts.items()))


def come_back(cluster, number, at):
    """A failed-over node learns of it, and serves again after a rebalance."""
    wait_until(lambda: cluster.membership(number, at=number) == "inactiveFailed", 10, "it knows")
    # What was sent while the cable was cut is sent again with growing pauses: it is heard seconds later.
    address = cluster[number].address
    wait_until(lambda: cluster.nodes(at)[address]["status"] == "healthy", 20, "it is heard")
    cluster.take_back(number, "delta", at)
    cluster.rebalance(at=at)
    cluster.await_healthy(at)


# Several machines


def test_machines_become_one_cluster_by_their_addresses(start, machines):
    cluster = start(Cluster, members(machines))
    cluster[0].create_bucket(BUCKET, replicaNumber=1, numVBuckets=VBUCKETS)
    # It listened on loopback so far; an added node reaches it at its real address.
    cluster.add(1)
    known = cluster[0].anonymous.get("/nodes/self/peer").json
    form = {"hostname": cluster[0].address, "user": USER, "password": PASSWORD}
    form["fingerprint"] = known["fingerprint"]
    reply = cluster[2].newcomer.post("/node/controller/doJoinCluster", form)
    assert reply.status == 200, reply
    expected = {f"{address}:8091" for name, address in machines.addresses.items() if name in NAMES}
    for number in range(3):
        assert set(cluster.nodes(number)) == expected
    cluster.rebalance(at=2)
    documents = Documents(cluster, BUCKET)
    documents.write("first", 300, at=1)
    documents.await_copies(at=2)
    for number in range(3):
        terse = cluster[number].admin.get(f"/pools/default/b/{BUCKET}").json
        servers = terse["vBucketServerMap"]["serverList"]
        assert sorted(servers) == sorted(place.replace("8091", "11210") for place in expected)
        with cluster[number].connect(BUCKET) as connection:
            assert b"127.0.0.1" not in connection.call(Op.GET_CLUSTER_CONFIG, vbucket=0).value
    # And after all of them were restarted.
    for member in cluster.members:
        member.stop()
    for member in cluster.members:
        member.start()
    cluster.await_healthy()
    assert set(cluster.nodes(1)) == expected
    wait_until(lambda: not documents.wrong(at=0), 10, "every document is there")
    documents.write("second", 100, at=2)


def shown_nodes(cluster, number):
    """Where the nodes are, as the admin port and a client's map of one node say."""
    with cluster[number].connect(BUCKET) as connection:
        told = connection.call(Op.GET_CLUSTER_CONFIG, vbucket=0).value
    assert b"127.0." not in told and b"localhost" not in told and b"$HOST" not in told
    return set(cluster.nodes(number))


def test_loopback_address_is_refused_in_a_cluster_of_several_machines(start, machines):
    """For clients elsewhere it would be their own machine."""
    address = machines.addresses["db1"]
    alias = rig_network.FILES / machines.namespace("db1") / "hosts"
    alias.write_text(alias.read_text() + "127.0.1.1 same-machine\n")
    # A second node on the first one's machine.
    beside = Member(
        tuple(port + 100 for port in PORTS),
        host=address,
        prefix=machines.command("db1"),
        flags=("--bind", "0.0.0.0", "--host-name", "same-machine"),
    )
    cluster = start(Cluster, [*members(machines, NAMES[:2]), beside])
    assert cluster[0].admin.post("/node/controller/rename", {"hostname": address}).status == 200
    cluster.add(1)
    cluster.rebalance()
    cluster[0].create_bucket(BUCKET, replicaNumber=1, numVBuckets=VBUCKETS)
    known = {cluster[number].address for number in range(2)}
    form = {"user": USER, "password": PASSWORD, "services": "kv"}
    for name in ("127.0.0.1", "127.9.9.9", "localhost", "same-machine", "0.0.0.0"):
        place = {"hostname": f"{name}:{beside.admin_port}"}
        reply = cluster[0].admin.post("/controller/addNode", {**form, **place})
        assert reply.status == 400 and "itself" in reply.text, (name, reply)
        assert f"{address}:8091" in reply.text
    # It is named by its request: over loopback, and as the cluster sees it.
    join = "/node/controller/doJoinCluster"
    for name in ("127.0.0.1", "localhost", "same-machine"):
        reply = beside.newcomer.post(join, {"hostname": f"{name}:8091", **form})
        assert reply.status == 400 and "itself" in reply.text, (name, reply)
    assert shown_nodes(cluster, 0) == shown_nodes(cluster, 1) == known
    # A member cannot be renamed, not even indirectly.
    for number in range(2):
        reply = cluster[number].admin.post("/node/controller/rename", {"hostname": "127.0.0.1"})
        assert reply.status == 400 and "part of a cluster with other nodes" in reply.text
    fingerprint = cluster[0].anonymous.get("/nodes/self/peer").json["fingerprint"]
    form["fingerprint"] = fingerprint
    reply = beside.newcomer.post(join, {"hostname": f"{address}:8091", **form})
    assert reply.status == 200, reply
    known.add(beside.address)
    cluster.rebalance()
    assert shown_nodes(cluster, 0) == shown_nodes(cluster, 1) == known
    # Nor after a restart at an unreachable address: the other nodes keep its former address.
    cluster[1].stop()
    cluster[1].flags[cluster[1].flags.index("--bind") + 1] = "127.0.0.1"
    cluster[1].start()
    wait_until(lambda: "listens on 127.0.0.1 only" in cluster[1].log(), 10, "it says so")
    assert shown_nodes(cluster, 0) == known


def test_lone_node_on_loopback_refuses_nodes_of_other_machines(start, machines):
    """Its name would be an address where it does not listen, for its clients as well."""
    lone, other = members(machines, NAMES[:2])
    lone.flags[lone.flags.index("--bind") + 1] = "127.0.0.1"
    lone.host = "127.0.0.1"
    with machines.inside("db1"):
        cluster = start(Cluster, [lone, other])
        reply = lone.admin.post(
            "/controller/addNode",
            {"hostname": other.address, "user": "", "password": other.token, "services": "kv"},
        )
        assert reply.status == 400 and "listens on 127.0.0.1 only" in reply.text, reply
        assert set(cluster.nodes()) == {"127.0.0.1:8091"}


SDK = """
import datetime, json, sys
sys.path.insert(0, sys.argv[1])
from rig import sdk
class Place:
    connection_string = sys.argv[2]
cluster = sdk.connect(Place)
collection = cluster.bucket(sys.argv[3]).default_collection()
for number in range(100):
    collection.upsert(f"sdk-{number}", {"number": number})
read = [collection.get(f"sdk-{number}").content_as[dict]["number"] for number in range(100)]
print(json.dumps(read))
cluster.close()
"""


def test_clients_reach_nodes_by_their_host_names(start, machines):
    cluster = start(Cluster, members(machines))
    reply = cluster[0].admin.post("/node/controller/rename", {"hostname": "db1"})
    assert reply.status == 200, reply
    for member, name in zip(cluster.members, NAMES):
        member.name = name
    cluster[0].create_bucket(BUCKET, replicaNumber=1, numVBuckets=VBUCKETS)
    for number in (1, 2):
        cluster.add(number)
    cluster.rebalance()
    for number in range(3):
        assert set(cluster.nodes(number)) == {f"{name}:8091" for name in NAMES}
    # The official client on a machine of its own, which knows nothing but names.
    result = subprocess.run(
        [
            *machines.command("client"),
            sys.executable,
            "-c",
            SDK,
            str(rig_network.pathlib.Path(__file__).parent),
            # Two, because for one it would ask for a DNS record.
            "couchbase://db3,db2",
            BUCKET,
        ],
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == list(range(100))
    # A name survives a restart, and the other nodes find the node by it.
    cluster[0].stop()
    cluster[0].start()
    cluster.await_healthy(at=1)
    assert set(cluster.nodes(1)) == {f"{name}:8091" for name in NAMES}
    documents = Documents(cluster, BUCKET)
    wait_until(lambda: not documents.try_write("after", 100, at=0), 10, "everything serves")


# Partitions


@pytest.mark.parametrize("number", [0, 2], ids=["the-leader", "a-follower"])
def test_minority_refuses_requests_while_the_majority_takes_over(start, machines, number):
    cluster = formed_with_strangers(start, machines)
    others = [each for each in range(3) if each != number]
    at = others[0]
    documents = Documents(cluster, BUCKET)
    documents.write("before", 400, at)
    documents.await_copies(at)
    keys = documents.of(number, at)[:50]
    assert len(keys) == 50
    machines.cut_off(NAMES[number])
    began = time.monotonic()
    wait_until(
        lambda: cluster.membership(number, at) == "inactiveFailed", 15, "it is failed over"
    )
    print("failed over after", round(time.monotonic() - began, 2), "s")
    # The client still reaches it: it must not serve vBuckets that it no longer owns.
    assert Status.SUCCESS not in answers(cluster, number, keys)
    assert documents.wrong(at) == {}
    documents.write("meanwhile", 400, at)
    # Nothing can be decided in the minority.
    for path, reply in changes_asked_of(cluster, number, others):
        assert reply.status >= 500, (path, reply)
        assert "are needed to decide anything" in reply.text, (path, reply)
    majority = cluster.nodes(at)
    assert majority[cluster[LOST].address]["recoveryType"] == "none"
    assert len(majority) == 4
    assert cluster[at].admin.get("/pools/default").json["rebalanceStatus"] == "none"
    machines.heal()
    come_back(cluster, number, at)
    for each in range(3):
        assert documents.wrong(each) == {}
    documents.await_copies(at)
    assert len(cluster[at].admin.get("/pools/default/buckets").json) == 1
    # It has no effect later either: the lost node left with the rebalance, and no node was added.
    assert set(cluster.nodes(at)) == {cluster[each].address for each in range(3)}
    assert is_unprovisioned(cluster[STRANGER])


@pytest.mark.parametrize(
    "number, talks",
    [(0, False), (2, False), (2, True)],
    ids=["the-leader", "a-follower", "a-follower-that-hears-nothing"],
)
def test_minority_commits_no_durable_write_and_majority_decides_pending_ones(
    start, machines, number, talks
):
    """A write in flight during the cut may be ambiguous: then all copies have it, or none."""
    cluster = formed(start, machines, replicaNumber=2)
    at = (number + 1) % 3
    documents = Documents(cluster, BUCKET)
    documents.write("before", 400, at)
    documents.await_copies(at)
    keys = documents.of(number, at)[:48]
    levels = (MAJORITY, ON_ACTIVE, ON_MAJORITY)
    # Some are decided before the repair, some wait for it; others are not affected.
    asked = {
        key: frames(levels[place % 3], 1_500 if place < 12 else 30_000)
        for place, key in enumerate(keys[:24])
    }
    waiting = {key: cluster[number].connect(BUCKET, seconds=40) for key in asked}
    machines.cut_off(NAMES[number], talks=talks)
    for key, connection in waiting.items():
        place = vbucket_of(key, connection.vbuckets)
        connection.send(
            frame(Op.SET, key, bytes(8), b"at the cut", vbucket=place, frames=asked[key])
        )
    told = {key: waiting[key].receive().status for key in keys[:12]}
    wait_until(lambda: is_stale(cluster, number), 15, "it knows that it is cut off")
    with cluster[number].connect(BUCKET) as connection:
        for level in levels:
            later = {connection.set(key, b"later", frames=frames(level)).status for key in keys}
            assert later == {Status.NOT_MY_VBUCKET}
    wait_until(
        lambda: cluster.membership(number, at) == "inactiveFailed", 15, "it is failed over"
    )
    # From here on the majority's answer is final: the repair does not change it.
    with Doors(cluster, BUCKET) as doors:
        owners = documents.owners(at)

        def served(key, op=Op.GET, **fields):
            """The answer of the new owner, once it has decided all inherited prepares."""
            door = doors[owners[vbucket_of(key, VBUCKETS)]]

            def answer():
                reply = door.call(op, key, **fields)
                return reply if reply.status == Status.SUCCESS else None

            return wait_until(answer, 20, "it is served")

        said = {key: served(key).value for key in asked}
        for key in keys[::2]:
            served(key, Op.SET, extras=bytes(8), value=b"meanwhile", frames=frames(MAJORITY))
    machines.heal()
    told |= {key: waiting[key].receive().status for key in keys[12:24]}
    for connection in waiting.values():
        connection.close()
    print([(hex(told[key]), said[key]) for key in asked])
    for key, status in told.items():
        assert status in (Status.SYNC_WRITE_AMBIGUOUS, Status.NOT_MY_VBUCKET), (key, hex(status))
        # No refused write is visible, nor one that never reached the majority.
        may_be = status == Status.SYNC_WRITE_AMBIGUOUS and talks
        assert said[key] == documents.written[key] or may_be and said[key] == b"at the cut", key
    documents.written |= said | dict.fromkeys(keys[::2], b"meanwhile")
    come_back(cluster, number, at)
    for each in range(3):
        assert documents.wrong(each) == {}
    documents.await_copies(at)


@pytest.mark.parametrize("broken", ["talks", "hears"])
def test_node_with_a_one_way_link_is_failed_over(start, machines, broken):
    """A node whose messages are lost, or that receives none: both are failed over, once."""
    cluster = formed(start, machines)
    documents = Documents(cluster, BUCKET)
    documents.write("before", 200, at=0)
    documents.await_copies(at=0)
    machines.cut_off("db2", talks=broken != "talks", hears=broken != "hears")
    wait_until(lambda: cluster.membership(1, at=0) == "inactiveFailed", 15, "it is failed over")
    assert Status.SUCCESS not in answers(cluster, 1, list(documents.written)[:50])
    assert documents.wrong(at=0) == {}
    documents.write("meanwhile", 200, at=2)
    machines.heal()
    come_back(cluster, 1, at=0)
    assert documents.wrong(at=1) == {}
    settings = cluster[0].admin.get("/settings/autoFailover").json
    # The rebalance reset the count: no other node was failed over since.
    assert settings["count"] == 0
    assert all(cluster.membership(each, at=2) == "active" for each in range(3))


def test_cut_between_two_nodes_causes_no_failover(start, machines):
    """One broken link causes no failover, and everything works after its repair."""
    cluster = formed(start, machines)
    documents = Documents(cluster, BUCKET)
    documents.write("before", 200, at=0)
    documents.await_copies(at=0)
    machines.cut_off("db2", others=["db3"])
    time.sleep(4)
    assert all(cluster.membership(each) == "active" for each in range(3))
    assert documents.wrong(at=0) == {}
    # Every vBucket has an owner with a lease; what has its replica behind the cut waits for that.
    documents.write("meanwhile", 200, at=0)
    machines.heal()
    documents.await_copies(at=0)
    for each in range(3):
        assert documents.wrong(each) == {}


def test_short_network_interruption_loses_nothing(start, machines):
    cluster = formed(start, machines)
    cluster.set_auto_failover(timeout=10)
    documents = Documents(cluster, BUCKET)
    documents.write("before", 200, at=0)
    with cluster[1].connect(BUCKET) as connection:
        machines.unplug("db2")
        time.sleep(2)
        machines.plug("db2")
        # A connection outlives it; the node has its lease again and answers for what it owns.
        keys = documents.of(1, at=0)

        def serves():
            try:
                return all(
                    connection.get(key).value == documents.written[key] for key in keys[:20]
                )
            except (Closed, ConnectionError):
                return False

        wait_until(serves, 10, "it serves again")
    assert all(cluster.membership(each) == "active" for each in range(3))
    documents.write("after", 200, at=0)
    documents.await_copies(at=0)
    assert documents.wrong(at=1) == {}
