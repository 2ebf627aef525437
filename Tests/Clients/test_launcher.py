"""The launcher: start, status, kill, logs, stop, as typed in a shell."""

import datetime
import fcntl
import os
import pathlib
import pty
import shutil
import signal
import socket
import subprocess
import termios
import time

import pytest
from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.options import ClusterOptions

from rig.checkout import LAUNCHER
from rig.node import PASSWORD, ROOT, SERVER, USER, wait_until
from rig.wire import Connection, Status


def test_new_checkout_is_built_with_every_program_that_its_nodes_start(tmp_path):
    """Without `divan-script` beside it, a server answers no view."""
    commands = tmp_path / "checkout/cluster"
    commands.mkdir(parents=True)
    shutil.copy(ROOT / "cluster/run", commands)
    # Stands for the compiler: makes an empty program and writes down its name.
    swift = tmp_path / "bin/swift"
    swift.parent.mkdir()
    swift.write_text(
        "#!/bin/bash\nset -e\nwhile [ $# -gt 1 ]; do\n"
        '  case "$1" in --package-path) place=$2/.build/release ;; --product) name=$2 ;; esac\n'
        '  shift\ndone\nmkdir -p "$place"\n'
        "printf '#!/bin/sh\\n' > \"$place/$name\"\nchmod +x \"$place/$name\"\n"
    )
    swift.chmod(0o755)
    subprocess.run(
        [str(commands / "run"), "start"],
        env={**os.environ, "PATH": f"{swift.parent}:{os.environ['PATH']}"},
        check=True,
        timeout=60,
    )
    built = {path.name for path in (tmp_path / "checkout/.build/release").iterdir()}
    assert built == {"divan-cluster", "divan-server", "divan-script"}


def test_start_returns_when_every_bucket_serves(checkout):
    told = checkout.start("--bucket", "one", "--bucket", "two:128:0:passwordless")
    port = 11210 + checkout.offset
    assert f"couchbase://127.0.0.1:{port}" in told
    for name, password in ((USER, PASSWORD), ("two", "")):
        with Connection(port) as connection:
            assert connection.plain(name, password).status == Status.SUCCESS
            assert connection.select_bucket("two").status == Status.SUCCESS
            assert connection.set(b"key", b"1").status == Status.SUCCESS
    two = checkout.admin.get("/pools/default/buckets/two").json
    assert two["quota"]["rawRAM"] == 128 << 20 and two["replicaNumber"] == 0
    assert checkout.admin.get("/pools/default/buckets/one").json["quota"]["rawRAM"] == 100 << 20


def test_start_is_quick(checkout):
    began = time.monotonic()
    checkout.start("--bucket", "quick")
    assert time.monotonic() - began < 20
    checkout.run("stop")
    began = time.monotonic()
    checkout.start()
    assert time.monotonic() - began < 20


def test_status_shows_the_running_nodes(checkout):
    before = checkout.status()
    assert before["running"] is False and before["nodes"] == []
    checkout.start("--bucket", "one")
    found = checkout.status()
    assert found["running"] is True
    (node,) = found["nodes"]
    assert node["kv"] == 11210 + checkout.offset and node["admin"] == 8091 + checkout.offset
    assert node["views"] == 8092 + checkout.offset
    assert f"views {node['views']}   pid {node['pid']}" in checkout.run("status")
    assert pathlib.Path(f"/proc/{node['pid']}").exists()
    assert [bucket["name"] for bucket in found["buckets"]] == ["one"]
    checkout.run("stop")
    assert checkout.status()["running"] is False
    # The process that adopted it may not have reaped it yet.
    stat = pathlib.Path(f"/proc/{node['pid']}/stat")
    assert not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_documents_survive_stop_and_start(checkout):
    checkout.start("--bucket", "kept")
    path = "/pools/default/buckets/kept/docs/note"
    assert checkout.admin.post(path, {"value": '{"kept":true}'}).status == 200
    assert "Stopped" in checkout.run("stop")
    checkout.start()
    assert checkout.admin.get(path).json["json"] == '{"kept":true}'


def test_second_start_changes_nothing(checkout):
    checkout.start("--bucket", "one")
    first = checkout.status()["nodes"][0]["pid"]
    told = checkout.start("--bucket", "one", "--bucket", "two")
    assert "runs already" in told and "Not done" not in told
    found = checkout.status()
    assert found["nodes"][0]["pid"] == first
    assert {bucket["name"] for bucket in found["buckets"]} == {"one", "two"}


def test_start_with_other_settings_of_an_existing_bucket_reports_what_it_did_not_do(checkout):
    checkout.start("--bucket", "one:128:0")
    # Settings that are not named are those that the bucket has.
    for same in ("one", "one:128", "one:128:0"):
        assert "Not done" not in checkout.start("--bucket", same)
    told = checkout.start("--bucket", "one:256:2:passwordless", "--bucket", "two", code=1)
    assert "Bucket one exists with other settings and was not changed" in told
    assert "128 MB, not 256" in told and "replicas: 0, not 2" in told and "a password" in told
    one = checkout.admin.get("/pools/default/buckets/one").json
    assert one["quota"]["rawRAM"] == 128 << 20 and one["replicaNumber"] == 0
    # The other orders of the command are carried out.
    assert checkout.admin.get("/pools/default/buckets/two").status == 200


def test_killed_node_is_shown_as_down_and_restarted_by_start(checkout):
    checkout.start("--bucket", "one")
    pid = checkout.status()["nodes"][0]["pid"]
    checkout.run("kill", "0")
    assert checkout.status()["nodes"][0]["running"] is False
    assert "does not run" in checkout.run("kill", "0", code=1)
    checkout.start()
    node = checkout.status()["nodes"][0]
    assert node["running"] is True and node["pid"] != pid


def test_stop_does_not_kill_a_foreign_process_with_the_recorded_pid(checkout):
    checkout.start()
    pid = checkout.status()["nodes"][0]["pid"]
    checkout.run("kill", "0")
    with subprocess.Popen(["sleep", "60"]) as stranger:
        memory = checkout.path / ".divan/cluster.json"
        memory.write_text(memory.read_text().replace(str(pid), str(stranger.pid)))
        checkout.run("stop")
        assert stranger.poll() is None
        stranger.kill()


def test_stop_without_running_nodes_succeeds(checkout):
    assert "No cluster runs" in checkout.run("stop")


def test_logs_show_the_output_of_the_server(checkout):
    checkout.start()
    wait_until(lambda: checkout.run("logs", "0").strip(), 5)
    assert "There is no node 7" in checkout.run("logs", "7", code=1)


def test_more_nodes_than_a_machine_should_run_are_refused_by_name(checkout):
    assert "--nodes" in checkout.start("--nodes", "17", code=1)


def test_log_of_a_node_is_bounded(checkout):
    """A full log becomes the part before, in the place of the previous one; `logs` shows the new one."""
    checkout.start()
    log = pathlib.Path(checkout.status()["nodes"][0]["log"])
    for text in ("first mark", "second mark"):
        checkout.run("stop")
        with open(log, "a", encoding="utf-8") as file:
            file.write(text + "\n")
            # A hole: the file is large, and the disk is not.
            file.truncate(32 << 20)
        checkout.start()
        old = log.with_name(log.name + ".1")
        wait_until(lambda: text.encode() in first_bytes(old), 10, "the log was rotated")
        assert log.stat().st_size < 1 << 20
        assert log.stat().st_mode & 0o777 == old.stat().st_mode & 0o777 == 0o600
    assert len(list(log.parent.glob("node-0.log*"))) == 2
    assert "stopping" not in checkout.run("logs", "0")


def first_bytes(path):
    """The bytes of a log before its hole; empty if it does not exist."""
    if not path.exists():
        return b""
    with open(path, "rb") as file:
        return file.read(1 << 16)


def test_start_with_more_nodes_than_the_cluster_names_the_add_command(checkout):
    checkout.start("--bucket", "one")
    told = checkout.start("--nodes", "9", code=1)
    assert "The cluster has 1 node, not 9: cluster/add adds one." in told
    assert len(checkout.status()["nodes"]) == 1
    assert "Not done" not in checkout.start("--nodes", "1")


def test_start_uses_the_directory_of_the_last_start(checkout, tmp_path_factory):
    place = tmp_path_factory.mktemp("elsewhere")
    checkout.start("--dir", str(place), "--bucket", "one")
    assert (place / "node-0").is_dir()
    assert checkout.status()["directory"] == str(place)
    told = checkout.start("--dir", str(place / "third"), code=1)
    assert str(place) in told and "cluster/stop" in told
    checkout.run("stop")
    checkout.start()
    assert checkout.status()["directory"] == str(place)


def test_port_in_use_is_reported(checkout):
    with socket.create_server(("127.0.0.1", 8091 + checkout.offset)):
        told = checkout.start(code=1)
    assert str(8091 + checkout.offset) in told and "in use" in told.lower()
    checkout.start()


def test_start_that_fails_stops_the_nodes_that_it_started(checkout):
    with socket.create_server(("127.0.0.1", 8091 + checkout.offset + 200)):
        told = checkout.start("--nodes", "3", code=1)
    assert "Node 2 ended before it was ready" in told and "in use" in told.lower()
    assert "Stopping what this command started: nodes 0, 1, 2" in told
    assert checkout.processes() == []
    # Nothing of it is remembered: another start may have another number of nodes.
    assert checkout.status()["nodes"] == []
    checkout.start("--nodes", "2", seconds=120)
    assert len(checkout.status()["nodes"]) == 2


def test_start_that_fails_leaves_the_nodes_that_ran_before(checkout):
    checkout.start("--nodes", "3", "--bucket", "travel:100:1", seconds=120)
    pid = checkout.status()["nodes"][0]["pid"]
    for node in ("1", "2"):
        checkout.run("kill", node)

    def claimed():
        try:
            return socket.create_server(("127.0.0.1", 8091 + checkout.offset + 200))
        except OSError:
            return None

    # A killed process keeps its port until it has ended.
    with wait_until(claimed, 10, "the killed node's port is free"):
        told = checkout.start(code=1)
    assert "Stopping what this command started: nodes 1, 2" in told
    assert checkout.processes() == [pid]
    assert [node["running"] for node in checkout.status()["nodes"]] == [True, False, False]
    checkout.start(seconds=120)
    assert [node["running"] for node in checkout.status()["nodes"]] == [True] * 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_start_that_is_interrupted_stops_the_nodes_that_it_started(checkout, number):
    checkout.hold_back(1)
    with checkout.launch("start", "--nodes", "2") as command:
        wait_until(lambda: len(checkout.processes()) == 2, 20)
        command.send_signal(number)
        told, _ = command.communicate(timeout=60)
    # By the signal, so that a script that called it ends, too.
    assert command.returncode == -number
    assert "Stopping what this command started: nodes 0, 1" in told
    assert checkout.processes() == []
    checkout.release()
    assert checkout.status()["nodes"] == []


def test_terminal_that_closes_leaves_a_cluster_that_was_started_from_it(checkout):
    terminal, screen = pty.openpty()

    def own_terminal():
        os.setsid()
        fcntl.ioctl(screen, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    # The shell of the terminal, which stays until the terminal closes.
    with subprocess.Popen(
        ["/bin/sh", "-c", f"{LAUNCHER} start --port-offset {checkout.offset}; echo done; cat"],
        env={**os.environ, "DIVAN_CHECKOUT": str(checkout.path)},
        stdin=screen,
        stdout=screen,
        stderr=screen,
        preexec_fn=own_terminal,
    ) as shell:
        os.close(screen)
        shown = b""
        while b"done" not in shown:
            shown += os.read(terminal, 1 << 16)
        pids = checkout.processes()
        os.close(terminal)
        assert shell.wait(20) == -signal.SIGHUP
    assert len(pids) == 1
    assert checkout.admin.get("/pools/default").status == 200
    assert checkout.processes() == pids


def test_start_that_fails_after_nodes_are_ready_names_the_running_nodes(checkout):
    told = checkout.start("--bucket", "small:50", code=1)
    assert "This command started node 0" in told and "cluster/stop" in told
    assert [node["running"] for node in checkout.status()["nodes"]] == [True]
    # A start that did not start nodes does not mention them.
    assert "This command started" not in checkout.start("--bucket", "small:50", code=1)


def test_wrong_password_is_reported(checkout):
    checkout.start()
    told = checkout.start(code=1, DIVAN_PASSWORD="not-the-one")
    assert "DIVAN_PASSWORD" in told
    # Also by the commands that send orders to the cluster.
    pids = checkout.processes()
    for command in (["add"], ["rebalance"], ["rebalance", "--stop"]):
        told = checkout.run(*command, code=1, DIVAN_PASSWORD="not-the-one")
        assert "refused user" in told and "DIVAN_PASSWORD" in told, command
        assert checkout.processes() == pids


def test_user_and_password_come_from_the_environment(checkout):
    login = {"DIVAN_USER": "chief", "DIVAN_PASSWORD": "secret-word"}
    told = checkout.start("--bucket", "one", **login)
    assert "secret-word" not in told
    admin = checkout.admin.as_user("chief", "secret-word")
    assert admin.get("/pools/default").status == 200
    checkout.run("status", "--json", **login)


@pytest.mark.parametrize("bucket", ["", ":100", "a:b", "a:100:x", "a:100:1:open", "a:1:1:1:1"])
def test_malformed_bucket_argument_is_refused(checkout, bucket):
    assert "NAME" in checkout.start("--bucket", bucket, code=64)


def test_refusal_of_the_server_is_printed_in_its_words(checkout):
    told = checkout.start("--bucket", "small:50", code=1)
    assert "small" in told and "100" in told


def test_start_with_tls_prints_how_an_sdk_connects(checkout):
    output = checkout.start("--bucket", "travel:100:0", "--tls")
    line = next(line for line in output.splitlines() if "with TLS" in line)
    place, file = line.split()[2], line.split()[-1]
    login = PasswordAuthenticator(USER, PASSWORD, cert_path=file)
    cluster = Cluster(place, ClusterOptions(login))
    cluster.wait_until_ready(datetime.timedelta(seconds=15))
    documents = cluster.bucket("travel").default_collection()
    documents.upsert("over-tls", {"number": 1})
    assert documents.get("over-tls").content_as[dict] == {"number": 1}
    cluster.close()
