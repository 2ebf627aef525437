"""The computations of `benchmarks/cluster`, and its load."""

import os
import sys
import time

import pytest

from rig import ports
from rig.node import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
# The benchmarks' nodes use the ports of this worker.
os.environ["DIVAN_PORTS"] = str(ports.FIRST)

from clustering import changes, failover, load, report, simulator  # noqa: E402
from clustering.members import Cluster, new_copies  # noqa: E402
from comparison.figures import figure  # noqa: E402
from comparison.servers import Failure  # noqa: E402

NEVER = float("inf")


def test_only_newly_created_copies_count_as_copied():
    before = [[1, 2], [2, 1], [1, 2], [2]]
    after = [[2, 1], [3, 1], [1, 3], [3, 1]]
    assert new_copies(before, after) == 0 + 1 + 1 + 2
    with pytest.raises(ValueError):
        new_copies(before, after[:-1])


def test_recovery_counts_from_the_kill_to_the_last_keys_success():
    found = {"unwrittenKeys": 0, "writtenAgainAtNanoseconds": 5_250_000_000}
    assert failover.recovery(found, 4_000_000_000) == 1.25
    assert failover.recovery({**found, "unwrittenKeys": 1}, 4_000_000_000) == NEVER
    # No gap, or only an earlier one: then the load did not notice the kill.
    with pytest.raises(Failure):
        failover.recovery({"unwrittenKeys": 0}, 4_000_000_000)
    with pytest.raises(Failure):
        failover.recovery(found, 6_000_000_000)


def test_lines_of_the_simulator_are_summed():
    text = (
        "seed 1  digest abc  3 nodes  120 operations, 5 failed  9 actions  [cut 2]  green"
        "  0.50 s, 100x real time\n"
        "seed 2  digest def  4 nodes  80 operations, 0 failed  3 actions  []  2 VIOLATIONS"
        "  1.00 s, 40x real time\n"
        "  VIOLATION a\n  VIOLATION b\n"
    )
    found = simulator.parsed(text)
    assert found == {
        "seeds": 2, "operations": 200, "virtual": 90.0, "real": 1.5, "violations": 2,
    }


@pytest.mark.parametrize(
    ("value", "smaller", "said"),
    [
        (2.0, True, "met"),
        (2.01, True, "**missed**"),
        (NEVER, True, "**missed**"),
        (0.9, True, "stretch"),
        (2.0, False, "stretch"),
        (0.99, False, "**missed**"),
    ],
)
def test_table_shows_which_targets_were_met(value, smaller, said):
    must, stretch = (2, 1) if smaller else (1, 2)
    line = report.line("row", figure("what", value, "s", must, stretch, smaller))
    assert f"| {said} |" in line
    assert ("**never** s" in line) == (value == NEVER)


def test_table_has_rows_in_order_with_the_cause_of_missing_figures():
    rows = {
        "second": [figure("second", None, "", note="it was late")],
        "first": [figure("first", 0, "", 0)],
    }
    head = {"date": "today", "machine": "one", "commit": "c", "quick": ""}
    lines = report.text(head, rows, ["first", "second", "third"]).splitlines()[-2:]
    assert "**0** | at most 0 | met" in lines[0]
    assert "**not measured** | it was late" in lines[1]


def test_load_measures_replica_lag_and_ends_on_request():
    with Cluster(2) as cluster:
        cluster.create(1)
        load.fill(cluster, "set50-100", 200)
        began = time.monotonic()
        with load.Load(cluster, "set50-100", 60, keys=200, rate=500, preload=False,
                       sample_replication=100) as steady:
            time.sleep(2)
            found = steady.end()
    assert time.monotonic() - began < 20
    assert found["failed"] == 0, found["errors"]
    assert 1 < found["seconds"] < 15 and found["succeeded"] > 100
    seen = found["replication"]
    assert seen["failed"] == seen["givenUp"] == 0
    lag, resolution = seen["lagMilliseconds"], seen["resolutionMilliseconds"]
    assert lag["count"] == resolution["count"] > 50
    assert 0 < resolution["p50"] <= lag["p50"] < 1_000


def test_efficiency_of_streams_counts_documents_alone():
    report = {"bytes": 200_000_000, "serverCPUSeconds": 0.1, "driverCPUSeconds": 0.05}
    slower = {**report, "serverCPUSeconds": 0.4}
    found = changes.ratio([slower, report, report], [250_000_000], [50_000_000], 200_000)
    assert found["value"] == pytest.approx(2.0) and not found["smaller"]
    assert "2000 against 1000 MB/s" in found["note"]
    with pytest.raises(Failure):
        changes.ratio([report], [50_000_000], [50_000_000], 200_000)


def test_consumer_streams_every_document_and_an_idle_one_stays_until_it_is_ended():
    with Cluster(2, joined=1, kind="ephemeral") as cluster:
        source, target = cluster.members
        cluster.create(0, vbuckets=64, wanted=1)
        load.fill(cluster, "set50-100", 500)
        found = changes.consume(source)
        assert (found["streams"], found["changes"]) == (64, 500)
        # Header, extras, key and value.
        assert found["bytes"] >= 500 * (24 + 31 + 100)
        assert found["serverCPUSeconds"] > 0
        with changes.IdleConsumer(source) as idle:
            assert idle.process.poll() is None
        assert idle.process.returncode == 0
        assert changes.copied(cluster, source, target) > 0
