"""Clusters of two releases: nodes of the earlier one announce and obey the lower feature level."""

import pytest

from cluster import Cluster, Member
from rig import subdocument as sub
from rig.node import NotReady, wait_until
from rig.subdocument import Doc, Path
from rig.wire import USUAL_FEATURES, Feature, Status, vbucket_of

EARLIER = ("--test-feature-level", "1")
WITHOUT_ATTRIBUTES = ("--test-feature-level", "5")
BASE, CURRENT = 1, 6
# The features of HELLO that need level 6.
ATTRIBUTES = (Feature.XATTR, 0x15, 0x17, 0x18, 0x19, 0x20, 0x21)
CAPABILITIES = {"xattr", "tombstonedUserXAttrs", "subdoc.DocumentMacroSupport"}


def upgrade(member):
    """Restarts a node of the earlier release with the current one."""
    assert member.stop() == 0
    place = member.flags.index(EARLIER[0])
    del member.flags[place : place + 2]
    member.start()


def level(member):
    """The cluster's feature level as a node of it shows it."""
    return member.admin.get("/pools/default").json["featureLevel"]


def grants(member, bucket, features):
    with member.connect(bucket, features) as kv:
        return set(features) <= set(kv.features)


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
        assert "The cluster's feature level was raised from 1 to 6" in member.log()


def test_random_key_of_other_node_is_found_from_its_level_on(mixed):
    """The call between nodes is new in level 2; node 1 has no document of its own."""
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


def test_changes_feed_is_refused_below_its_level(mixed):
    mixed[0].create_bucket("one", ramQuotaMB=128, replicaNumber=0, numVBuckets=64)
    mixed.rebalance()
    refused = mixed[1].admin.get("/pools/default/buckets/one/changes")
    assert refused.status == 503 and "need feature level 5" in refused.json["reason"]
    upgrade(mixed[0])
    wait_until(lambda: level(mixed[1]) == CURRENT, 30, "the level is raised")
    path = "/pools/default/buckets/one/changes"
    wait_until(lambda: mixed[1].admin.get(path).status == 200, 30, "the feed is served")


def own_keys(cluster, bucket):
    """For each member a key whose active copy it has."""
    owners = [row[0] for row in cluster.vbucket_map(bucket)]
    keys = [f"k{number}" for number in range(999)]
    places = [owners[vbucket_of(key.encode(), len(owners))] for key in keys]
    return [keys[places.index(number)] for number in range(len(cluster))]


def configuration(member):
    """The capabilities that a node lists for the bucket, and the configuration's revision."""
    found = member.admin.get("/pools/default/b/one").json
    return set(found["bucketCapabilities"]), (found["revEpoch"], found["rev"])


def on_replica(kv, key, spec):
    """What a lookup of the node's own replica finds."""
    return sub.lookup(kv, key, spec, doc_flags=Doc.REPLICA_READ).results


def test_attributes_are_refused_until_the_last_member_is_upgraded():
    features = (*USUAL_FEATURES, *ATTRIBUTES)
    write, read = sub.attribute("_sync", {"rev": "1-a"}), (sub.GET, Path.XATTR, "_sync")
    with cluster_of(WITHOUT_ATTRIBUTES, ()) as cluster:
        cluster.add(1)
        cluster[0].create_bucket("one", ramQuotaMB=128, replicaNumber=1, numVBuckets=64)
        cluster.rebalance()
        keys, revisions = own_keys(cluster, "one"), []
        for member, key in zip(cluster.members, keys):
            assert level(member) == CURRENT - 1
            capabilities, revision = configuration(member)
            assert not capabilities & CAPABILITIES
            revisions.append(revision)
            with member.connect("one", features) as kv:
                assert set(kv.features) == set(USUAL_FEATURES)
                assert kv.set(key, b'{"a":1}').status == Status.SUCCESS
                assert sub.mutate(kv, key, write).status == Status.NOT_SUPPORTED
                assert sub.lookup(kv, key, read).status == Status.NOT_SUPPORTED
                # Parts of the body need no level.
                reply = sub.mutate(kv, key, (sub.UPSERT, 0, "b", b"2"))
                assert reply.status == Status.SUCCESS
                assert kv.get(key).value == b'{"a":1,"b":2}'
        with cluster[1].connect("one", features) as older:
            upgrade(cluster[0])
            for member in cluster.members:
                wait_until(lambda: level(member) == CURRENT, 30, "the level is raised")
            # A connection has what its HELLO was granted.
            assert sub.mutate(older, keys[1], write).status == Status.NOT_SUPPORTED
        for member, key, before in zip(cluster.members, keys, revisions):
            member.await_bucket("one")
            wait_until(lambda: CAPABILITIES <= configuration(member)[0], 30, "they are listed")
            assert configuration(member)[1] > before
            # Connections are granted it a moment after the administration shows it.
            wait_until(lambda: grants(member, "one", features), 30, "attributes are granted")
            with member.connect("one", features) as kv:
                assert set(kv.features) == set(features)
                assert sub.mutate(kv, key, write).status == Status.SUCCESS
                assert sub.lookup(kv, key, read).results == [(0, write[-1])]
                assert kv.get(key).value == b'{"a":1,"b":2}'
        for number, key in enumerate(keys):
            # The other node has the replica.
            with cluster[1 - number].connect("one", features) as kv:
                wait_until(lambda: on_replica(kv, key, read) == [(0, write[-1])], 30, key)


def test_node_below_the_clusters_level_is_refused_with_cause_and_cure():
    with cluster_of((), (), EARLIER) as cluster:
        cluster.add(1)
        assert level(cluster[0]) == CURRENT
        form = {"hostname": cluster[2].address, "user": "", "password": "", "services": "kv"}
        reply = cluster[0].admin.post("/controller/addNode", form)
        assert (reply.status, reply.json) == (
            400,
            [
                f"Prepare join failed. The node {cluster[2].address} supports feature level 1, and "
                "this cluster already uses level 6. Start the release of the cluster's nodes "
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
        sentence = "the cluster uses feature level 6, and this node understands levels up to 1 only"
        assert sentence in cluster[1].log()
        del cluster[1].flags[-2:]
        cluster[1].start()
        wait_until(lambda: level(cluster[1]) == CURRENT, 30, "it is a member again")
