"""The computations of `benchmarks/views`."""

import json
import sys

import pytest

from rig.node import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from clustering import report  # noqa: E402
from comparison.figures import figure  # noqa: E402
from comparison.servers import Failure  # noqa: E402
from viewing import documents, freshness, point, rows, writes  # noqa: E402


def test_documents_have_their_size_and_are_the_same_each_time():
    first, again = list(documents.users(500)), list(documents.users(500))
    assert first == again
    assert {len(value) for _, value in first} == {documents.BYTES}
    assert {len(key) for key, _ in first} == {documents.KEY_BYTES}
    kinds = [json.loads(value)["type"] for _, value in first]
    assert 0.8 < kinds.count("user") / len(kinds) < 1


def test_ten_documents_are_in_each_group():
    groups = [json.loads(value)["group"] for _, value in point.grouped_documents(200)]
    assert all(groups.count(group) == point.ROWS for group in range(20))


def test_updates_fit_the_views():
    import random

    value = json.loads(freshness.value(random.Random(1), "x" * 2_000, 10, True))
    assert len(value["numbers"]) == freshness.VIEWS
    assert value["update"] == 10 and value["watched"]


def test_update_that_was_not_seen_counts_as_never_visible():
    answered = {10: 1.0, 20: 2.0, 30: 3.0}
    # A row can be seen before the update's answer.
    waits = freshness.visibility(answered, {10: 1.25, 20: 1.9})
    assert waits == [0.25, 0, float("inf")]
    assert freshness.percentile(waits, 99) == float("inf")


@pytest.mark.parametrize(("percent", "value"), [(50, 51), (99, 100), (100, 100)])
def test_percentile_is_a_measured_value(percent, value):
    assert freshness.percentile(range(1, 101), percent) == value


def test_only_work_between_two_snapshots_counts_for_a_write():
    before, after = object.__new__(writes.Snapshot), object.__new__(writes.Snapshot)
    before.threads, before.writes = {1: 2.0, 2: 1.0}, 1_000
    after.threads, after.writes = {1: 2.5, 2: 1.0, 3: 0.5}, 101_000
    assert after.since(before) == (pytest.approx(10), 100_000)


def test_sizes_without_index_files_are_a_failure():
    class Node:
        def stop(self):
            pass

        start = stop

        def index_files(self):
            return {}

    with pytest.raises(Failure):
        rows.stored(Node(), 1)


def test_figure_without_target_has_none_in_the_table():
    line = report.line("sum", figure("what", 2.0, "x"))
    assert line == "| sum | what | **2.00** x |  |  |  |"
