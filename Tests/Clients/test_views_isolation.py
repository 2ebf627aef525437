"""Script processes: without the kernel's filter no function runs, and no process serves two buckets."""

import json
import pathlib
import sys

from rig.load import ingest
from rig.node import wait_until
from rig.views import Views

REFUSING_KERNEL = [
    sys.executable,
    str(pathlib.Path(__file__).parent / "rig" / "refusing_kernel.py"),
]
# Two reactors, so that there is one process for proven functions.
FLAGS = ("--reactors", "2")
PROGRAM = "divan-script"


def script_processes(node):
    """The numbers of the node's script processes."""
    server = node.process.pid
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        # A process that has ended and was not reaped yet runs nothing.
        state, parent = rest.split()[:2]
        if name == PROGRAM and int(parent) == server and state != "Z":
            found.add(int(entry.name))
    return found


def fill(node, bucket, member):
    documents = {f"{bucket}-{n:04}": {member: f"secret of {bucket}"} for n in range(500)}
    pairs = [(id.encode(), json.dumps(each).encode()) for id, each in documents.items()]
    with node.connect(bucket) as connection:
        ingest(connection, pairs)


def test_views_answer_503_with_the_reason_if_the_kernel_refuses_filters(make_node):
    node = make_node(prefix=REFUSING_KERNEL).start().provision()
    node.create_bucket("b", numVBuckets=64)
    views = Views(node, "b")
    assert views.put("d", {"v": "function (doc, meta) { emit(meta.id, null); }"}).status == 201
    fill(node, "b", "x")
    for parameters in [{}, {"stale": "ok"}, {"stale": "false"}]:
        answer = views.query("d", "v", **parameters)
        status, error, reason = answer.refusal
        assert (status, error) == (503, "service_unavailable"), answer
        assert "Operation not permitted" in reason and "--unfiltered-scripts" in reason, reason
    # An update that tries again starts a process, which ends as soon as the kernel refuses its filter.
    seen = script_processes(node)
    wait_until(lambda: not seen & script_processes(node))
    assert "--unfiltered-scripts" in node.log()
    assert node.stop() == 0


def test_functions_run_unfiltered_if_the_operator_allows_it(make_node):
    node = make_node("--unfiltered-scripts", prefix=REFUSING_KERNEL).start().provision()
    node.create_bucket("b", numVBuckets=64)
    views = Views(node, "b")
    assert views.put("d", {"v": "function (doc, meta) { emit(meta.id, null); }"}).status == 201
    fill(node, "b", "x")
    answer = views.fresh("d", "v")
    assert answer.json["total_rows"] == 500 and not answer.errors, answer
    assert "cannot filter system calls" in node.log()
    # Everything else is given up as always.
    for process in script_processes(node):
        assert capabilities(process) == {0}
    assert node.stop() == 0


def capabilities(process):
    """The values of the sets of capabilities that a process can use or pass on, of each thread."""
    found = set()
    for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
        for line in (thread / "status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                found.add(int(value, 16))
    return found


def test_function_of_one_bucket_never_reaches_documents_of_another(make_node):
    node = make_node(*FLAGS).start().provision()
    keeper = """function (doc, meta) {
        globalThis.kept = doc.a; Object.prototype.kept = doc.a; Array.kept = doc.a;
        emit(meta.id, null);
    }"""
    finder = """function (doc, meta) {
        emit([typeof kept, typeof ({}).kept, typeof Array.kept], null);
    }"""
    for bucket in ("a", "b"):
        node.create_bucket(bucket, numVBuckets=64)
    first, second = Views(node, "a"), Views(node, "b")
    fill(node, "a", "a")
    assert first.put("d", {"keep": keeper}).status == 201
    assert first.fresh("d", "keep").json["total_rows"] == 500
    before = script_processes(node)
    assert before and all(capabilities(process) == {0} for process in before)

    fill(node, "b", "b")
    assert second.put("d", {"find": finder}).status == 201
    answer = second.fresh("d", "find")
    assert answer.json["total_rows"] == 500
    assert {tuple(row["key"]) for row in answer.rows} == {("undefined",) * 3}
    after = script_processes(node)
    assert after and not before & after, "a process has run functions of both buckets"

    # And back: the first bucket's processes have ended, and the second one's are not used.
    fill(node, "a", "c")
    assert first.fresh("d", "keep").json["total_rows"] == 500
    assert script_processes(node) - before - after
    assert node.stop() == 0


def test_many_buckets_share_the_processes(make_node):
    """Ten buckets are indexed at once, within the number of processes of a node of two processors."""
    node = make_node(*FLAGS).start().provision()
    names = [f"shared-{number}" for number in range(10)]
    for name in names:
        node.create_bucket(name, numVBuckets=64, ramQuotaMB=100)
        fill(node, name, "x")
    views = [Views(node, name) for name in names]
    for each in views:
        assert each.put("d", {"v": "function (doc, meta) { emit(doc.x, meta.id); }"}).status == 201
    most = 0

    def all_indexed():
        nonlocal most
        most = max(most, len(script_processes(node)))
        answers = [each.query("d", "v", stale="ok", limit=1) for each in views]
        return all(each.json.get("total_rows") == 500 and not each.errors for each in answers)

    wait_until(all_indexed, seconds=60)
    assert most <= 3
    for each, name in zip(views, names):
        assert {row["key"] for row in each.fresh("d", "v").rows} == {f"secret of {name}"}
    assert node.stop() == 0
