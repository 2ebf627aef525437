"""Nodes for the tests: one shared by a file, or one of a test's own."""

import os
import zlib

import pytest

from rig import sdk
from rig.checkout import Checkout
from rig.disk import Impossible, SmallDisk
from rig.node import Node

# With this variable a test that cannot run fails instead of being skipped.
NO_SKIPS = os.environ.get("DIVAN_NO_SKIPS") == "1"
# Repetitions of each test of clusters, networks and kills: defects that depend on the moment of a
# failure appear in one run of many. A campaign repeats them.
REPETITIONS = int(os.environ.get("DIVAN_REPETITIONS", "1"))
REPEATED_FILES = ("test_cluster_", "test_process", "test_views_kills")


@pytest.fixture
def make_node():
    """Makes nodes that end with the test: `make_node("--flag", ...)`, not started yet."""
    nodes = []

    def make(*flags, **options):
        nodes.append(Node(*flags, **options))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


@pytest.fixture(scope="module")
def node():
    """A provisioned node that a whole file shares; its tests use keys and buckets of their own."""
    with Node() as node:
        node.start().provision()
        yield node


@pytest.fixture(scope="module")
def bucket(node):
    """The name of a bucket on the shared node."""
    node.create_bucket("travel")
    return "travel"


@pytest.fixture
def checkout(tmp_path):
    """The commands of `cluster/`, in a checkout of the test's own."""
    checkout = Checkout(tmp_path)
    yield checkout
    checkout.run("stop", "--patience", "10")


@pytest.fixture
def start(request):
    """Makes clusters that end with the test; their logs are printed if it fails."""
    clusters = []

    def make(maker, *arguments, **settings):
        clusters.append(maker(*arguments, **settings))
        return clusters[-1]

    yield make
    for cluster in clusters:
        if getattr(request.node, "failed_here", False):
            print(cluster.logs())
        cluster.close()


@pytest.fixture
def client():
    """Connects the Python SDK to a cluster, and returns a bucket's documents."""
    clients = []

    def connect(cluster, bucket="travel"):
        clients.append(sdk.connect(cluster))
        return clients[-1].bucket(bucket).default_collection()

    yield connect
    for each in clients:
        each.close()


@pytest.fixture
def small_disk():
    """A disk of 64 MB, which can be made larger."""
    try:
        disk = SmallDisk(64)
    except Impossible as reason:
        pytest.skip(f"NOT TESTED: {reason}")
    yield disk
    disk.close()


@pytest.fixture
def gate(node, request):
    """The name of a bucket without a password, of the test's own."""
    name = "gate-" + str(zlib.crc32(request.node.name.encode()))
    node.create_bucket(name, passwordless=1)
    yield name
    node.admin.delete(f"/pools/default/buckets/{name}")


@pytest.fixture
def kv(node, bucket):
    """A connection of the test's own with the shared bucket selected."""
    with node.connect(bucket) as connection:
        yield connection


@pytest.fixture
def key(request):
    """A key that no other test uses."""
    return request.node.name.encode()[:200]


def pytest_generate_tests(metafunc):
    """Repeats the tests of `REPEATED_FILES`."""
    if REPETITIONS > 1 and metafunc.module.__name__.startswith(REPEATED_FILES):
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(1, REPETITIONS + 1))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Marks a failed test for its fixtures, so that they can print logs."""
    report = (yield).get_result()
    if NO_SKIPS and report.skipped and not hasattr(report, "wasxfail"):
        *_, reason = report.longrepr
        report.outcome, report.longrepr = "failed", f"{reason} (and DIVAN_NO_SKIPS is set)"
    if report.failed:
        item.failed_here = True
