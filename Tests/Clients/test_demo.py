"""`make demo`: what it loads, measures, leaves running, and never touches."""

import json
import pathlib
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rig.node import wait_until


def test_demo_loads_measures_and_leaves_its_cluster_running(checkout):
    if not pathlib.Path("/usr/share/iso-codes/json/iso_3166-1.json").exists():
        pytest.fail("iso-codes is missing: make deps installs it")
    path = "/pools/default/buckets/demo/docs/country%3A%3AFR"
    for run in range(2):
        told = checkout.demo("--seconds", "1")
        assert f"The demo's cluster is in {checkout.path}/.divan/demo" in told
        assert ("Loading " in told and "20000 made-up orders" in told) == (run == 0)
        assert ("nothing is loaded" in told) == (run == 1) and "not changed" not in told
        assert "no password needed" in told and "couchbase://127.0.0.1:" in told
        # The driver's table, with what its reads and writes took.
        assert re.search(r"[0-9 ]+ ops/s in 1\.\d s", told), told
        assert re.search(r"^  GET +[0-9. ]+$", told, re.M), told
        assert re.search(r"^  SET +[0-9. ]+$", told, re.M), told
        # It shows its progress, and measures the processor time of that node.
        assert "measuring" in told and re.search(r"server +\d+ ns CPU/op", told), told
        # A user's changes stay.
        found = json.loads(checkout.admin.get(path).json["json"])["name"]
        assert found == ("France" if run == 0 else "mine")
        assert checkout.admin.post(path, {"value": '{"name":"mine"}'}).status == 200
    # Three nodes by default, and each document twice; the load test's keys are not among them.
    assert checkout.memberships == ["active"] * 3
    buckets = {one["name"]: one for one in checkout.admin.get("/pools/default/buckets").json}
    assert set(buckets) == {"demo", "demo-load"}
    assert buckets["demo"]["replicaNumber"] == 1
    wait_until(lambda: items(checkout, "demo-load") == 50_000, 10, "every key is counted once")
    assert 30_000 < items(checkout, "demo") < 45_000


def items(checkout, bucket):
    return checkout.admin.get(f"/pools/default/buckets/{bucket}").json["basicStats"]["itemCount"]


def test_demo_loads_and_measures_over_tls(checkout):
    told = checkout.demo("--tls", "--nodes", "1", "--seconds", "1")
    authority = checkout.path / ".divan/demo/ca.pem"
    assert f"trusting {authority}" in told and "couchbases://127.0.0.1:" in told
    assert authority.read_text() == checkout.admin.get("/pools/default/certificate").text
    assert re.search(r"[0-9 ]+ ops/s in 1\.\d s", told), told
    assert 20_000 < items(checkout, "demo") and items(checkout, "demo-load") == 50_000


@pytest.mark.parametrize("name", ["demo", "demo-load"])
def test_demo_refuses_a_bucket_that_it_did_not_make(checkout, name):
    checkout.start("--dir", str(checkout.path / ".divan/demo"), "--bucket", name)
    path = f"/pools/default/buckets/{name}/docs/country%3A%3AFR"
    assert checkout.admin.post(path, {"value": '{"mine":true}'}).status == 200
    told = checkout.demo("--seconds", "1", code=1)
    assert f"has a bucket {name} that the demo did not make" in told and "--dir" in told
    assert checkout.admin.get(path).json["json"] == '{"mine":true}'
    names = [one["name"] for one in checkout.admin.get("/pools/default/buckets").json]
    assert names == [name]


def test_demo_does_not_change_other_clusters_of_the_checkout(checkout):
    checkout.start("--nodes", "2", "--bucket", "demo:100:1", seconds=120)
    mine = checkout.status()["directory"]
    path = "/pools/default/buckets/demo/docs/country%3A%3AFR"
    assert checkout.admin.post(path, {"value": '{"mine":true}'}).status == 200
    told = checkout.demo("--seconds", "1", code=1)
    assert f"runs in {mine} already" in told and "cluster/stop" in told
    checkout.run("stop")
    checkout.demo("--nodes", "1", "--seconds", "0.2")
    assert checkout.status()["directory"] != mine
    checkout.run("stop")
    # The nodes of the cluster are found again, with their documents.
    checkout.start("--dir", mine, seconds=120)
    assert [node["running"] for node in checkout.status()["nodes"]] == [True, True]
    assert checkout.admin.get(path).json["json"] == '{"mine":true}'


def test_demo_continues_while_vbuckets_move(checkout):
    """Neither the loader nor the load test gets errors for moved vBuckets."""
    told = checkout.demo("--nodes", "3", "--seconds", "0.2")
    assert "through the client library" in told
    reply = checkout.admin.post("/settings/rebalance", {"rebalanceMovesPerNode": 1})
    assert reply.status == 200
    nodes = checkout.admin.get("/pools/default").json["nodes"]
    with ThreadPoolExecutor(1) as pool:
        demo = pool.submit(checkout.demo, "--seconds", "3")
        # Not through the launcher, whose commands wait for each other.
        reply = checkout.admin.post(
            "/controller/startGracefulFailover", {"otpNode": nodes[2]["otpNode"]}
        )
        assert reply.status == 200, reply
        seen = 0
        while not demo.done():
            seen += checkout.is_rebalancing
            time.sleep(0.05)
        told = demo.result()
    assert seen > 0
    # Any other result than hits, misses and stored documents has a line of its own.
    assert not re.search(r"^  [0-9 ]+ (x|answers|values) ", told, re.M), told
    assert re.search(r"^  [0-9 ]+ hits, 0 misses, [0-9 ]+ stored$", told, re.M), told
    wait_until(lambda: checkout.memberships[2] == "inactiveFailed", 60)
    assert items(checkout, "demo-load") >= 50_000
