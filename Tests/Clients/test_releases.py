"""Clusters of two releases: nodes of the artificial earlier one announce and obey feature level 0."""

import sqlite3

import pytest

from cluster import Cluster, Member
from rig.node import NotReady, wait_until
from rig.wire import vbucket_of

EARLIER = ("--test-feature-level", "0")
BASE, CURRENT = 0, 1


def upgrade(member):
    """Restarts a node of the earlier release with the current one."""
    assert member.stop() == 0
    place = member.flags.index(EARLIER[0])
    del member.flags[place : place + 2]
    member.start()


def level(member):
    """The cluster's feature level as a node of it shows it."""
    return member.admin.get("/pools/default").json["featureLevel"]


def announced(member):
    """The feature levels of all nodes as one of them shows them, lowest first."""
    nodes = member.admin.get("/pools/default").json["nodes"]
    return sorted(node["featureLevel"] for node in nodes)


def cluster_of(*releases):
    """A cluster of one node, and further nodes that belong to none yet; each of its release."""
    return Cluster([Member(flags=flags) for flags in releases])


@pytest.fixture
def mixed():
    """A node of the earlier release, to which one of the current release was added."""
    with cluster_of(EARLIER, (), EARLIER) as cluster:
        cluster.add(1)
        cluster.rebalance()
        yield cluster


def test_current_node_joins_cluster_of_earlier_release_at_its_level(mixed):
    assert {level(mixed[0]), level(mixed[1])} == {BASE}
    assert announced(mixed[1]) == [BASE, CURRENT]


def test_earlier_node_joins_through_current_node_and_last_upgrade_raises_the_level(mixed):
    mixed.add(2, at=1)
    mixed[0].create_bucket("travel", ramQuotaMB=128, replicaNumber=1, numVBuckets=64)
    mixed.rebalance()
    assert [level(member) for member in mixed.members] == [BASE] * 3
    assert announced(mixed[2]) == [BASE, BASE, CURRENT]
    # One after the other; the level stays until the last one.
    upgrade(mixed[0])
    wait_until(lambda: announced(mixed[1]) == [BASE, CURRENT, CURRENT], 30, "it announces itself")
    assert level(mixed[1]) == BASE
    upgrade(mixed[2])
    wait_until(
        lambda: [level(member) for member in mixed.members] == [CURRENT] * 3, 30, "it is raised"
    )
    for member in mixed.members:
        assert "The cluster's feature level was raised from 0 to 1" in member.log()


def test_random_key_of_other_node_is_found_from_its_level_on(mixed):
    """The call between nodes is new in level 1; node 1 has no document of its own."""
    mixed[0].create_bucket("one", ramQuotaMB=128, replicaNumber=0, numVBuckets=64)
    mixed.rebalance()
    path = "/pools/default/buckets/one/localRandomKey"
    owners = [row[0] for row in mixed.vbucket_map("one")]
    keys = (f"k{number}" for number in range(999))
    other = next(key for key in keys if owners[vbucket_of(key.encode(), 64)] == 0)
    put = mixed[0].admin.post(f"/pools/default/buckets/one/docs/{other}", {"value": "1"})
    assert put.status == 200
    assert mixed[0].admin.get(path).json == {"ok": True, "key": other}
    assert mixed[1].admin.get(path).status == 404
    upgrade(mixed[0])
    wait_until(lambda: level(mixed[1]) == CURRENT, 30, "the level is raised")
    wait_until(
        lambda: mixed[1].admin.get(path).json == {"ok": True, "key": other}, 30, "it is found"
    )


def test_feed_of_other_nodes_changes_is_served_from_its_level_on(mixed):
    """The service between nodes is new in level 1; both nodes have active copies."""
    mixed[0].create_bucket("one", ramQuotaMB=128, replicaNumber=0, numVBuckets=64)
    mixed.rebalance()
    path = "/pools/default/buckets/one/changes"
    assert mixed[1].admin.get(path).status == 503
    upgrade(mixed[0])
    wait_until(lambda: level(mixed[1]) == CURRENT, 30, "the level is raised")
    wait_until(lambda: mixed[1].admin.get(path).status == 200, 30, "the feed is served")


def test_node_below_the_clusters_level_is_refused_with_cause_and_cure():
    with cluster_of((), (), EARLIER) as cluster:
        cluster.add(1)
        assert level(cluster[0]) == CURRENT
        form = {"hostname": cluster[2].address, "user": "", "password": "", "services": "kv"}
        reply = cluster[0].admin.post("/controller/addNode", form)
        assert (reply.status, reply.json) == (
            400,
            [
                f"Prepare join failed. The node {cluster[2].address} supports feature level 0, and "
                "this cluster already uses level 1. Start the release of the cluster's nodes "
                "there, or a later one, and add the node again."
            ],
        )
        assert len(cluster.nodes()) == 2
        # The cure.
        upgrade(cluster[2])
        cluster.add(2)


def test_member_restarted_below_the_clusters_level_is_refused():
    with cluster_of((), ()) as cluster:
        cluster.add(1)
        cluster.rebalance()
        assert cluster[1].stop() == 0
        cluster[1].flags += EARLIER
        with pytest.raises(NotReady):
            cluster[1].start()
        sentence = "the cluster uses feature level 1, and this node understands levels up to 0 only"
        assert sentence in cluster[1].log()
        del cluster[1].flags[-2:]
        cluster[1].start()
        wait_until(lambda: level(cluster[1]) == CURRENT, 30, "it is a member again")


@pytest.mark.parametrize(
    "change, sentence",
    [
        # As the versions before the first release wrote it.
        ("PRAGMA application_id = 0x44495643", "is not the control file of this version of Divan"),
        ("PRAGMA user_version = 2", "another version of Divan (format 2, this program reads 1)"),
    ],
)
def test_directory_of_another_version_is_refused_with_the_cure(change, sentence):
    with cluster_of(()) as cluster:
        node = cluster[0]
        assert node.stop() == 0
        with sqlite3.connect(node.data / "control.sqlite") as file:
            file.execute(change)
        with pytest.raises(NotReady):
            node.start()
        assert sentence in node.log()
        assert "Formats change until 0.1.0 is released: start with an empty directory" in node.log()
