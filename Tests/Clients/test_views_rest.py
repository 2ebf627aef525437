"""Many views without work: what they cost, as counts of the process, and that they answer."""

import os
import pathlib

from rig.node import wait_until
from rig.views import Views

VIEWS = 150
PER_DOCUMENT = 25
# `RestRule.Limits.openMax`: open indexes that are kept for a minute.
OPEN_MAX = 64
# The database, its log, the log's index and the connection of checkpoints; three more of readers.
DESCRIPTORS_MAX = 7


def index_files(node):
    """The index files that the node has open, and the number of their descriptors."""
    files, count = set(), 0
    folder = pathlib.Path(f"/proc/{node.process.pid}/fd")
    for entry in list(folder.iterdir()):
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if "/indexes/" in target:
            files.add(target.partition(".sqlite")[0])
            count += 1
    return files, count


def threads(node):
    return len(os.listdir(f"/proc/{node.process.pid}/task"))


def put(views, documents):
    for document in documents:
        sources = {
            f"v{number}": f"function (doc, meta) {{ emit(doc.n, {document * PER_DOCUMENT + number}); }}"
            for number in range(PER_DOCUMENT)
        }
        assert views.put(f"d{document}", sources).status == 201


def test_views_without_work_have_no_thread_and_no_descriptor(make_node):
    node = make_node().start().provision()
    node.create_bucket("b", numVBuckets=64)
    views = Views(node, "b")
    put(views, range(1))
    assert views.fresh("d0", "v0").rows == []
    few = threads(node)
    put(views, range(1, VIEWS // PER_DOCUMENT))
    assert views.fresh("d5", "v0").rows == []
    # Lanes of indexes are at most twice as many as processors, 4 at least.
    assert threads(node) - few <= max(4, 2 * os.cpu_count())

    def rest():
        files, count = index_files(node)
        assert count <= DESCRIPTORS_MAX * VIEWS
        return len(files) <= OPEN_MAX and count <= DESCRIPTORS_MAX * OPEN_MAX

    wait_until(rest, seconds=60)
    with node.connect("b") as connection:
        assert connection.set(b"one", b'{"n":1}').status == 0
    # All indexes have the change, whether they rested or not.
    for document in range(VIEWS // PER_DOCUMENT):
        for number in (0, PER_DOCUMENT - 1):
            answer = views.fresh(f"d{document}", f"v{number}")
            assert [row["value"] for row in answer.rows] == [document * PER_DOCUMENT + number]
    assert node.stop() == 0
    # And after a restart, from the files.
    node.start()
    node.await_bucket("b")
    assert [row["key"] for row in views.fresh("d3", "v7").rows] == [1]
    wait_until(rest, seconds=60)
    assert node.stop() == 0
