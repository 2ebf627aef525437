"""The disk: files that other programs can read, and failures."""

import json
import random
import re
import resource
import shutil
import sqlite3
import subprocess
import time

from rig.load import fetch, ingest
from rig.node import SERVER, wait_until
from rig.wire import Op, Status, vbucket_of


def settle(node, bucket):
    """Waits until everything is persisted."""

    def is_persisted():
        with node.connect(bucket) as connection:
            found = connection.stat("vbucket-seqno")
        return all(
            int(value) <= int(found[name.replace(":high_seqno", ":last_persisted_seqno")])
            for name, value in found.items()
            if name.endswith(":high_seqno") and ":abs" not in name
        )

    wait_until(is_persisted, 30, "everything persisted")


# Other readers


def test_sqlite_shell_reads_the_files_of_a_running_node(make_node):
    node = make_node().start().provision().create_bucket("kept")
    with node.connect("kept") as connection:
        ingest(connection, [(b"key-%d" % n, b'{"n":%d}' % n) for n in range(3000)])
        settle(node, "kept")
        shell = shutil.which("sqlite3")
        assert shell, "the sqlite3 shell is missing: make deps installs it"
        documents = 0
        for path in node.database_files():
            commands = "PRAGMA integrity_check; SELECT sum(documents) FROM block;"
            result = subprocess.run(
                [shell, "-readonly", str(path), commands],
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            )
            lines = result.stdout.split()
            assert lines[0] == "ok", result.stdout
            documents += int(lines[1]) if len(lines) > 1 else 0
        assert documents == 3000
        # The node keeps writing meanwhile.
        assert connection.set(b"key-0", b"{}").status == Status.SUCCESS


def dump(node, *arguments):
    result = subprocess.run(
        [str(SERVER), "--dump", str(node.data), *arguments],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr.decode()
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_dump_prints_every_document_as_a_line_of_json(make_node):
    node = make_node().start().provision().create_bucket("one").create_bucket("two")
    with node.connect("one") as connection:
        ingest(connection, [(b"key-%d" % n, b'{"n":%d}' % n) for n in range(500)])
        connection.set(b"key-0", b'{"n":"changed"}')
        connection.set(b"binary", bytes(range(256)))
        connection.set("schlüssel".encode(), b'"text"')
        connection.call(Op.DELETE, b"key-1")
    with node.connect("two") as connection:
        connection.set(b"other", b"{}")
    node.stop()
    lines = dump(node)
    found = {(line["bucket"], line["key"]): line for line in lines}
    assert len(lines) == len(found) == 499 + 2 + 1
    assert found["one", "key-0"]["value"] == {"n": "changed"}
    assert found["one", "key-7"]["value"] == {"n": 7}
    assert found["one", "schlüssel"]["value"] == "text"
    assert ("one", "key-1") not in found
    assert ("two", "other") in found


def test_dump_prints_keys_that_are_not_utf8_in_base64(make_node):
    node = make_node().start().provision().create_bucket("one")
    with node.connect("one") as connection:
        connection.set(b"\xff", b"1")
        connection.set("\ufffd".encode(), b"2")
    node.stop()
    lines = {line["value"]: line for line in dump(node)}
    assert "key" not in lines[1] and lines[1]["keyBase64"] == "/w=="
    assert lines[2]["key"] == "\ufffd"


def test_dump_of_a_killed_nodes_files_has_every_document(make_node):
    node = make_node().start().provision().create_bucket("one")
    with node.connect("one") as connection:
        ingest(connection, [(b"key-%d" % n, b'{"n":%d}' % n) for n in range(500)])
    settle(node, "one")
    node.kill()
    assert {line["key"] for line in dump(node)} == {f"key-{n}" for n in range(500)}


def test_dump_of_a_missing_directory_names_the_directory(tmp_path):
    result = subprocess.run(
        [str(SERVER), "--dump", str(tmp_path / "nowhere")],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert result.returncode not in (0, None) and result.returncode > 0
    assert "nowhere" in result.stderr


def test_values_are_compressed_on_disk(make_node):
    node = make_node().start().provision().create_bucket("packed")
    dice = random.Random(5)
    words = [f"word{n}" for n in range(500)]

    def document(number):
        text = " ".join(dice.choice(words) for _ in range(140))
        return json.dumps({"id": number, "type": "article", "text": text}).encode()

    documents = [(b"article-%d" % n, document(n)) for n in range(20_000)]
    with node.connect("packed") as connection:
        ingest(connection, documents)
    settle(node, "packed")
    node.stop()
    raw = sum(len(value) for _, value in documents)
    stored = sum(path.stat().st_size for path in node.database_files())
    assert stored < raw * 0.8


# A full disk


def noise(number, size):
    """A value that does not compress."""
    return random.Random(number).randbytes(size)


def test_node_survives_a_full_disk_without_losing_documents(make_node, small_disk):
    node = make_node(data=small_disk.path / "data").start().provision().create_bucket("kept")
    size = 64 << 10
    with node.connect("kept") as connection:
        connection.socket.settimeout(60)
        acknowledged = []
        # More than the disk holds; what does not fit stays in memory.
        for number in range(1200):
            status = connection.set(b"key-%d" % number, noise(number, size)).status
            assert status in (Status.SUCCESS, Status.TEMPORARY)
            if status == Status.SUCCESS:
                acknowledged.append(number)
        assert len(acknowledged) * size > 64 << 20
        # Nothing that was acknowledged is lost while the node runs; reads are served.
        for number in acknowledged[::50]:
            assert connection.get(b"key-%d" % number).value == noise(number, size)

        def is_told():
            alerts = node.admin.get("/pools/default").json.get("alerts", [])
            return any("full" in alert["msg"].lower() for alert in alerts)

        wait_until(is_told, 10, "an alert that the disk is full")
        small_disk.resize(512)
        settle(node, "kept")
        assert connection.set(b"after", b"1").status == Status.SUCCESS
    settle(node, "kept")
    node.kill()
    node.start()
    node.await_bucket("kept")
    with node.connect("kept") as connection:
        for number in acknowledged:
            assert connection.get(b"key-%d" % number).value == noise(number, size)


def test_write_refused_by_a_full_disk_is_never_reported_as_persisted(make_node, small_disk):
    node = make_node(data=small_disk.path / "data").start().provision().create_bucket("kept")
    size = 256 << 10
    promised = []
    with node.connect("kept") as connection:
        connection.socket.settimeout(60)
        tokens = []
        for number in range(360):
            key = b"key-%d" % number
            reply = connection.set(key, noise(number, size))
            if reply.status == Status.SUCCESS:
                tokens.append((number, key, reply.token))
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            time.sleep(0.2)
        for number, key, (uuid, seqno) in tokens:
            if connection.observe_seqno(vbucket_of(key), uuid)[0] >= seqno:
                promised.append((number, key))
        assert 0 < len(promised) < len(tokens)
    node.kill()
    small_disk.resize(512)
    node.start()
    node.await_bucket("kept")
    with node.connect("kept") as connection:
        for number, key in promised:
            assert connection.get(key).value == noise(number, size)


# Too few file descriptors


def test_missing_file_descriptors_are_reported_and_recovered_from(make_node):
    node = make_node().start().provision().create_bucket("kept")
    process = node.process.pid
    with node.connect("kept") as connection:
        before = resource.prlimit(process, resource.RLIMIT_NOFILE)
        # What is open stays so; no lane has a file yet.
        resource.prlimit(process, resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            assert connection.set(b"key", b"1").status == Status.SUCCESS
            # More attempts than a file that fails is given.
            wait_until(lambda: node.log().count("ulimit -n") >= 5, 20, "five attempts")
            assert connection.get(b"key").value == b"1"
            # What a crash may lose grows no further; other lane files have nothing to persist.
            wait_until(
                lambda: connection.set(b"key", b"2").status == Status.TEMPORARY, 10, "a hold"
            )
            before_hold = connection.get(b"key").value
            assert connection.set(b"key", b"2").status == Status.TEMPORARY
            assert connection.get(b"key").value == before_hold
        finally:
            resource.prlimit(process, resource.RLIMIT_NOFILE, before)
        wait_until(lambda: connection.set(b"key", b"3").status == Status.SUCCESS, 10, "a write")
        settle(node, "kept")
        assert connection.get(b"key").value == b"3"
        alerts = str(node.admin.get("/pools/default").json["alerts"])
        assert "has persisted nothing" not in alerts
    assert "has persisted nothing for 2 seconds" in node.log()
    assert "is closed after" not in node.log()


# A flipped byte


def find_body(path):
    """The places of a block's compressed values within a database file.

    There may be several: SQLite leaves the bytes of rows that it moved, or deleted, in unused parts
    of pages. Which of the places is the row, only SQLite knows.
    """
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        row = database.execute(
            "SELECT bytes FROM body ORDER BY length(bytes) DESC LIMIT 1"
        ).fetchone()
    database.close()
    # Overflow pages cut a long row in pieces, so look for a short piece of its middle.
    blob = row[0]
    content = path.read_bytes()
    for start in range(len(blob) // 2, len(blob) - 16):
        piece = re.escape(blob[start : start + 16])
        places = [found.start() for found in re.finditer(piece, content, re.DOTALL)]
        if places:
            return places
    raise LookupError("no block found in the file")


def test_flipped_byte_is_detected_and_other_documents_are_served(make_node):
    node = make_node().start().provision().create_bucket("kept", evictionPolicy="fullEviction")
    count = 5000
    with node.connect("kept") as connection:
        ingest(connection, [(b"key-%d" % n, b'{"n":%d,"pad":"%s"}' % (n, b"y" * 400))
                            for n in range(count)])
    settle(node, "kept")
    node.stop()
    victim = max(node.database_files(), key=lambda path: path.stat().st_size)
    content = bytearray(victim.read_bytes())
    for place in find_body(victim):
        content[place] ^= 0x40
    victim.write_bytes(content)
    node.start()
    right, failed = 0, 0
    with node.connect("kept") as connection:
        connection.socket.settimeout(30)
        for key, reply in fetch(connection, [b"key-%d" % n for n in range(count)], depth=64):
            if reply.status == Status.SUCCESS:
                assert json.loads(reply.value) == {"n": int(key[4:]), "pad": "y" * 400}
                right += 1
            else:
                assert reply.status in (Status.INTERNAL, Status.TEMPORARY), reply
                failed += 1
        # One block of some dozens of documents, and it is named.
        assert 0 < failed < 500 and right + failed == count
        assert victim.name in node.log()
        assert connection.set(b"new", b"{}").status == Status.SUCCESS


def test_unreadable_lane_file_is_set_aside_and_the_others_serve(make_node):
    node = make_node().start().provision().create_bucket("kept")
    count = 2000
    with node.connect("kept") as connection:
        ingest(connection, [(b"key-%d" % n, b'{"n":%d}' % n) for n in range(count)])
    settle(node, "kept")
    node.stop()
    victim = node.database_files()[1]
    victim.write_bytes(random.Random(1).randbytes(victim.stat().st_size))
    node.start()
    served = 0
    with node.connect("kept") as connection:
        connection.socket.settimeout(30)
        for _, reply in fetch(connection, [b"key-%d" % n for n in range(count)], depth=64):
            if reply.status == Status.SUCCESS:
                served += 1
            else:
                assert reply.status in (Status.TEMPORARY, Status.INTERNAL), reply
    assert count * 0.5 < served < count
    assert victim.name in node.log()
    assert list(victim.parent.glob(f"{victim.name}.damaged*")), "the file was not set aside"
