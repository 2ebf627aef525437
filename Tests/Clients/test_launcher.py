"""The launcher: start, status, kill, logs, stop, as typed in a shell."""

import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rig import rest
from rig.node import PASSWORD, ROOT, SERVER, USER, wait_until
from rig.wire import Connection, Status

LAUNCHER = ROOT / ".build/release/divan-cluster"


def free_offset():
    """An offset at which the ports of three nodes are free."""
    for offset in range(1_000, 40_000, 337):
        try:
            for node in range(3):
                for port in (11210, 8091, 8092, 21100):
                    with socket.create_server(("127.0.0.1", port + offset + 100 * node)):
                        pass
            return offset
        except OSError:
            continue
    raise LookupError("no free ports")


def read_all(terminal):
    """Reads until the last writer has closed it."""
    parts = []
    while True:
        try:
            parts.append(os.read(terminal, 1 << 16))
        except OSError:
            return b"".join(parts).decode()


class Checkout:
    """A checkout of its own for the launcher, with the server that was built."""

    def __init__(self, path):
        self.path = path
        programs = path / ".build/release"
        programs.mkdir(parents=True)
        (programs / "divan-server").symlink_to(SERVER)
        (programs / "divan-bench").symlink_to(LAUNCHER.with_name("divan-bench"))
        (path / "benchmarks").symlink_to(ROOT / "benchmarks")
        self.offset = free_offset()

    def run(self, *arguments, code=0, seconds=60, **environment):
        result = subprocess.run(
            [str(LAUNCHER), *arguments],
            env={**os.environ, "DIVAN_CHECKOUT": str(self.path), **environment},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert result.returncode == code, result.stdout + result.stderr
        return result.stdout + result.stderr

    def watch(self, *arguments, columns=80, seconds=120):
        """The output of a command, and its progress on a terminal."""
        terminal, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        with ThreadPoolExecutor(1) as pool:
            try:
                shown = pool.submit(read_all, terminal)
                result = subprocess.run(
                    [str(LAUNCHER), *arguments],
                    env={**os.environ, "DIVAN_CHECKOUT": str(self.path)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=screen,
                    text=True,
                    timeout=seconds,
                    check=False,
                )
            finally:
                # No other process has it open: the reader gets to its end.
                os.close(screen)
            text = shown.result()
        os.close(terminal)
        assert result.returncode == 0, result.stdout + text
        return result.stdout, text

    def launch(self, *arguments):
        """A command in the background of the test; a terminal may interrupt it."""
        return subprocess.Popen(
            [str(LAUNCHER), *arguments, "--port-offset", str(self.offset)],
            env={**os.environ, "DIVAN_CHECKOUT": str(self.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )

    def hold_back(self, node):
        """Replaces a node's server with one that never becomes ready."""
        program = self.path / ".build/release/divan-server"
        program.unlink()
        program.write_text(
            f"#!/bin/sh\ncase \"$*\" in *node-{node}*) while :; do sleep 1; done ;; esac\n"
            f'exec {SERVER} "$@"\n'
        )
        program.chmod(0o755)

    def release(self):
        program = self.path / ".build/release/divan-server"
        program.unlink()
        program.symlink_to(SERVER)

    def processes(self):
        """The numbers of the processes that serve nodes of this checkout, dead ones not counted."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--data" in words and any(str(self.path).encode() in word for word in words):
                found.append(int(path.name))
        return sorted(found)

    def start(self, *arguments, **options):
        return self.run("start", "--port-offset", str(self.offset), *arguments, **options)

    def status(self):
        return json.loads(self.run("status", "--json"))

    @property
    def admin(self):
        return rest.Rest(8091 + self.offset, (USER, PASSWORD))


@pytest.fixture
def checkout(tmp_path):
    assert LAUNCHER.exists(), f"{LAUNCHER} is not built: run make build"
    checkout = Checkout(tmp_path)
    yield checkout
    checkout.run("stop", "--patience", "10")


def test_a_new_checkout_is_built_with_every_program_that_its_nodes_start(tmp_path):
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
    assert "already" in told
    found = checkout.status()
    assert found["nodes"][0]["pid"] == first
    assert {bucket["name"] for bucket in found["buckets"]} == {"one", "two"}


def test_a_killed_node_is_down_and_start_brings_it_back(checkout):
    checkout.start("--bucket", "one")
    pid = checkout.status()["nodes"][0]["pid"]
    checkout.run("kill", "0")
    assert checkout.status()["nodes"][0]["running"] is False
    assert "does not run" in checkout.run("kill", "0", code=1)
    checkout.start()
    node = checkout.status()["nodes"][0]
    assert node["running"] is True and node["pid"] != pid


def test_a_process_that_only_has_the_number_is_left_alone(checkout):
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


def test_two_nodes_become_one_cluster_and_a_third_joins_and_leaves(checkout):
    checkout.start("--nodes", "2", "--bucket", "travel:100:1")
    status = checkout.status()
    assert [node["running"] for node in status["nodes"]] == [True, True]
    assert all(bucket["healthy"] for bucket in status["buckets"])
    assert "Node 2 was added" in checkout.run("add", seconds=120)
    assert len(checkout.status()["nodes"]) == 3
    assert "Node 2 left" in checkout.run("remove", "2", seconds=120)
    assert len(checkout.status()["nodes"]) == 2


def test_a_rebalance_is_stopped_beside_the_command_that_waits_for_it(checkout):
    """A node that did not leave still runs."""
    checkout.start("--nodes", "2", "--bucket", "travel:100:1", seconds=120)
    reply = checkout.admin.post("/settings/rebalance", {"rebalanceMovesPerNode": 1})
    assert reply.status == 200
    with ThreadPoolExecutor(1) as pool:
        removal = pool.submit(checkout.run, "remove", "1", code=1, seconds=120)
        wait_until(lambda: is_rebalancing(checkout), 30)
        assert "was stopped" in checkout.run("rebalance", "--stop")
        told = removal.result()
    assert "before node 1 had left" in told and "cluster/remove 1" in told
    assert [node["running"] for node in checkout.status()["nodes"]] == [True, True]
    assert memberships(checkout) == ["active", "active"]


def test_a_node_is_failed_over_gracefully_unless_it_is_to_be_done_at_once(checkout):
    """A node that is down hands over nothing. A rebalance adds it back, with progress on a
    terminal."""
    checkout.start("--nodes", "3", "--bucket", "travel:100:1", seconds=120)
    admin = checkout.admin
    assert admin.post("/settings/autoFailover", {"enabled": "false"}).status == 200
    checkout.run("kill", "2")
    assert "Node 2 is failed over" in checkout.run("failover", "2", "--hard")
    assert memberships(checkout) == ["active", "active", "inactiveFailed"]
    *_, line = [line for line in checkout.run("status").splitlines() if line.startswith("node")]
    assert line == "node 2   down   failed over; the next rebalance removes it"
    assert "A rebalance is needed: cluster/rebalance" in checkout.run("status")
    assert checkout.status()["needsRebalance"] is True
    checkout.start(seconds=120)
    recover(checkout, 2)
    assert "failed over; the next rebalance adds it back" in checkout.run("status")
    assert checkout.status()["nodes"][2]["recoveryType"] == "delta"
    told, shown = checkout.watch("rebalance", columns=40)
    assert told == "Balanced.\n" and memberships(checkout) == ["active"] * 3
    assert checkout.status()["needsRebalance"] is False
    assert "rebalance" not in checkout.run("status")
    # Each line in the place of the one before, as long as it fits; the last one is wiped away.
    first, *lines, last = shown.split("\r\x1b[K")
    assert first == last == "" and lines, shown
    assert all(len(line) < 40 for line in lines), shown
    shares = [int(re.match(r"Rebalancing: (\d+) %", line)[1]) for line in lines]
    assert shares == sorted(shares) and shares[-1] <= 100, shown

    path = "/pools/default/buckets/travel/docs/note"
    assert admin.post(path, {"value": '{"kept":true}'}).status == 200
    told = checkout.run("failover", "1", seconds=120)
    assert told == "Node 1 is failed over.\n"
    assert memberships(checkout) == ["active", "inactiveFailed", "active"]
    wait_until(lambda: "The graceful failover is complete" in admin.get("/logs").text, 10)
    assert admin.get(path).json["json"] == '{"kept":true}'


def recover(checkout, node):
    """Orders the recovery of a node with its copies."""
    port = str(checkout.status()["nodes"][node]["admin"])
    nodes = checkout.admin.get("/pools/default").json["nodes"]
    (name,) = [one["otpNode"] for one in nodes if one["hostname"].endswith(f":{port}")]
    form = {"otpNode": name, "recoveryType": "delta"}
    assert checkout.admin.post("/controller/setRecoveryType", form).status == 200


def is_rebalancing(checkout):
    tasks = checkout.admin.get("/pools/default/tasks").json
    return any(task["type"] == "rebalance" and task["status"] == "running" for task in tasks)


def memberships(checkout):
    return [node.get("membership") for node in checkout.status()["nodes"]]


@pytest.mark.parametrize("is_down", [False, True], ids=["back before", "down"])
def test_a_cluster_whose_first_node_was_failed_over_goes_on_and_takes_it_back(checkout, is_down):
    """Whether it runs again before the rebalance that removes it, or learns of it later."""
    checkout.start("--nodes", "3", "--bucket", "travel:100:1", seconds=120)
    path = "/pools/default/buckets/travel/docs/note"
    assert checkout.admin.post(path, {"value": '{"kept":true}'}).status == 200
    checkout.run("kill", "0")
    assert checkout.status()["nodes"][0]["running"] is False
    wait_until(lambda: memberships(checkout)[0] == "inactiveFailed", 30)
    if not is_down:
        told = checkout.start(seconds=120)
        assert "Node 0 was failed over" in told
        assert memberships(checkout) == ["inactiveFailed", "active", "active"]
        assert "failed over" in checkout.run("status")
    assert "Node 0 was removed" in checkout.run("rebalance", seconds=120)
    assert memberships(checkout)[0] is None
    assert [bucket["healthy"] for bucket in checkout.status()["buckets"]] == [True]
    checkout.start(seconds=120)
    assert memberships(checkout) == ["active"] * 3
    assert [bucket["name"] for bucket in checkout.status()["buckets"]] == ["travel"]
    assert checkout.admin.get(path).json["json"] == '{"kept":true}'


def test_more_nodes_than_there_are_come_by_another_command(checkout):
    checkout.start("--bucket", "one")
    assert "cluster/add" in checkout.start("--nodes", "3")
    assert len(checkout.status()["nodes"]) == 1


def test_a_named_directory_is_remembered(checkout, tmp_path_factory):
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


def test_start_that_fails_once_nodes_are_ready_says_that_they_run_on(checkout):
    told = checkout.start("--bucket", "small:50", code=1)
    assert "This command started node 0" in told and "cluster/stop" in told
    assert [node["running"] for node in checkout.status()["nodes"]] == [True]
    # A start that did not start nodes does not mention them.
    assert "This command started" not in checkout.start("--bucket", "small:50", code=1)


def test_add_that_fails_leaves_no_node_behind(checkout):
    checkout.start()
    pids = checkout.processes()
    with socket.create_server(("127.0.0.1", 8091 + checkout.offset + 100)):
        assert "Stopping what this command started: node 1" in checkout.run("add", code=1)
    assert checkout.processes() == pids
    assert len(checkout.status()["nodes"]) == 1
    assert "Node 1 was added" in checkout.run("add", seconds=120)


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


def test_the_demo_loads_measures_and_leaves_it_running(checkout):
    if not pathlib.Path("/usr/share/iso-codes/json/iso_3166-1.json").exists():
        pytest.fail("iso-codes is missing: make deps installs it")
    for _ in range(2):
        told = checkout.run("demo", "--seconds", "1", "--port-offset", str(checkout.offset))
        assert "no password needed" in told and "couchbase://127.0.0.1:" in told
        # The driver's table, with what its reads and writes took.
        assert re.search(r"[0-9 ]+ ops/s in 1\.\d s", told), told
        assert re.search(r"^  GET +[0-9. ]+$", told, re.M), told
        assert re.search(r"^  SET +[0-9. ]+$", told, re.M), told
        # It shows its progress, and measures the processor time of that node.
        assert "measuring" in told and re.search(r"server +\d+ ns CPU/op", told), told
    path = "/pools/default/buckets/demo/docs/country%3A%3AFR"
    assert json.loads(checkout.admin.get(path).json["json"])["name"] == "France"
    # Three nodes by default, and each document twice.
    assert memberships(checkout) == ["active"] * 3
    assert checkout.admin.get("/pools/default/buckets/demo").json["replicaNumber"] == 1


def test_the_demo_follows_vbuckets_that_move_meanwhile(checkout):
    """Neither the loader nor the load test gets errors for moved vBuckets."""
    place = ("--port-offset", str(checkout.offset))
    told = checkout.run("demo", "--nodes", "3", "--seconds", "0.2", *place)
    assert "through the client library" in told
    reply = checkout.admin.post("/settings/rebalance", {"rebalanceMovesPerNode": 1})
    assert reply.status == 200
    nodes = checkout.admin.get("/pools/default").json["nodes"]
    with ThreadPoolExecutor(1) as pool:
        demo = pool.submit(checkout.run, "demo", "--seconds", "3", *place)
        # Not through the launcher, whose commands wait for each other.
        reply = checkout.admin.post(
            "/controller/startGracefulFailover", {"otpNode": nodes[2]["otpNode"]}
        )
        assert reply.status == 200, reply
        seen = 0
        while not demo.done():
            seen += is_rebalancing(checkout)
            time.sleep(0.05)
        told = demo.result()
    assert seen > 0
    # Any other result than hits, misses and stored documents has a line of its own.
    assert not re.search(r"^  [0-9 ]+ (x|answers|values) ", told, re.M), told
    assert re.search(r"^  [0-9 ]+ hits, 0 misses, [0-9 ]+ stored$", told, re.M), told
    wait_until(lambda: memberships(checkout)[2] == "inactiveFailed", 60)
    items = checkout.admin.get("/pools/default/buckets/demo").json["basicStats"]["itemCount"]
    assert items > 80_000
