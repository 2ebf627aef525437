"""Index files as operators read them: printed and checked by the program, beside a node or after it."""

import contextlib
import json
import sqlite3
import subprocess

from rig.load import ingest
from rig.node import SERVER, wait_until
from rig.views import Views
from rig.wire import Op, Status

MAP = """function (doc, meta) {
    for (var i = 0; i < doc.times; i++) emit([doc.n, i], doc.v);
}"""
COUNT = 3_000


def value(number):
    # Some values are too large for a leaf.
    return f"long value of {number} " + "x" * (2_000 if number % 100 == 0 else 0)


def rows():
    """The rows of all documents, in the order of their keys."""
    return [
        {"key": [n, i], "id": f"doc-{n:05}", "value": value(n)}
        for n in range(COUNT)
        for i in range(n % 3)
    ]


def run(flag, path):
    return subprocess.run(
        [str(SERVER), flag, str(path)], capture_output=True, text=True, timeout=120, check=False
    )


def fill(node):
    """Returns the file of the view's index, which has all rows."""
    node.start().provision().create_bucket("files", numVBuckets=64)
    with node.connect("files") as connection:
        bodies = ({"n": n, "times": n % 3, "v": value(n)} for n in range(COUNT))
        pairs = [(b"doc-%05d" % n, json.dumps(body).encode()) for n, body in enumerate(bodies)]
        ingest(connection, pairs)
    views = Views(node, "files")
    assert views.put("d", {"v": {"map": MAP, "reduce": "_count"}}).status == 201
    answer = views.fresh("d", "v")
    assert not answer.errors and answer.rows == [{"key": None, "value": len(rows())}]
    return file_of(node)


def file_of(node):
    (path,) = (node.data / "indexes").glob("*/*.sqlite")
    return path


def check_dump(path):
    result = run("--dump-index", path)
    assert result.returncode == 0, result.stderr
    head, *lines = (json.loads(line) for line in result.stdout.splitlines())
    assert head["signature"] == path.stem
    assert head["bucketUUID"] == path.parent.name
    assert head["map"] == MAP and head["collator"]
    assert head["state"] == "ready"
    assert head["rows"] == len(lines) == sum(each["rows"] for each in head["vBuckets"])
    assert [each["vb"] for each in head["vBuckets"]] == list(range(64))
    assert all(each["home"] == "main" for each in head["vBuckets"])
    assert sum(each["seqno"] for each in head["vBuckets"]) == COUNT
    assert [{name: row[name] for name in ("key", "id", "value")} for row in lines] == rows()
    assert {row["vb"] for row in lines} == set(range(64))


def check_sound(path):
    result = run("--check-index", path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith(f"0 violations in {len(rows())} rows of 2000 documents")


def test_index_file_is_printed_and_checked_while_the_node_runs_and_after_a_crash(make_node):
    node = make_node()
    path = fill(node)
    check_dump(path)
    check_sound(path)
    # The node still uses its file.
    with node.connect("files") as connection:
        connection.set(b"more", b'{"n": 0, "times": 1, "v": 1}')
    assert Views(node, "files").fresh("d", "v").rows[0]["value"] == len(rows()) + 1
    with node.connect("files") as connection:
        connection.set(b"more", b'{"n": 0, "times": 0, "v": 1}')
    assert Views(node, "files").fresh("d", "v").rows[0]["value"] == len(rows())
    node.kill()
    check_sound(path)


def copy_log(path):
    """Copies the write-ahead log, which a node that stops keeps, into its file."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


def test_flipped_byte_of_an_index_is_a_violation(make_node):
    node = make_node()
    path = fill(node)
    assert node.stop() == 0
    check_dump(path)
    check_sound(path)
    copy_log(path)
    # Free space of a page may have copies of a row.
    content = path.read_bytes()
    changed = content.replace(b"long value of 1501 ", b"Long value of 1501 ")
    assert changed != content
    path.write_bytes(changed)
    result = run("--check-index", path)
    assert result.returncode == 1, result.stdout + result.stderr
    found = result.stdout.splitlines()
    assert any("checksum" in line for line in found[:-1]), result.stdout
    assert not found[-1].startswith("0 violations")
    result = run("--dump-index", path)
    assert result.returncode == 1
    assert "checksum" in result.stderr


def test_file_that_is_no_index_is_refused_by_name(make_node, tmp_path):
    (tmp_path / "text.sqlite").write_text("no index")
    for name in "text.sqlite", "absent.sqlite":
        for flag in "--dump-index", "--check-index":
            result = run(flag, tmp_path / name)
            assert result.returncode == 1, result.stdout
            assert name in result.stderr and not result.stdout
    assert not (tmp_path / "absent.sqlite").exists()


# Compaction


def test_compacted_index_is_smaller_and_answers_the_same(make_node):
    node = make_node()
    path = fill(node)
    kept = [row for row in rows() if row["key"][0] % 100 == 1]
    with node.connect("files") as connection:
        for n in range(COUNT):
            if n % 100 != 1:
                assert connection.call(Op.DELETE, b"doc-%05d" % n).status == Status.SUCCESS
    views = Views(node, "files")
    assert views.fresh("d", "v", reduce=False).rows == kept
    assert node.stop() == 0
    copy_log(path)
    before = path.stat().st_size
    node.start()
    node.await_bucket("files")
    assert views.fresh("d", "v", reduce=False).rows == kept
    (row,) = node.admin.get("/pools/default/buckets/files/ddocs").json["rows"]
    assert node.admin.post(row["controllers"]["compact"]).status == 200
    wait_until(lambda: path.stat().st_size < before / 2, 30, "a smaller file")
    result = run("--check-index", path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert views.fresh("d", "v", reduce=False).rows == kept
    assert file_of(node) == path
    # Changes afterwards, and a crash.
    with node.connect("files") as connection:
        body = {"n": 1, "times": 1, "v": "new"}
        assert connection.set(b"new", json.dumps(body).encode()).status == Status.SUCCESS
    assert len(views.fresh("d", "v", reduce=False).rows) == len(kept) + 1
    node.kill()
    result = run("--check-index", path)
    assert result.returncode == 0, result.stdout + result.stderr
