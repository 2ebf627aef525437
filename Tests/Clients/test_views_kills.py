"""`kill -9` while an index is built, follows changes and is compacted: no row is lost or doubled.

Each test has `DIVAN_KILL_ROUNDS` rounds, three by default.
"""

import json
import os
import random
import subprocess
import threading
import time

import pytest

from rig.node import SERVER
from rig.views import Views
from rig.wire import Closed, Op, Status, frame, vbucket_of
from test_views_process import BOTH, NUMBERS, check, numbered, store

ROUNDS = int(os.environ.get("DIVAN_KILL_ROUNDS", "3"))
COUNT = 2_000
# A build takes some tenths of a second: the pauses before kills are no longer than that.
SLOW = """function (doc, meta) {{
    for (var i = 0, x = 1; i < 4e3; i++) x = (x * 69069 + 1) % 4294967296;
    emit(doc.n, x < 0 ? {turn} : doc.v);
}}"""


class Writer(threading.Thread):
    """Writes, changes and deletes documents until the node is killed."""

    def __init__(self, node, seed):
        super().__init__(daemon=True)
        self.connection = node.connect("crash")
        self.random = random.Random(seed)
        self.count = 0

    def run(self):
        try:
            while True:
                self.connection.send(b"".join(self.request() for _ in range(32)))
                for _ in range(32):
                    self.connection.receive()
                self.count += 32
        except (Closed, OSError):
            pass
        finally:
            self.connection.close()

    def request(self):
        number = self.random.randrange(COUNT)
        key = b"doc-%05d" % number
        vbucket = vbucket_of(key, self.connection.vbuckets)
        if self.random.random() < 0.2:
            return frame(Op.DELETE, key, vbucket=vbucket)
        body = b'{"n":%d,"v":%d}' % (self.random.randrange(17), self.random.randrange(10**6))
        return frame(Op.SET, key, bytes(8), body, vbucket=vbucket)


def stored(node):
    """All documents as the data port has them."""
    found = {}
    with node.connect("crash") as connection:
        for number in range(COUNT):
            reply = connection.get(b"doc-%05d" % number)
            if reply.status == Status.SUCCESS:
                found[f"doc-{number:05}"] = json.loads(reply.value)
    return found


def restart(node):
    """Starts a killed node, after a check of the index files that the kill left."""
    for path in (node.data / "indexes").glob("*/*.sqlite"):
        done = subprocess.run(
            [str(SERVER), "--check-index", str(path)],
            capture_output=True, text=True, timeout=120, check=False,
        )
        # A file that was being created can only be read after the next start.
        is_new = "its next start completes it" in done.stderr or "is not an index" in done.stderr
        assert done.returncode == 0 or is_new, done.stdout + done.stderr
    node.start()
    node.await_bucket("crash")


@pytest.fixture
def node(make_node):
    """A node whose documents are on disk."""
    node = make_node().start().provision()
    node.create_bucket("crash", numVBuckets=64)
    store(node, "crash", numbered(COUNT))
    assert node.stop() == 0
    node.start()
    node.await_bucket("crash")
    return node


def test_rows_are_those_of_the_documents_after_kills_during_changes(node):
    """The index may be ahead of what the documents' files had: it must not stay so."""
    views = Views(node, "crash")
    assert views.put("numbers", BOTH).status == 201
    for turn in range(ROUNDS):
        writer = Writer(node, turn)
        writer.start()
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            # The index follows while documents change.
            assert views.fresh("numbers", "sum").status == 200
        node.kill()
        writer.join(10)
        assert writer.count > 0
        restart(node)
        documents = stored(node)
        assert documents, turn
        check(views, documents)


def test_rows_are_those_of_the_documents_after_kills_during_builds(node):
    views = Views(node, "crash")
    draw = random.Random(1)
    for turn in range(ROUNDS):
        # Other definitions than in the round before: both indexes are new.
        map = SLOW.format(turn=turn)
        both = {"map": {"map": map}, "sum": {"map": map, "reduce": "_sum"}}
        assert views.put("numbers", both).status == 201
        # Asks for the build at once, and for its rows as far as they are.
        views.query("numbers", "map", stale="update_after")
        time.sleep(draw.random() / 3)
        node.kill()
        restart(node)
        check(views, numbered(COUNT))


def test_rows_are_those_of_the_documents_after_kills_during_compactions(node):
    views = Views(node, "crash")
    draw = random.Random(2)
    assert views.put("numbers", {"map": NUMBERS, **BOTH}).status == 201
    documents = numbered(COUNT)
    for turn in range(ROUNDS):
        # Most nodes of the trees are written anew, so that there is something to remove.
        documents |= {id: documents[id] | {"n": draw.randrange(17)} for id in documents}
        store(node, "crash", documents)
        check(views, documents)
        (row,) = node.admin.get("/pools/default/buckets/crash/ddocs").json["rows"]
        assert node.admin.post(row["controllers"]["compact"]).status == 200
        # The copy of so small an index takes some milliseconds.
        time.sleep(draw.random() / 50)
        node.kill()
        restart(node)
        # Changes that were not on disk are lost.
        documents = stored(node)
        assert len(documents) == COUNT, turn
        check(views, documents)
