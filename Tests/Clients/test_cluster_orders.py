"""Orders to nodes of a cluster: which are refused, with which message, and without effect."""

import pytest

from cluster import Cluster, made
from documents import Documents
from rig.node import PASSWORD, USER, wait_until
from test_cluster_lifecycle import is_unprovisioned

BUCKET = "travel"
UNKNOWN = "Unknown server given."
INACTIVE = "Inactive server given."
LAST = "Last active node cannot be failed over."
WOULD_LOSE = "Failover cannot be done gracefully (would lose vbuckets)."
NEVER_FAILED = (
    "A recovery type can be set only for a node that was failed over, and {1} was not."
)
STAYS_OUT = (
    "{2} is failed over and has no recovery type to remove. "
    "The next rebalance removes the node; setRecoveryType keeps it."
)
SERVES = (
    "Only nodes that are not active can be ejected: {1} serves documents. "
    "Rebalance it out, or fail it over first."
)
NO_RESET = (
    "This node is part of a cluster with other nodes. Rebalance it out, or fail it over and eject "
    "it from another node."
)
NO_FAILOVER_NOW = "Cannot failover during rebalance."
WHICH_RECOVERY = "recovery type must be either 'delta' or 'full'"
WHICH_NODE = "invalid node name or node not found"
WHICH_RECOVERABLE = (
    "A recovery type can be set only for a node that was failed over, and {1} was not."
)


def named(what, cluster, at=0):
    """Replaces `{0}` by the name of node 0, and so on, everywhere."""
    names = [cluster.name(number, at) for number in range(len(cluster))]
    if isinstance(what, str):
        return what.format(*names)
    if isinstance(what, dict):
        return {key: value.format(*names) for key, value in what.items()}
    return [(key, value.format(*names)) for key, value in what]


def picture(cluster, at=0):
    """The state that a refused order must not change."""
    pool = cluster[at].admin.get("/pools/default").json
    nodes = {
        node["otpNode"]: (node["clusterMembership"], node["recoveryType"]) for node in pool["nodes"]
    }
    return nodes, pool["rebalanceStatus"], pool["counters"], cluster.vbucket_map(BUCKET, at)


@pytest.fixture(scope="module")
def idle():
    """Two nodes with a bucket that has no replicas; a third is added but not rebalanced in."""
    with Cluster(3) as cluster:
        cluster.add(1)
        cluster.rebalance()
        cluster[0].create_bucket(BUCKET, replicaNumber=0, numVBuckets=64)
        Documents(cluster, BUCKET).write("kept", 100, at=0)
        cluster.add(2)
        yield cluster


# Refused


@pytest.mark.parametrize(
    "form, expected",
    [
        ({}, "empty_known_nodes"),
        ({"knownNodes": "", "ejectedNodes": ""}, "empty_known_nodes"),
        ({"knownNodes": "{0},{1}"}, "mismatch"),
        ({"knownNodes": "{0},{1},{1}"}, "mismatch"),
        ({"knownNodes": "{0},{1},{2},n_1@nowhere"}, "mismatch"),
        ({"knownNodes": "{0},{1},{2}", "ejectedNodes": "n_1@nowhere"}, "mismatch"),
        ({"knownNodes": "{0},{1},{2}", "ejectedNodes": "{2},{1},{0}"}, "noKVNodesLeft"),
        (
            {"knownNodes": "{0},{1},{2}", "deltaRecoveryBuckets": f"{BUCKET},no-such-bucket"},
            "deltaRecoveryNotPossible",
        ),
    ],
)
def test_invalid_rebalance_is_refused_by_every_node(idle, form, expected):
    before = picture(idle)
    for member in idle.members:
        reply = member.admin.post("/controller/rebalance", named(form, idle))
        assert (reply.status, reply.json) == (400, {expected: 1})
        assert reply.headers["Content-Type"].startswith("application/json")
    assert picture(idle) == before


FAILOVERS = ("failOver", "startFailover", "startGracefulFailover")


@pytest.mark.parametrize(
    "path, form, expected",
    [
        *((path, {}, UNKNOWN) for path in FAILOVERS),
        *((path, {"otpNode": "n_1@nowhere"}, UNKNOWN) for path in FAILOVERS),
        *((path, [("otpNode", "{1}"), ("otpNode", "n_1@nowhere")], UNKNOWN) for path in FAILOVERS),
        *((path, {"otpNode": "{2}"}, INACTIVE) for path in FAILOVERS),
        *((path, [("otpNode", "{1}"), ("otpNode", "{0}")], LAST) for path in FAILOVERS),
        *((path, {"otpNode": "{0},{1}"}, LAST) for path in FAILOVERS),
        ("startGracefulFailover", {"otpNode": "{1}"}, WOULD_LOSE),
        ("startGracefulFailover", {"otpNode": "{0}"}, WOULD_LOSE),
        ("ejectNode", {}, UNKNOWN),
        ("ejectNode", {"otpNode": "n_1@nowhere"}, UNKNOWN),
        ("ejectNode", {"otpNode": "{1}"}, SERVES),
        ("reAddNode", {}, UNKNOWN),
        ("reAddNode", {"otpNode": "n_1@nowhere"}, UNKNOWN),
        ("reAddNode", {"otpNode": "{1}"}, NEVER_FAILED),
        ("reAddNode", {"otpNode": "{2}"}, NEVER_FAILED.replace("{1}", "{2}")),
        ("reFailOver", {}, UNKNOWN),
        ("reFailOver", {"otpNode": "n_1@nowhere"}, UNKNOWN),
        ("reFailOver", {"otpNode": "{1}"}, NEVER_FAILED),
    ],
)
def test_order_for_a_node_in_another_state_is_refused_by_every_node(
    idle, path, form, expected
):
    before = picture(idle)
    for member in idle.members:
        reply = member.admin.post(f"/controller/{path}", named(form, idle))
        assert (reply.status, reply.text) == (400, named(expected, idle))
        # Without it a tool reports that this is no cluster.
        assert reply.headers["Content-Type"].startswith("text/plain")
    assert picture(idle) == before


@pytest.mark.parametrize(
    "form, expected",
    [
        ({}, {"recoveryType": WHICH_RECOVERY, "otpNode": WHICH_NODE}),
        ({"otpNode": "{1}"}, {"recoveryType": WHICH_RECOVERY}),
        ({"otpNode": "{1}", "recoveryType": "none"}, {"recoveryType": WHICH_RECOVERY}),
        ({"otpNode": "n_1@nowhere", "recoveryType": "delta"}, {"otpNode": WHICH_NODE}),
        (
            {"otpNode": "{1}", "recoveryType": "delta"},
            {"otpNode": WHICH_RECOVERABLE},
        ),
    ],
)
def test_invalid_recovery_type_is_refused_by_every_node(idle, form, expected):
    before = picture(idle)
    for member in idle.members:
        reply = member.admin.post("/controller/setRecoveryType", named(form, idle))
        assert (reply.status, reply.json) == (400, named(expected, idle))
    assert picture(idle) == before


@pytest.mark.parametrize(
    "path, form, text",
    [
        (
            "/controller/cancelRebalanceRetry/00112233445566778899aabbccddeeff",
            {},
            "No retry of a rebalance with this id is pending.\r\n",
        ),
        (
            "/pools/default/serverGroups/none/addNode",
            {"hostname": "127.0.0.1:1"},
            "Requested resource not found.\r\n",
        ),
        (
            "/controller/rebalance?uuid=none",
            {"knownNodes": "{0},{1},{2}"},
            "Cluster uuid does not match the requested.\r\n",
        ),
    ],
)
def test_unknown_object_is_not_found_by_any_node(idle, path, form, text):
    before = picture(idle)
    for member in idle.members:
        reply = member.admin.post(path, named(form, idle))
        assert (reply.status, reply.text) == (404, text)
    assert picture(idle) == before


def test_member_of_a_cluster_cannot_be_reset(idle):
    """Neither a serving nor an added member: the other nodes rely on it."""
    before = picture(idle)
    documents = Documents(idle, BUCKET)
    documents.write("reset", 100, at=0)
    for number, member in enumerate(idle.members):
        reply = member.admin.post("/controller/hardResetNode")
        assert (reply.status, reply.text) == (500, NO_RESET), number
    assert picture(idle) == picture(idle, at=1) == before
    assert documents.wrong(at=1) == {}
    # It can be removed as the message says.
    reply = idle[0].admin.post("/controller/ejectNode", named({"otpNode": "{2}"}, idle))
    assert reply.status == 200
    wait_until(lambda: is_unprovisioned(idle[2]), 10, "the node has no cluster")
    idle.add(2)
    assert picture(idle) == before


# Refused during a rebalance


def test_node_in_a_running_rebalance_cannot_be_failed_over(start):
    cluster = start(made, 4, [BUCKET])
    # A suspended node keeps the rebalance running; it must not be failed over for that.
    cluster.set_auto_failover(timeout=1_000)
    assert cluster.fail_over(3).status == 200
    assert 2 in cluster.followers()
    reply = cluster[0].admin.post(f"/pools/default/buckets/{BUCKET}", {"replicaNumber": 2})
    assert reply.status == 200, reply
    known = {"knownNodes": "{0},{1},{2},{3}", "ejectedNodes": ""}
    cluster[2].suspend()
    try:
        reply = cluster[0].admin.post("/controller/rebalance", named(known, cluster))
        assert reply.status == 200 and list(reply.json) == ["rebalance_id"], reply
        nodes = picture(cluster)[0]
        for member in cluster.members[:2]:
            for path in FAILOVERS:
                reply = member.admin.post(
                    f"/controller/{path}", named({"otpNode": "{1}"}, cluster)
                )
                assert (reply.status, reply.text) == (503, NO_FAILOVER_NOW), path
            form = named({"otpNode": "{3}"}, cluster)
            reply = member.admin.post("/controller/ejectNode", form)
            assert (reply.status, reply.text) == (503, "Cannot eject a node during rebalance.")
            form = {"hostname": "127.0.0.1:1", "user": USER, "password": PASSWORD}
            reply = member.admin.post("/controller/addNode", form)
            assert (reply.status, reply.json) == (503, ["Cannot add a node during rebalance."])
            # A second request for the same rebalance returns the running one.
            again = member.admin.post("/controller/rebalance", named(known, cluster))
            assert again.status == 200
            assert again.json == {"rebalance_id": cluster.rebalance_task()["rebalanceId"]}
        assert picture(cluster)[0] == nodes
        assert cluster.progress()["status"] == "running"
    finally:
        cluster[2].resume()
    cluster.await_rebalance()
    assert [cluster.membership(number) for number in range(4)] == [*["active"] * 3, None]


# Carried out


@pytest.mark.parametrize("recovery", ["delta", "full", "reAddNode"])
def test_recovery_of_a_failed_over_node_can_be_cancelled(start, recovery):
    cluster = start(made, 3, [BUCKET])
    documents = Documents(cluster, BUCKET)
    documents.write("before", 300, at=0)
    documents.await_copies(at=0)
    form = named({"otpNode": "{2}"}, cluster)
    assert cluster.fail_over(2, path="startFailover").status == 200
    failed = picture(cluster)
    assert failed[0][form["otpNode"]] == ("inactiveFailed", "none")
    cluster.take_back(2, recovery, at=1)
    kind = "full" if recovery == "reAddNode" else recovery
    assert picture(cluster)[0][form["otpNode"]] == ("inactiveAdded", kind)
    reply = cluster[1].admin.post("/controller/reFailOver", form)
    assert (reply.status, reply.text) == (200, "")
    assert picture(cluster) == failed
    reply = cluster[0].admin.post("/controller/reFailOver", form)
    assert (reply.status, reply.text) == (400, named(STAYS_OUT, cluster))
    # The rebalance removes the node, because it is failed over.
    cluster.rebalance()
    assert cluster.membership(2) is None
    assert documents.wrong(at=0) == {}


def test_automatic_failovers_are_counted_until_the_count_is_reset(start):
    # So many nodes that the remaining ones are a majority of any set of voters.
    cluster = start(made, 5, [BUCKET], replicaNumber=2)
    cluster.set_auto_failover(timeout=1, max_count=1)
    settings, reset = "/settings/autoFailover", "/settings/autoFailover/resetCount"

    def shown(number):
        return cluster[number].admin.get(settings).json

    cluster[4].kill()
    wait_until(lambda: cluster.membership(4) == "inactiveFailed", 15, "it is failed over")
    for number in range(4):
        wait_until(lambda number=number: shown(number)["count"] == 1, 5, "every node counts it")
    cluster[3].kill()
    why = "the limit is 1 until an operator resets the count or a rebalance completes."
    wait_until(lambda: why in " ".join(shown(1)["reasons"]), 15, "the limit is reached")
    assert cluster[1].anonymous.post(reset).status == 401
    assert shown(1)["count"] == 1 and cluster.membership(3) == "active"
    reply = cluster[1].admin.post(reset)
    assert (reply.status, reply.text) == (200, "")
    wait_until(lambda: cluster.membership(3) == "inactiveFailed", 15, "the next node is failed over")
    assert shown(0)["count"] == shown(2)["count"] == 1
