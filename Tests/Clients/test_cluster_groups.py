"""Server groups: nodes that may fail together have no two copies of a vBucket."""

import json

from cluster import Cluster
from documents import Documents

BUCKET = "travel"
VBUCKETS = 64
BASE = "/pools/default/serverGroups"


def layout(cluster, at=0):
    return cluster[at].admin.get(BASE).json


def dealt(cluster, at=0):
    """The groups and the revision of the layout, as a node reports them."""
    now = layout(cluster, at)
    groups = {
        group["name"]: {node["otpNode"] for node in group["nodes"]} for group in now["groups"]
    }
    return groups, now["uri"]


def put(cluster, groups, at=0):
    """Assigns all nodes to groups by name in one request, as the page does."""
    now = layout(cluster, at)
    uris = {group["name"]: group["uri"] for group in now["groups"]}
    body = {
        "groups": [
            {
                "uri": uris[name],
                "nodes": [{"otpNode": cluster.name(number, at)} for number in numbers],
            }
            for name, numbers in groups.items()
        ]
    }
    headers = {"Content-Type": "application/json"}
    return cluster[at].admin.request("PUT", now["uri"], json.dumps(body), headers)


def crowded(cluster, groups, at=0):
    """The vBuckets that do not have two copies, in different groups."""
    group_of = {number: name for name, numbers in groups.items() for number in numbers}
    rows = cluster.vbucket_map(BUCKET, at)
    assert len(rows) == VBUCKETS
    return {
        vbucket: row
        for vbucket, row in enumerate(rows)
        if None in row or len({group_of[number] for number in row}) != len(row) or len(row) != 2
    }


def test_no_two_copies_are_in_one_group(start):
    cluster = start(Cluster, 4)
    for number in (1, 2, 3):
        cluster.add(number)
    cluster.rebalance()
    cluster[0].create_bucket(BUCKET, replicaNumber=1, numVBuckets=VBUCKETS)
    documents = Documents(cluster, BUCKET)
    documents.write("before", 400, at=0)
    documents.await_copies(at=0)
    assert cluster[1].admin.post(BASE, {"name": "Rack 2"}).status == 200
    # Two assignments: copies that are right for one are wrong for the other.
    for at, groups in (
        (0, {"Group 1": (0, 1), "Rack 2": (2, 3)}),
        (3, {"Group 1": (0, 2), "Rack 2": (1, 3)}),
    ):
        assert crowded(cluster, groups)
        reply = put(cluster, groups, at)
        assert reply.status == 200, reply
        named = {
            name: {cluster.name(number) for number in numbers} for name, numbers in groups.items()
        }
        for number in range(4):
            assert dealt(cluster, number)[0] == named
        # Nothing moves without a rebalance.
        assert crowded(cluster, groups)
        cluster.rebalance(at=at)
        for number in range(4):
            assert crowded(cluster, groups, number) == {}
        assert cluster[0].admin.get("/pools/default").json["balanced"] is True
        assert documents.wrong(at=0) == {}
        documents.await_copies(at=0)
    # So a whole group may fail at once.
    documents.write("after", 100, at=0)
    documents.await_copies(at=0)
    names = [("otpNode", cluster.name(number)) for number in (1, 3)]
    reply = cluster[0].admin.post("/controller/failOver", names, seconds=60)
    assert reply.status == 200, reply
    assert all(row[0] in (0, 2) for row in cluster.vbucket_map(BUCKET))
    assert documents.wrong(at=2) == {}


def test_incomplete_or_outdated_group_layout_is_refused(start):
    cluster = start(Cluster, 2)
    cluster.add(1)
    cluster.rebalance()
    assert cluster[0].admin.post(BASE, {"name": "Rack 2"}).status == 200
    before = dealt(cluster)
    everybody = {"_": "Every group and every node of the cluster is to be named once."}
    for groups in (
        {"Group 1": (0,), "Rack 2": ()},
        {"Group 1": (0, 1), "Rack 2": (1,)},
        {"Group 1": (0, 1)},
    ):
        reply = put(cluster, groups)
        assert (reply.status, reply.json) == (400, everybody), groups
    now = layout(cluster)
    headers = {"Content-Type": "application/json"}
    reply = cluster[0].admin.request("PUT", f"{BASE}?rev=0", json.dumps(now), headers)
    # The answer shows the present layout.
    assert (reply.status, reply.json["uri"]) == (409, now["uri"])
    assert dealt(cluster) == dealt(cluster, at=1) == before
    # An empty group can be removed, except for the last one.
    first, second = (group["uri"] for group in now["groups"])
    reply = cluster[0].admin.delete(first)
    assert (reply.status, reply.json) == (400, {"_": "group is not empty"})
    assert cluster[1].admin.delete(second).status == 200
    assert [group["name"] for group in layout(cluster)["groups"]] == ["Group 1"]
