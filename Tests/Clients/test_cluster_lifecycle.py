"""The lifecycle of a cluster over REST: it grows, shrinks, loses and recovers nodes."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from couchbase.exceptions import CouchbaseException

import documents as documents_by_map
from cluster import Cluster, made
from rig import sdk
from rig.node import PASSWORD, USER, wait_until
from rig.wire import Status
from test_cluster_durable import MAJORITY, frames
from test_cluster_sdk import Traffic

COUNT = 500


class Documents:
    """Documents written through the SDK, to be read back through it."""

    def __init__(self, cluster, bucket="travel"):
        self.client = sdk.connect(cluster)
        self.collection = self.client.bucket(bucket).default_collection()
        self.expected = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def write(self, name, count=COUNT):
        for number in range(count):
            key, value = f"{name}-{number}", {"name": name, "number": number}
            self.collection.upsert(key, value)
            self.expected[key] = value

    def wrong(self):
        """The keys without the written value."""
        return [
            key
            for key, value in self.expected.items()
            if self.collection.get(key).content_as[dict] != value
        ]


def active_counts(cluster, bucket="travel", at=0):
    rows = cluster.vbucket_map(bucket, at)
    return {number: sum(row[0] == number for row in rows) for number in range(len(cluster))}


def is_unprovisioned(member):
    reply = member.anonymous.get("/pools/default")
    return reply.status == 404 and "unknown pool" in reply.text


def has_files(member):
    return bool(list((member.data / "buckets").glob("*/**/*.sqlite")))


def await_no_files(member):
    """Files are moved aside at once, and removed after their last reader."""
    wait_until(lambda: not has_files(member), 10, "its documents' files are gone")


# Growing and shrinking


def test_nodes_are_added_and_rebalanced_in_with_documents_and_out_again(start):
    cluster = start(Cluster, 3)
    cluster[0].create_bucket("travel", replicaNumber=1, numVBuckets=64)
    with Documents(cluster) as documents:
        documents.write("alone")
        cluster.add(1)
        cluster.add(2, at=0)
        assert cluster.membership(2, at=1) == "inactiveAdded"
        assert active_counts(cluster) == {0: 64, 1: 0, 2: 0}
        cluster.rebalance(at=2)
        assert max(active_counts(cluster, at=1).values()) <= 22
        assert all(None not in row and len(set(row)) == 2 for row in cluster.vbucket_map("travel"))
        documents.write("three")
        assert documents.wrong() == []
        # The founder leaves.
        cluster.rebalance(eject=(0,), at=1)
        assert active_counts(cluster, at=1) == {0: 0, 1: 32, 2: 32}
        wait_until(lambda: is_unprovisioned(cluster[0]), 10, "the node has no cluster")
        await_no_files(cluster[0])
        documents.write("two")
        assert documents.wrong() == []
        # It is added again, empty, like any other node.
        cluster.add(0, at=2)
        cluster.rebalance(at=1)
        assert max(active_counts(cluster, at=0).values()) <= 22
        assert documents.wrong() == []


def test_leader_of_two_nodes_can_be_rebalanced_out(start):
    cluster = start(made, 2, ["travel"])
    with Documents(cluster) as documents:
        documents.write("before")
        # The founder leads; the remaining node has to lead alone afterwards.
        cluster.rebalance(eject=(0,), at=1)
        wait_until(lambda: is_unprovisioned(cluster[0]), 10, "the node has no cluster")
        assert list(cluster.nodes(at=1)) == [cluster[1].address]
        cluster[1].create_bucket("second", replicaNumber=0, numVBuckets=64)
        assert documents.wrong() == []
        cluster.add(0, at=1)
        cluster.rebalance(at=1)
        assert documents.wrong() == []


def test_added_node_can_be_ejected_and_added_again(start):
    cluster = start(Cluster, 2)
    name = cluster.add(1)
    reply = cluster[1].admin.post("/controller/ejectNode", {"otpNode": name})
    assert reply.status == 200
    wait_until(lambda: is_unprovisioned(cluster[1]), 10, "the node has no cluster")
    assert cluster.membership(1) is None
    assert cluster.add(1) == name
    cluster.rebalance()
    reply = cluster[0].admin.post("/controller/ejectNode", {"otpNode": name})
    assert reply.status == 400


@pytest.mark.parametrize("way", ["ejected", "failed over gracefully"])
def test_leaving_node_stays_in_the_map_until_clients_have_the_new_map(start, way):
    # A client cuts its connections to a node that its map does not name, and with them what it had
    # asked there: so that has to be answered before.
    cluster = start(made, 3, ["travel"])
    kept_since, gone_at = None, None
    with cluster[0].admin.stream("/pools/default/bs/travel") as stream:
        port = cluster[2].kv_port
        if way == "ejected":
            cluster.start_rebalance(eject=(2,))
        else:
            assert cluster.fail_over(2, path="startGracefulFailover").status == 200
        while gone_at is None:
            config = json.loads(stream.next())
            server_map = config["vBucketServerMap"]
            ports = [int(server.rsplit(":", 1)[1]) for server in server_map["serverList"]]
            owners = {ports[row[0]] for row in server_map["vBucketMap"]}
            assert [node["services"].get("kv") for node in config["nodesExt"]][: len(ports)] == ports
            if port not in ports:
                gone_at = time.monotonic()
            elif port not in owners and kept_since is None:
                kept_since = time.monotonic()
            elif port in owners:
                assert kept_since is None
    cluster.await_rebalance()
    assert kept_since is not None and gone_at - kept_since > 0.5


def test_name_of_a_deleted_bucket_is_refused_until_no_node_serves_it(start):
    # A suspended node may still serve the bucket for a moment when it resumes.
    cluster = start(made, 3, ["travel"])
    with ThreadPoolExecutor() as beside:
        cluster[2].suspend()
        try:
            deletion = beside.submit(cluster[0].admin.delete, "/pools/default/buckets/travel")
            wait_until(
                lambda: cluster[0].admin.get("/pools/default/buckets/travel").status == 404,
                10,
                "the map has no such bucket",
            )
            form = {"name": "travel", "ramQuotaMB": 100, "replicaNumber": 1}
            reply = cluster[1].admin.post("/pools/default/buckets", form)
            assert reply.status == 500 and "still exists" in reply.text, reply
            assert not deletion.done()
        finally:
            cluster[2].resume()
        assert deletion.result(30).status == 200
    cluster[1].create_bucket("travel", replicaNumber=1, numVBuckets=64)


def test_nodes_that_cannot_be_added_are_refused_with_the_reason(start):
    cluster = start(Cluster, 2)
    stranger = start(Cluster, 1)

    def refusal(hostname, **more):
        form = {"hostname": hostname, "user": USER, "password": PASSWORD, **more}
        reply = cluster[0].admin.post("/controller/addNode", form)
        assert reply.status == 400, reply
        assert isinstance(reply.json, list) and all(isinstance(each, str) for each in reply.json)
        return reply.json[0]

    assert "127.0.0.1:1" in refusal("127.0.0.1:1")
    assert "host name" in refusal("127.0.0.1:no")
    assert "already" in refusal(stranger[0].address) or "provisioned" in refusal(
        stranger[0].address
    )
    assert refusal(cluster[0].address)
    assert "service" in refusal(cluster[1].address, services="nonsense")
    cluster.add(1)
    assert "already" in refusal(cluster[1].address)
    assert len(cluster.nodes()) == 2


def test_node_joins_a_cluster_on_its_own_request(start):
    cluster = start(Cluster, 2)
    form = {"hostname": cluster[0].address, "user": USER, "password": "wrong"}
    reply = cluster[1].anonymous.post("/node/controller/doJoinCluster", form)
    assert reply.status == 400
    form["password"] = PASSWORD
    # The other cluster's refusal is reported in its words, once.
    refused = {**form, "hostname": cluster[1].address}
    (text,) = cluster[1].anonymous.post("/node/controller/doJoinCluster", refused).json
    assert not text.startswith("["), text
    reply = cluster[1].anonymous.post("/node/controller/doJoinCluster", form)
    assert reply.status == 200 and reply.headers["Location"] == "/pools/default"
    # After the answer it is a member, and serves no client without the password.
    assert cluster[1].anonymous.get("/pools/default").status == 401
    assert len(cluster[1].admin.get("/pools/default").json["nodes"]) == 2
    assert cluster.membership(1) == "inactiveAdded"
    reply = cluster[1].admin.post("/node/controller/doJoinCluster", form)
    assert reply.status == 400 and "already provisioned" in reply.text
    cluster.rebalance(at=1)
    assert cluster.membership(1) == "active"


def test_lone_node_can_be_reset(start):
    cluster = start(made, 1, ["travel"], replicaNumber=0)
    assert cluster[0].admin.post("/controller/hardResetNode").status == 200
    assert is_unprovisioned(cluster[0])
    await_no_files(cluster[0])
    cluster[0].provision(512)
    cluster[0].create_bucket("travel", numVBuckets=64)


def test_reset_node_can_be_set_up_at_once(start):
    """The reset is answered before the node has a record of itself; requests wait for that."""
    cluster = start(made, 1)
    node = cluster[0]
    form = {"port": str(node.admin_port), "username": USER, "password": PASSWORD}
    for _ in range(5):
        assert node.admin.post("/controller/hardResetNode").status == 200
        reply = node.anonymous.post("/clusterInit", form)
        assert (reply.status, reply.json) == (200, {"newBaseUri": f"http://{node.address}/"})
        assert [each["hostname"] for each in cluster.nodes().values()] == [node.address]
        assert node.admin.post("/controller/hardResetNode").status == 200
        own = node.anonymous.get("/nodes/self")
        assert (own.status, own.json["hostname"]) == (200, node.address)
        node.provision(512)


def test_rebalance_can_be_stopped_and_begun_again_while_a_client_writes(start):
    """By a node that does not lead: it is the one that is rebalanced in."""
    cluster = start(Cluster, 2)
    cluster[0].create_bucket("travel", replicaNumber=0, numVBuckets=1024)
    with Documents(cluster) as documents:
        documents.write("stop", 2 * COUNT)
        # Enough to copy that it is not over before it is stopped.
        bulk = documents_by_map.Documents(cluster, "travel")
        assert not bulk.try_write("bulk", 40_000, 0, lambda _: b"x" * 1024)
        cluster.add(1)
        with Traffic(documents.collection, "traffic") as traffic:
            assert cluster.followers() == [1]
            cluster.start_rebalance(at=1)
            assert cluster.progress()["status"] == "running"
            wait_until(lambda: active_counts(cluster)[1] > 20, 20, "some were moved")
            assert cluster[1].admin.post("/controller/stopRebalance").status == 200
            # The answer comes after the end.
            assert cluster.progress(at=1)["status"] == "none"
            moved = active_counts(cluster)[1]
            assert 0 < moved < 512
            assert documents.wrong() == []
            writes = traffic.writes
            wait_until(lambda: traffic.writes > writes + 50, 20, "it writes in between")
            assert active_counts(cluster)[1] == moved
            cluster.rebalance(at=1)
            assert active_counts(cluster) == {0: 512, 1: 512}
            traffic.end()
            print(traffic.writes, "writes, slowest", traffic.slowest)
            assert traffic.refusals == []
            assert traffic.flaws() == {}
        assert documents.wrong() == []


# Losing and recovering nodes


def test_killed_node_is_failed_over_and_rebalanced_out(start):
    cluster = start(made, 3, ["travel"])
    cluster.set_auto_failover(timeout=1_000)
    with Documents(cluster) as documents:
        documents.write("before")
        time.sleep(1)
        cluster[2].kill()
        assert cluster.fail_over(2).status == 200
        assert cluster.membership(2) == "inactiveFailed"
        assert active_counts(cluster)[2] == 0
        assert documents.wrong() == []
        documents.write("meanwhile")
        cluster.rebalance(eject=(2,))
        assert cluster.membership(2) is None
        assert all(None not in row for row in cluster.vbucket_map("travel"))
        assert documents.wrong() == []
        # It learns that it was removed, and may be added as an empty node.
        assert has_files(cluster[2])
        cluster[2].start()
        wait_until(lambda: is_unprovisioned(cluster[2]), 10, "the node has no cluster")
        await_no_files(cluster[2])


@pytest.mark.parametrize("recovery", ["reAddNode", "full", "delta"])
def test_failed_over_node_is_recovered_by_rebalance(start, recovery):
    cluster = start(made, 3, ["travel"])
    with Documents(cluster) as documents:
        documents.write("before")
        assert cluster.fail_over(1).status == 200
        documents.write("meanwhile")
        cluster.take_back(1, recovery)
        cluster.rebalance()
        assert cluster.membership(1) == "active"
        assert active_counts(cluster)[1] >= 20
        assert documents.wrong() == []


def test_graceful_failover_moves_active_copies_before_it_ends(start):
    cluster = start(made, 3, ["travel"])
    with Documents(cluster) as documents:
        documents.write("before")
        assert cluster.fail_over(2, path="startGracefulFailover").status == 200
        cluster.await_rebalance()
        assert cluster.membership(2) == "inactiveFailed"
        assert active_counts(cluster)[2] == 0
        assert documents.wrong() == []
        cluster.take_back(2)
        cluster.rebalance()
        assert active_counts(cluster)[2] >= 20
        assert documents.wrong() == []


def test_bucket_with_three_replicas_serves_until_one_node_is_left(start):
    cluster = start(made, 4, ["travel"], replicaNumber=3)
    documents = documents_by_map.Documents(cluster, "travel")

    def check(*copies):
        """The map has just these copies, and the active one has every document."""
        for row in cluster.vbucket_map("travel", at=1):
            assert sorted(number for number in row if number is not None) == [*copies], row
        wait_until(lambda: not documents.wrong(at=1), 20, "every document is there")

    documents.write("before", COUNT, at=0)
    check(0, 1, 2, 3)
    documents.await_copies(at=0)
    # A majority of four copies says nothing about which of them.
    with cluster[0].connect("travel") as connection:
        reply = connection.set(documents.of(0, at=0)[0], b"durable", frames=frames(MAJORITY))
        assert reply.status == Status.DURABILITY_IMPOSSIBLE
    assert cluster.fail_over(3, at=2).status == 200
    check(0, 1, 2)
    documents.write("meanwhile", COUNT, at=1)
    cluster.take_back(3, "reAddNode", at=1)
    cluster.rebalance(at=2)
    check(0, 1, 2, 3)
    documents.await_copies(at=3)
    # As many as may be lost: the remaining node serves all vBuckets.
    for number, left in ((0, (1, 2, 3)), (2, (1, 3)), (3, (1,))):
        assert cluster.fail_over(number, at=1).status == 200
        check(*left)
    documents.write("alone", COUNT, at=1)
    for number in (0, 2, 3):
        cluster.take_back(number, "delta", at=1)
    cluster.rebalance(at=1)
    check(0, 1, 2, 3)
    documents.await_copies(at=0)


# Restarts


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_documents_survive_restart_of_one_node_and_of_all_nodes(start, how):
    cluster = start(made, 3, ["travel"])
    with Documents(cluster) as documents:
        documents.write("before")
        # Everything is on disk within a second, on every copy.
        time.sleep(1.5)
        getattr(cluster[1], how)()
        cluster[1].start()
        cluster.await_healthy()
        await_readable(documents)
        assert documents.wrong() == []
        documents.write("between")
        time.sleep(1.5)
    for member in cluster.members:
        getattr(member, how)()
    for member in cluster.members:
        member.start()
    cluster.await_healthy()
    with Documents(cluster) as again:
        again.expected = documents.expected
        await_readable(again)
        assert again.wrong() == []
        again.write("after")
        assert again.wrong() == []


def await_readable(documents):
    def is_readable():
        try:
            documents.wrong()
        except CouchbaseException:
            return False
        return True

    wait_until(is_readable, 30, "every document can be read")


def test_new_bucket_is_reported_healthy_without_delay(start):
    cluster = start(made, 2)
    began = time.monotonic()
    for name in ("one", "two", "three", "four", "five"):
        cluster[0].admin.post(
            "/pools/default/buckets", {"name": name, "ramQuotaMB": 100, "replicaNumber": 1}
        )

        def is_healthy(name=name):
            nodes = cluster[0].admin.get(f"/pools/default/buckets/{name}").json["nodes"]
            return len(nodes) == 2 and all(node["status"] == "healthy" for node in nodes)

        wait_until(is_healthy, 10, "every node serves it")
    # Nodes exchange their state once a second: each bucket but the first would wait a second for
    # the next exchange.
    assert time.monotonic() - began < 4
