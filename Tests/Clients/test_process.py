"""Stops and starts: kill -9 under load, clean stops, restarts."""

import json
import os
import pty
import random
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import time

import pytest

from rig.divan_gateway import PROGRAM as GATEWAY
from rig.load import Observer, Writer, fetch, ingest
from rig.node import PORT_FLAGS, ROOT, SERVER, NotReady, wait_until
from rig.wire import Op, Status, vbucket_of

ROUNDS = int(os.environ.get("DIVAN_KILL_ROUNDS", "5"))
SEED = int(os.environ.get("DIVAN_SEED", "20261121"))


def failover_entries(node, bucket):
    """The number of histories of each vBucket."""
    with node.connect(bucket) as connection:
        details = connection.stat("vbucket-details")
    entries = ":num_failover_entries"
    return {name: int(value) for name, value in details.items() if name.endswith(entries)}


def histories(node, bucket):
    """The current UUID of each vBucket that has a history: an empty one has nothing to lose."""
    with node.connect(bucket) as connection:
        found = connection.stat("vbucket-seqno")
    names = {name.split(":")[0] for name, value in found.items() if name.endswith(":high_seqno")}
    return {
        name: found[f"{name}:uuid"] for name in names if int(found[f"{name}:high_seqno"]) > 0
    }


def check_files(node):
    """The integrity check of the stock SQLite library on every file."""
    files = node.database_files()
    assert files, f"no database files in {node.data}"
    for path in files:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], path
        database.close()


# Clean stops


def test_sigterm_ends_cleanly_and_documents_stay(make_node):
    node = make_node().start().provision().create_bucket("kept")
    names = [f"key-{number}".encode() for number in range(2000)]
    with node.connect("kept") as connection:
        ingest(connection, [(name, b'{"n":"%s"}' % name) for name in names])
        cas = {name: reply.cas for name, reply in fetch(connection, names)}
        connection.call(Op.DELETE, names[0])
    before = histories(node, "kept")
    assert node.stop() == 0
    node.start()
    node.await_bucket("kept")
    with node.connect("kept") as connection:
        for name, reply in fetch(connection, names[1:]):
            assert (reply.status, reply.cas) == (Status.SUCCESS, cas[name])
            assert reply.value == b'{"n":"%s"}' % name
        assert connection.get(names[0]).status == Status.NOT_FOUND
    # Nothing was lost, so no history began.
    assert histories(node, "kept") == before
    check_files(node)


def test_sighup_ends_cleanly(make_node):
    node = make_node().start().provision().create_bucket("kept")
    with node.connect("kept") as connection:
        connection.set(b"key", b"1")
    before = histories(node, "kept")
    node.process.send_signal(signal.SIGHUP)
    assert node.process.wait(30) == 0
    assert "stopping" in node.log()
    node.start()
    node.await_bucket("kept")
    with node.connect("kept") as connection:
        assert connection.get(b"key").value == b"1"
    assert histories(node, "kept") == before


def test_closed_terminal_ends_a_server_cleanly(make_node):
    """The server writes its log to the terminal, too, which is gone while it stops."""
    terminal, screen = pty.openpty()
    node = make_node().start(terminal=screen)
    node.provision().create_bucket("kept")
    os.close(screen)
    with node.connect("kept") as connection:
        connection.set(b"key", b"1")
    before = histories(node, "kept")
    os.close(terminal)
    assert node.process.wait(30) == 0
    node.start()
    node.await_bucket("kept")
    assert histories(node, "kept") == before


def test_sighup_is_ignored_under_nohup(make_node):
    node = make_node(prefix=["nohup"]).start().provision()
    node.process.send_signal(signal.SIGHUP)
    time.sleep(1)
    assert node.is_running
    assert node.admin.get("/pools/default").status == 200
    assert node.stop() == 0


def test_every_property_of_a_document_survives(make_node):
    node = make_node().start().provision().create_bucket("kept")
    expiry = int(time.time()) + 3600
    with node.connect("kept") as connection:
        connection.set(b"json", b'{"a":1}', flags=0x02000000, expiry=expiry)
        connection.set(b"binary", bytes(range(256)), flags=7)
        connection.set(b"empty", b"")
        connection.set(b"large", b"z" * (20 << 20))
        connection.set(b"k" * 250, b"long key")
        connection.counter(Op.INCR, b"counter", 1, 41)
        connection.set(b"deleted", b"1")
        connection.call(Op.DELETE, b"deleted")
        names = [b"json", b"binary", b"empty", b"large", b"k" * 250, b"counter", b"deleted"]
        before = [
            (reply.status, reply.value, reply.extras, reply.cas, reply.datatype)
            for _, reply in fetch(connection, names)
        ]
        metas = [connection.call(Op.GET_META, name, extras=b"\x02") for name in names]
    node.stop()
    node.start()
    node.await_bucket("kept")
    with node.connect("kept") as connection:
        after = [
            (reply.status, reply.value, reply.extras, reply.cas, reply.datatype)
            for _, reply in fetch(connection, names)
        ]
        again = [connection.call(Op.GET_META, name, extras=b"\x02") for name in names]
    assert after == before
    assert [(m.extras, m.cas) for m in again] == [(m.extras, m.cas) for m in metas]


def test_seqnos_and_cas_grow_across_a_restart(make_node):
    node = make_node().start().provision().create_bucket("kept")
    with node.connect("kept") as connection:
        first = connection.set(b"key", b"1")
    node.stop()
    node.start()
    node.await_bucket("kept")
    with node.connect("kept") as connection:
        second = connection.set(b"key", b"2")
    assert second.cas > first.cas
    assert second.token == (first.token[0], first.token[1] + 1)


def test_ports_and_buckets_survive_stop_and_kill(make_node):
    node = make_node().start().provision().create_bucket("one").create_bucket("two")
    node.admin.post("/pools/default/buckets/two", {"ramQuotaMB": 130})
    ports = node.kv_port, node.admin_port
    for name in PORT_FLAGS:
        node.flags[node.flags.index(name) + 1] = "0"
    uuids = {b["name"]: b["uuid"] for b in node.admin.get("/pools/default/buckets").json}
    for end in (node.stop, node.kill):
        end()
        node.start()
        assert (node.kv_port, node.admin_port) == ports
        found = {b["name"]: b for b in node.admin.get("/pools/default/buckets").json}
        assert {name: bucket["uuid"] for name, bucket in found.items()} == uuids
        assert found["two"]["quota"]["rawRAM"] == 130 << 20


def test_second_sigterm_changes_nothing(make_node):
    node = make_node().start().provision().create_bucket("kept")
    node.process.send_signal(signal.SIGTERM)
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(20) == 0


def test_sigint_ends_cleanly_too(make_node):
    node = make_node().start().provision()
    node.process.send_signal(signal.SIGINT)
    assert node.process.wait(20) == 0


def test_open_connections_do_not_delay_the_stop(make_node):
    node = make_node().start().provision().create_bucket("kept")
    connections = [node.connect("kept") for _ in range(10)]
    with node.admin.stream("/pools/default/bs/kept") as stream:
        assert stream.next()
        began = time.monotonic()
        assert node.stop() == 0
        assert time.monotonic() - began < 10
    for connection in connections:
        connection.close()


def half_a_post(node, name):
    """A connection that has sent a bucket's form but for its last bytes, and those bytes."""
    form = f"name={name}&ramQuotaMB=100&replicaNumber=0&numVBuckets=64".encode()
    login = "Authorization: Basic QWRtaW5pc3RyYXRvcjpwYXNzd29yZA=="
    head = (
        f"POST /pools/default/buckets HTTP/1.1\r\nHost: 127.0.0.1:{node.admin_port}\r\n{login}\r\n"
        f"Content-Length: {len(form)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", node.admin_port), timeout=20)
    connection.sendall(head.encode() + form[:-4])
    return connection, form[-4:]


def await_deafness(node):
    """Waits until the admin port accepts no connection: the stop has begun."""

    def is_deaf():
        try:
            socket.create_connection(("127.0.0.1", node.admin_port), timeout=1).close()
            return False
        except ConnectionRefusedError:
            return True

    wait_until(is_deaf, 5, "the admin port is closed")


def test_sigterm_lets_a_request_under_way_finish(make_node):
    node = make_node().start().provision()
    connection, rest = half_a_post(node, "late")
    idle = socket.create_connection(("127.0.0.1", node.admin_port))
    time.sleep(0.2)
    node.process.send_signal(signal.SIGTERM)
    await_deafness(node)
    # An idle connection is closed at once: not after the time for pending requests, when this one
    # would be cut off.
    idle.settimeout(20)
    assert idle.recv(1) == b""
    connection.sendall(rest)
    assert b" 202 " in connection.recv(4096).split(b"\r\n")[0]
    assert node.process.wait(20) == 0
    connection.close()
    idle.close()
    node.start()
    assert [b["name"] for b in node.admin.get("/pools/default/buckets").json] == ["late"]


def test_sigterm_cuts_off_a_request_that_does_not_finish(make_node):
    node = make_node().start().provision()
    connection, _ = half_a_post(node, "never")
    time.sleep(0.2)
    began = time.monotonic()
    assert node.stop() == 0
    assert time.monotonic() - began < 4
    connection.close()
    node.start()
    assert node.admin.get("/pools/default/buckets").json == []


@pytest.mark.parametrize("round", range(3))
def test_sigterm_amid_posts_keeps_what_was_answered(make_node, round):
    node = make_node().start().provision().create_bucket("kept")
    answered = []

    def post(number):
        """Changes the bucket's quota again and again; every answer is noted."""
        admin = node.admin
        try:
            while True:
                quota = 100 + len(answered) % 1900
                reply = admin.post("/pools/default/buckets/kept", {"ramQuotaMB": quota})
                if reply.status != 200:
                    return
                answered.append(quota)
        except OSError:
            return

    threads = [threading.Thread(target=post, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.3 + 0.05 * round)
    began = time.monotonic()
    assert node.stop() == 0
    assert time.monotonic() - began < 6
    for thread in threads:
        thread.join()
    assert len(answered) > 10
    assert "leaked its continuation" not in node.log()
    node.start()
    quota = node.admin.get("/pools/default/buckets/kept").json["quota"]["rawRAM"] >> 20
    # Threads answer in any order: it is one of the last.
    assert quota in answered[-12:] or quota >= max(answered[-12:])


# Crashes


def test_crash_begins_a_new_history_and_a_clean_stop_does_not(make_node):
    node = make_node().start().provision().create_bucket("kept")
    with node.connect("kept") as connection:
        uuid, seqno = connection.set(b"key", b"1").token
        place = vbucket_of(b"key")
        while connection.observe_seqno(place, uuid)[0] < seqno:
            time.sleep(0.01)
    entries = f"vb_{place}:num_failover_entries"
    first = failover_entries(node, "kept")[entries]
    node.kill()
    node.start()
    node.await_bucket("kept")
    second = failover_entries(node, "kept")[entries]
    assert second == first + 1
    with node.connect("kept") as connection:
        assert connection.get(b"key").value == b"1"
        # The old history is still known, and says where it ended.
        reply = connection.call(Op.OBSERVE_SEQNO, value=uuid.to_bytes(8, "big"), vbucket=place)
        assert reply.status == Status.SUCCESS and reply.value[0] == 1
        assert int.from_bytes(reply.value[27:35], "big") == uuid
        assert int.from_bytes(reply.value[35:43], "big") >= seqno
    node.stop()
    node.start()
    node.await_bucket("kept")
    assert failover_entries(node, "kept")[entries] == second


def crash_and_check(node, dice):
    """One round: load, kill at a random instant, start, compare with what was promised."""
    before = failover_entries(node, "kept")
    writers = [Writer(node, "kept", number) for number in range(3)]
    observer = Observer(node, "kept", writers)
    for thread in [*writers, observer]:
        thread.start()
    time.sleep(dice.uniform(0.05, 1.2))
    node.kill()
    for thread in [*writers, observer]:
        thread.stopping = True
        thread.join(10)
    for writer in writers:
        assert writer.failure is None, writer.failure
    node.start()
    node.await_bucket("kept")
    checked = 0
    with node.connect("kept") as connection:
        for writer in writers:
            for key, reply in fetch(connection, writer.keys):
                checked += check_document(writer, observer, key, reply)
    after = failover_entries(node, "kept")
    for vbucket, persisted in observer.persisted.items():
        name = f"vb_{vbucket}:num_failover_entries"
        if persisted > 0:
            assert after[name] == min(before[name] + 1, 25), name
    check_files(node)
    return checked


def check_document(writer, observer, key, reply):
    """A document is a complete version, not older than the one observed as persisted."""
    persisted = observer.persisted.get(vbucket_of(key), 0)
    versions = writer.acknowledged[key]
    promised = [each for each in versions if each[2] <= persisted]
    if reply.status == Status.NOT_FOUND:
        assert not promised, f"{key} was seen persisted at {promised[-1]} and is gone"
        return 0
    assert reply.status == Status.SUCCESS, reply
    version = int(reply.value.split(b'"version":')[1].split(b",")[0])
    assert reply.value == writer.value(key, version), f"{key} is torn"
    known = {number: cas for number, cas, _ in versions}
    if version in known:
        assert reply.cas == known[version], f"{key} has another CAS"
    else:
        assert version in writer.unanswered[key], f"{key} has a version that was never written"
    if promised:
        assert version >= promised[-1][0], f"{key} fell back behind {promised[-1]}"
    return len(promised) > 0


def forget_documents(node):
    """Ends a round: no document of it is on disk any more.

    The next one counts its versions from the beginning. A change not observed as persisted may be
    lost, even a deletion, and a version of this round would then look like one of the next.
    """
    deleted = {}
    with node.connect("kept") as connection:
        for number in range(3):
            for key in range(200):
                name = f"writer-{number}-{key}".encode()
                reply = connection.call(Op.DELETE, name)
                assert reply.status in (Status.SUCCESS, Status.NOT_FOUND), reply
                if reply.status == Status.SUCCESS:
                    deleted[vbucket_of(name)] = reply.token
        for vbucket, (uuid, seqno) in deleted.items():
            wait_until(
                lambda vbucket=vbucket, uuid=uuid, seqno=seqno:
                connection.observe_seqno(vbucket, uuid)[0] >= seqno,
                30, "the deletions are on disk")


def test_observed_persisted_write_survives_kill_9(make_node):
    print(f"seed {SEED}, {ROUNDS} rounds")
    dice = random.Random(SEED)
    node = make_node().start().provision().create_bucket("kept")
    checked = 0
    for round_number in range(ROUNDS):
        print(f"round {round_number}")
        checked += crash_and_check(node, dice)
        forget_documents(node)
    assert checked > 0, "nothing was ever seen persisted: the test has shown nothing"


def test_documents_are_served_before_warmup_ends(make_node):
    """A start with many documents answers a read long before it has read them all."""
    node = make_node().start().provision().create_bucket("kept", ramQuotaMB=512)
    count = 150_000
    with node.connect("kept") as connection:
        ingest(connection, ((b"key-%d" % n, b'{"n":%d,"pad":"%s"}' % (n, b"x" * 300))
                            for n in range(count)))
    node.stop()
    began = time.monotonic()
    node.start()
    with node.connect("kept") as connection:
        assert connection.get(b"key-77777").value.startswith(b'{"n":77777,')
        first = time.monotonic() - began
        assert first < 5
        assert int(connection.stat()["curr_items"]) <= count
    node.await_bucket("kept", 60)
    with node.connect("kept") as connection:
        assert int(connection.stat()["curr_items"]) == count


def test_kill_during_start_loses_nothing(make_node):
    node = make_node().start().provision().create_bucket("kept")
    with node.connect("kept") as connection:
        ingest(connection, [(b"key-%d" % n, b"%d" % n) for n in range(5000)])
    node.stop()
    dice = random.Random(SEED)
    for _ in range(5):
        node.start()
        time.sleep(dice.uniform(0, 0.05))
        node.kill()
    node.start()
    node.await_bucket("kept")
    with node.connect("kept") as connection:
        for key, reply in fetch(connection, [b"key-%d" % n for n in range(5000)]):
            assert reply.value == key[4:]
    check_files(node)


def test_bucket_deleted_before_a_crash_stays_deleted(make_node):
    node = make_node().start().provision().create_bucket("kept").create_bucket("dropped")
    with node.connect("dropped") as connection:
        connection.set(b"key", b"1")
    assert node.admin.delete("/pools/default/buckets/dropped").status == 200
    node.kill()
    node.start()
    names = [bucket["name"] for bucket in node.admin.get("/pools/default/buckets").json]
    assert names == ["kept"]
    node.create_bucket("dropped")
    with node.connect("dropped") as connection:
        assert connection.get(b"key").status == Status.NOT_FOUND


def test_bucket_flushed_before_a_crash_stays_empty(make_node):
    node = make_node().start().provision().create_bucket("flushed")
    with node.connect("flushed") as connection:
        uuid, seqno = connection.set(b"key", b"1").token
        while connection.observe_seqno(vbucket_of(b"key"), uuid)[0] < seqno:
            time.sleep(0.01)
    path = "/pools/default/buckets/flushed/controller/doFlush"
    assert node.admin.post(path).status == 200
    node.kill()
    node.start()
    node.await_bucket("flushed")
    with node.connect("flushed") as connection:
        assert connection.get(b"key").status == Status.NOT_FOUND


def test_ephemeral_bucket_is_empty_after_a_restart(make_node):
    node = make_node().start().provision().create_bucket("gone", bucketType="ephemeral")
    with node.connect("gone") as connection:
        uuid, _ = connection.set(b"key", b"1").token
    node.stop()
    node.start()
    node.await_bucket("gone")
    with node.connect("gone") as connection:
        assert connection.get(b"key").status == Status.NOT_FOUND
        # It begins a new history.
        assert connection.set(b"key", b"2").token[0] != uuid


# The command line


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_are_printed_by_the_server(make_node, flag):
    import subprocess

    from rig.node import SERVER

    result = subprocess.run(
        [SERVER, flag], capture_output=True, text=True, timeout=10, check=False
    )
    assert result.returncode == 0
    wanted = ["--data", "--kv-port", "--memcached-bucket"] if flag == "--help" else ["0."]
    assert all(word in result.stdout for word in wanted), result.stdout


@pytest.mark.parametrize(
    "flags",
    [
        ["--nonsense"],
        ["--kv-port", "70000"],
        ["--kv-port", "x"],
        ["--bind", "nowhere"],
        ["--log-limit", "0"],
    ],
)
def test_wrong_flag_is_named(make_node, flags):
    with pytest.raises(NotReady) as refused:
        make_node(*flags).start()
    assert refused.value.code not in (0, None)
    assert flags[0] in refused.value.log or flags[-1] in refused.value.log


def test_identity_of_a_directory_is_printed_also_beside_its_node(make_node, tmp_path):
    import subprocess

    from rig.node import SERVER

    def identity(directory):
        return subprocess.run(
            [SERVER, "--identity", directory],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )

    node = make_node().start()
    before = json.loads(identity(node.data).stdout)
    # Exactly these: the cluster's secret is stored beside them.
    assert set(before) == {"cluster", "epoch", "node", "uuid"}
    assert before["cluster"] is None and (before["epoch"], before["node"]) == (1, 1)
    node.provision()
    wanted = {**before, "cluster": node.admin.get("/pools").json["uuid"]}
    wait_until(lambda: json.loads(identity(node.data).stdout) == wanted, 10, "it is stored")
    node.kill()
    assert json.loads(identity(node.data).stdout) == wanted
    # After a clean stop no file is left that another user's inspection would own.
    node.start()
    assert node.stop() == 0
    files = sorted(node.data.rglob("*"))
    assert json.loads(identity(node.data).stdout) == wanted
    assert sorted(node.data.rglob("*")) == files
    for directory in (tmp_path, tmp_path / "missing"):
        refused = identity(directory)
        assert refused.returncode == 1 and str(directory) in refused.stderr, refused
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("heading", "program", "pattern"),
    [
        ("### The server, `divan-server`", SERVER, "--[a-z][a-z-]+"),
        ("### The sync gateway, `divan-gateway`", GATEWAY, "--?[a-zA-Z][a-zA-Z-]+"),
    ],
)
def test_readme_lists_the_options_of_the_program(heading, program, pattern):
    """Flags of the gateway that have no effect are printed, and not listed."""
    result = subprocess.run(
        [program, "--help"], capture_output=True, text=True, timeout=10, check=True
    )
    lines = result.stdout.splitlines()
    printed = [line for line in lines if not re.search("no effect|refused:", line)]
    options = set(re.findall(rf"(?<![\w-]){pattern}", "\n".join(printed)))
    section = (ROOT / "README.md").read_text().split(heading)[1].split("\n###")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `-")]
    listed = set(re.findall(pattern, " ".join(rows)))
    assert {name.lstrip("-") for name in options} == {name.lstrip("-") for name in listed}


@pytest.mark.parametrize("flag", ["--kv-tls-port", "--admin-tls-port", "--views-tls-port"])
def test_port_with_tls_contradicts_no_tls(make_node, flag):
    with pytest.raises(NotReady) as refused:
        make_node("--no-tls", flag, "0").start()
    assert refused.value.code not in (0, None) and f"{flag} and --no-tls" in refused.value.log


def test_option_without_effect_is_refused_by_name(make_node):
    with pytest.raises(NotReady) as refused:
        make_node("--memcached-bucket", "plain").start()
    assert "--memcached-bucket needs --memcached-port" in refused.value.log


@pytest.mark.parametrize("megabytes", ["99999999999", "18446744073709551615", "100", "0"])
def test_memory_quota_that_the_machine_cannot_give_is_refused(make_node, megabytes):
    with pytest.raises(NotReady) as refused:
        make_node("--memory-quota", megabytes).start()
    with pytest.raises(NotReady) as nonsense:
        make_node("--reactors", "0").start()
    assert refused.value.code == nonsense.value.code not in (0, None)
    assert f"--memory-quota {megabytes} cannot be used: " in refused.value.log
    cure = "256 MB or more" if int(megabytes) < 256 else "Name 256 to "
    assert cure in refused.value.log


def test_every_route_to_the_memory_quota_has_the_same_bound(make_node):
    with pytest.raises(NotReady) as refused:
        make_node("--memory-quota", "99999999999").start()
    most = int(re.search(r"Name 256 to (\d+) MB", refused.value.log).group(1))
    node = make_node("--memory-quota", str(most)).start()
    assert node.anonymous.get("/nodes/self").json["memoryQuota"] == most
    form = {"port": "SAME", "username": "Administrator", "password": "password"}
    for quota in (most + 1, 99999999999):
        for path in ("/clusterInit", "/pools/default"):
            fields = form if path == "/clusterInit" else {}
            reply = node.anonymous.post(path, {**fields, "memoryQuota": quota})
            assert reply.status == 400
            assert f"at most {most}MB" in reply.json["errors"]["_"]
    assert node.anonymous.post("/clusterInit", {**form, "memoryQuota": most}).status == 200


def test_ready_line_names_the_listening_ports(make_node):
    began = time.monotonic()
    node = make_node().start()
    took = (time.monotonic() - began) * 1000
    assert node.ready["event"] == "ready"
    assert 0 <= node.ready["ms"] <= took
    assert node.anonymous.get("/pools").status == 200
