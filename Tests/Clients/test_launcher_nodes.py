"""The launcher: nodes join, leave, fail over and return, and data that is kept or deleted then."""

import json
import pathlib
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from rig.node import SERVER, wait_until


def test_two_nodes_become_one_cluster_and_a_third_joins_and_leaves(checkout):
    checkout.start("--nodes", "2", "--bucket", "travel:100:1")
    status = checkout.status()
    assert [node["running"] for node in status["nodes"]] == [True, True]
    assert all(bucket["healthy"] for bucket in status["buckets"])
    assert "Node 2 was added" in checkout.run("add", seconds=120)
    assert len(checkout.status()["nodes"]) == 3
    directory = pathlib.Path(checkout.status()["directory"])
    assert {path.name for path in directory.glob("node-2*")} == {
        "node-2",
        "node-2.log",
        "node-2.ready",
    }
    told = checkout.run("remove", "2", seconds=120)
    assert "Node 2 left" in told and f"Deleted: {directory}/node-2" in told
    assert not list(directory.glob("node-2*"))
    assert len(checkout.status()["nodes"]) == 2


def test_directory_of_a_failed_over_node_that_is_removed_is_kept(checkout):
    """It may have the last copies. A later node of its number begins with an empty directory."""
    checkout.start("--nodes", "3", "--bucket", "travel:100:0", seconds=120)
    for number in range(30):
        path = f"/pools/default/buckets/travel/docs/note-{number}"
        assert checkout.admin.post(path, {"value": '{"kept":true}'}).status == 200
    checkout.run("stop")
    checkout.start(seconds=120)
    data = pathlib.Path(checkout.status()["nodes"][2]["data"])
    checkout.run("kill", "2")
    before = documents(data)
    assert before
    checkout.run("failover", "2", "--hard")
    told = checkout.run("remove", "2", seconds=120)
    (kept,) = data.parent.glob("node-2*")
    assert str(kept) in told and "no other node has" in told
    assert "Node 2 was added" in checkout.run("add", seconds=120)
    assert sorted(documents(kept)) == sorted(before)


def test_new_nodes_log_no_refused_connection(checkout):
    """Nodes that are being added refuse each other's connections until they have the cluster."""
    checkout.start("--nodes", "3", "--bucket", "travel:100:1", seconds=120)
    logs = "".join(checkout.run("logs", str(node), "--lines", "1000") for node in range(3))
    assert "joined the cluster" in logs and "refused" not in logs, logs


def test_rebalance_is_stopped_beside_the_command_that_waits_for_it(checkout):
    """A node that did not leave still runs."""
    checkout.start("--nodes", "2", "--bucket", "travel:100:1", seconds=120)
    reply = checkout.admin.post("/settings/rebalance", {"rebalanceMovesPerNode": 1})
    assert reply.status == 200
    with ThreadPoolExecutor(1) as pool:
        removal = pool.submit(checkout.run, "remove", "1", code=1, seconds=120)
        wait_until(lambda: checkout.is_rebalancing, 30)
        assert "was stopped" in checkout.run("rebalance", "--stop")
        told = removal.result()
    assert "before node 1 had left" in told and "cluster/remove 1" in told
    assert [node["running"] for node in checkout.status()["nodes"]] == [True, True]
    assert checkout.memberships == ["active", "active"]


def test_node_is_failed_over_gracefully_unless_it_is_to_be_done_at_once(checkout):
    """A node that is down hands over nothing. A rebalance adds it back, with progress on a
    terminal."""
    checkout.start("--nodes", "3", "--bucket", "travel:100:1", seconds=120)
    admin = checkout.admin
    assert admin.post("/settings/autoFailover", {"enabled": "false"}).status == 200
    checkout.run("kill", "2")
    assert "Node 2 is failed over" in checkout.run("failover", "2", "--hard")
    assert checkout.memberships == ["active", "active", "inactiveFailed"]
    *_, line = [line for line in checkout.run("status").splitlines() if line.startswith("node")]
    assert line == "node 2   down   failed over; the next rebalance removes it"
    assert "A rebalance is needed: cluster/rebalance" in checkout.run("status")
    assert checkout.status()["needsRebalance"] is True
    checkout.start(seconds=120)
    recover(checkout, 2)
    assert "failed over; the next rebalance adds it back" in checkout.run("status")
    assert checkout.status()["nodes"][2]["recoveryType"] == "delta"
    told, shown = checkout.watch("rebalance", columns=40)
    assert told == "Balanced.\n" and checkout.memberships == ["active"] * 3
    assert checkout.status()["needsRebalance"] is False
    assert "rebalance" not in checkout.run("status")
    # Each line in the place of the one before, as long as it fits; the last one is wiped away.
    first, *lines, last = shown.split("\r\x1b[K")
    assert first == last == "" and lines, shown
    assert all(len(line) < 40 for line in lines), shown
    shares = [int(re.match(r"Rebalancing: (\d+) %", line)[1]) for line in lines]
    assert shares == sorted(shares) and shares[-1] <= 100, shown

    path = "/pools/default/buckets/travel/docs/note"
    assert admin.post(path, {"value": '{"kept":true}'}).status == 200
    told = checkout.run("failover", "1", seconds=120)
    assert told == "Node 1 is failed over.\n"
    assert checkout.memberships == ["active", "inactiveFailed", "active"]
    wait_until(lambda: "The graceful failover is complete" in admin.get("/logs").text, 10)
    assert admin.get(path).json["json"] == '{"kept":true}'


@pytest.mark.parametrize("way", [(), ("--full",)], ids=["delta", "full"])
def test_failed_over_node_is_recovered_by_one_command(checkout, way):
    checkout.start("--nodes", "3", "--bucket", "travel:100:1", seconds=120)
    admin = checkout.admin
    path = "/pools/default/buckets/travel/docs/note"
    assert admin.post(path, {"value": '{"kept":true}'}).status == 200
    assert "was not failed over" in checkout.run("recover", "2", code=1)
    checkout.run("kill", "2")
    checkout.run("failover", "2", "--hard")
    assert "Node 2 does not run" in checkout.run("recover", "2", code=1)
    assert "cluster/recover 2" in checkout.start(seconds=120)
    assert "Node 2 is recovered" in checkout.run("recover", "2", *way, seconds=120)
    assert checkout.memberships == ["active"] * 3
    assert checkout.status()["needsRebalance"] is False
    assert admin.get(path).json["json"] == '{"kept":true}'
    kind = "full" if way else "delta"
    assert f"was set to {kind} recovery by" in admin.get("/logs").text


@pytest.mark.parametrize("is_stopped", [False, True], ids=["beside the survivor", "all at once"])
def test_node_given_up_by_quorum_recovery_is_started_only_with_discard(checkout, is_stopped):
    """Its documents may be the last copies, and it deletes them when it learns of its removal."""
    checkout.start("--nodes", "3", "--bucket", "travel:100:0", seconds=120)
    path = "/pools/default/buckets/travel/docs/"
    for number in range(60):
        value = {"value": '{"kept":true}'}
        assert checkout.admin.post(f"{path}note-{number}", value).status == 200
    checkout.run("stop")
    data = [pathlib.Path(node["data"]) for node in checkout.status()["nodes"]]
    before = [documents(directory) for directory in data]
    assert sum(map(len, before)) == 60 and all(before)
    checkout.start(seconds=120)
    names = [node["otpNode"] for node in checkout.admin.get("/pools/default").json["nodes"]]
    for node in ("1", "2"):
        checkout.run("kill", node)
    own = f"n_{8091 + checkout.offset}@127.0.0.1"
    form = [("otpNode", name) for name in names if name != own] + [("allowUnsafe", "true")]
    reply = checkout.admin.post("/controller/failOver", form, seconds=60)
    assert reply.status == 200, reply
    if is_stopped:
        checkout.run("stop")
    # Twice: a refusal changes nothing.
    for _ in range(2):
        told = checkout.start(code=1, seconds=120)
        for node in (1, 2):
            assert f"Node {node} was not started: a quorum recovery gave it up" in told
            assert str(data[node]) in told and "cluster/start --discard" in told
        assert "  node 1     does not run" in told
        assert [node["running"] for node in checkout.status()["nodes"]] == [True, False, False]
    # Another command that starts nodes leaves them alone, too.
    assert "Node 3 was added" in checkout.run("add", seconds=120)
    assert "given up" in checkout.run("rebalance", seconds=120)
    assert [documents(directory) for directory in data[1:]] == before[1:]
    assert "Not done" not in checkout.start("--discard", seconds=120)
    assert checkout.memberships == ["active"] * 4
    checkout.run("stop")
    assert not set(before[1]) & set(documents(data[1]))


def documents(directory):
    """The keys of the documents of a data directory that no server has open."""
    dump = subprocess.run(
        [SERVER, "--dump", directory], capture_output=True, text=True, timeout=60, check=False
    )
    return [json.loads(line)["key"] for line in dump.stdout.splitlines()]


def recover(checkout, node):
    """Orders the recovery of a node with its copies."""
    port = str(checkout.status()["nodes"][node]["admin"])
    nodes = checkout.admin.get("/pools/default").json["nodes"]
    (name,) = [one["otpNode"] for one in nodes if one["hostname"].endswith(f":{port}")]
    form = {"otpNode": name, "recoveryType": "delta"}
    assert checkout.admin.post("/controller/setRecoveryType", form).status == 200


@pytest.mark.parametrize("is_down", [False, True], ids=["back before", "down"])
def test_cluster_serves_without_its_failed_over_first_node_and_recovers_it(checkout, is_down):
    """Whether it runs again before the rebalance that removes it, or learns of it later."""
    checkout.start("--nodes", "3", "--bucket", "travel:100:1", seconds=120)
    path = "/pools/default/buckets/travel/docs/note"
    assert checkout.admin.post(path, {"value": '{"kept":true}'}).status == 200
    checkout.run("kill", "0")
    assert checkout.status()["nodes"][0]["running"] is False
    wait_until(lambda: checkout.memberships[0] == "inactiveFailed", 30)
    if not is_down:
        told = checkout.start(seconds=120)
        assert "Node 0 was failed over" in told
        assert checkout.memberships == ["inactiveFailed", "active", "active"]
        assert "failed over" in checkout.run("status")
    assert "Node 0 was removed" in checkout.run("rebalance", seconds=120)
    assert checkout.memberships[0] is None
    assert [bucket["healthy"] for bucket in checkout.status()["buckets"]] == [True]
    checkout.start(seconds=120)
    assert checkout.memberships == ["active"] * 3
    assert [bucket["name"] for bucket in checkout.status()["buckets"]] == ["travel"]
    assert checkout.admin.get(path).json["json"] == '{"kept":true}'


def test_add_that_fails_leaves_no_node_behind(checkout):
    checkout.start()
    pids = checkout.processes()
    with socket.create_server(("127.0.0.1", 8091 + checkout.offset + 100)):
        assert "Stopping what this command started: node 1" in checkout.run("add", code=1)
    assert checkout.processes() == pids
    assert len(checkout.status()["nodes"]) == 1
    assert "Node 1 was added" in checkout.run("add", seconds=120)
