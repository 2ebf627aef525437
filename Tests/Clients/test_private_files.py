"""No other user of the machine may read or change a file of a node, of its launcher, or of a dump."""

import os
import pathlib
import shlex
import stat
import subprocess
import tempfile

import pytest

from cluster import made
from rig.checkout import Checkout
from rig.node import SERVER, NotReady, wait_until
from rig.views import Views
from test_data_directory import UNPRIVILEGED

AS_ROOT = os.getuid() == 0


@pytest.fixture
def open_mask():
    """Files of the test's processes are readable and writable for all, unless a mode says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def place():
    """A directory that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="divan-place-") as path:
        os.chmod(path, 0o755)
        yield pathlib.Path(path)


def files(root):
    """A directory and all paths below it."""
    return [root, *sorted(root.rglob("*"))]


def open_paths(*roots):
    """The paths, with their modes, that are open to other users."""
    found = {}
    for root in roots:
        for path in files(root):
            try:
                status = path.lstat()
            except FileNotFoundError:
                # The node has deleted it since it was listed, for example the log of a closed index.
                continue
            if stat.S_ISLNK(status.st_mode):
                found[str(path)] = "link"
            elif stat.S_IMODE(status.st_mode) != (0o700 if stat.S_ISDIR(status.st_mode) else 0o600):
                found[str(path)] = oct(stat.S_IMODE(status.st_mode))
    return found


def readable_for_another_user(*roots):
    """The paths that another user of the machine can read; skips if there is no other user."""
    if not AS_ROOT:
        pytest.skip("NOT TESTED: only root can become another user")
    paths = [path for root in roots for path in files(root)]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # No program is started: that user may not be able to read the interpreter.
        found = []
        try:
            os.setgroups([])
            os.setgid(UNPRIVILEGED)
            os.setuid(UNPRIVILEGED)
            found = [str(path) for path in paths if is_readable(path)]
        finally:
            os.write(writer, "\n".join(found).encode() or b"none")
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return [] if text == "none" else text.split("\n")


def is_readable(path):
    """Whether this user may list a directory, or open a file."""
    try:
        if path.is_dir():
            os.listdir(path)
        else:
            open(path, "rb").close()
        return True
    except OSError:
        return False


def use_everything(node):
    """Uses each feature that writes files, on a node with a bucket for each of them."""
    node.create_bucket("kept").create_bucket("emptied").create_bucket("gone")
    node.create_bucket("full", evictionPolicy="fullEviction")
    for name in ("kept", "emptied", "gone", "full"):
        with node.connect(name) as connection:
            for number in range(300):
                assert connection.set(f"key-{number}".encode(), b'{"n":%d}' % number).status == 0
    assert node.admin.post("/pools/default/buckets/emptied/controller/doFlush").status == 200
    assert node.admin.delete("/pools/default/buckets/gone").status == 200
    views = Views(node, "kept")
    source = "function (doc, meta) { emit(doc.n, null); }"
    assert views.put("made", {"numbers": {"map": source, "reduce": "_sum"}}).status == 201
    assert len(views.query("made", "numbers", stale="false", reduce="false").rows) == 300
    bucket = "/pools/default/buckets/kept"
    assert node.admin.post(f"{bucket}/controller/compactBucket").status == 200
    assert (
        node.admin.post(f"{bucket}/ddocs/_design%2Fmade/controller/compactView").status == 200
    )
    form = {"password": "secret-of-app", "roles": "data_writer[kept]"}
    assert node.admin.put("/settings/rbac/users/local/app", form).status == 200
    assert node.admin.post("/logClientError", {"report": "a page reports"}).status == 200
    views.delete("made")


def test_every_file_of_a_node_is_private_whatever_the_mask(make_node, place, open_mask):
    data = place / "data"
    data.mkdir(mode=0o755)
    node = make_node("--memcached-port", "0", "--memcached-bucket", "kept", data=data)
    node.start().provision()
    use_everything(node)
    wait_until(lambda: list(data.rglob("*.sqlite-wal")), 10, "a WAL exists")
    assert open_paths(data) == {}
    seen = {path.name for path in files(data)}
    assert {"control.sqlite", "control.sqlite-wal", "control.sqlite-shm", "lock"} <= seen
    assert any("indexes" in path.parts for path in files(data))
    assert readable_for_another_user(data) == []
    # After a crash, what recovery and a dump of the directory make.
    node.kill()
    subprocess.run([str(SERVER), "--dump", str(data)], check=True, capture_output=True, timeout=60)
    assert open_paths(data) == {}
    node.start()
    with node.connect("kept") as connection:
        assert connection.set(b"again", b"1").status == 0
    assert open_paths(data) == {}
    assert node.stop() == 0
    assert open_paths(data) == {}


def test_every_file_is_private_on_a_node_that_joins_and_receives_vbuckets(start, open_mask):
    cluster = start(made, 2, ["moved"])
    with cluster[0].connect("moved") as connection:
        for number in range(100):
            connection.set(f"key-{number}".encode(), b"1")
    assert open_paths(cluster[0].data, cluster[1].data) == {}
    cluster.rebalance(eject=[1])
    assert open_paths(cluster[0].data, cluster[1].data) == {}


def test_files_of_a_restored_backup_are_tightened_at_the_start(make_node, place):
    data = place / "data"
    node = make_node(data=data).start().provision().create_bucket("kept")
    with node.connect("kept") as connection:
        assert connection.set(b"key", b"1").status == 0
    assert node.stop() == 0
    for path in files(data):
        path.chmod(0o755 if path.is_dir() else 0o644)
    if AS_ROOT:
        # The test can fail: it finds what is open.
        assert str(data / "control.sqlite") in readable_for_another_user(data)
    node.start()
    assert open_paths(data) == {}
    with node.connect("kept") as connection:
        assert connection.get(b"key").value == b"1"


def refusal(node):
    with pytest.raises(NotReady) as refused:
        node.start()
    assert refused.value.code > 0
    return refused.value.log


@pytest.mark.parametrize("below", [".", "buckets"])
@pytest.mark.parametrize("mode", [0o775, 0o777, 0o1777])
def test_directory_that_others_may_write_is_refused_until_the_command_ran(
    make_node, place, below, mode
):
    data = place / "data"
    node = make_node(data=data).start().provision().create_bucket("kept")
    assert node.stop() == 0
    (data / below).chmod(mode)
    log = refusal(node)
    command = f"chmod -R go-rwx {data}"
    assert f"other users may write the directory {data}" in log and command in log
    assert stat.S_IMODE((data / below).stat().st_mode) == mode
    subprocess.run(shlex.split(command), check=True)
    node.start()
    assert open_paths(data) == {}


def test_directory_of_another_user_is_refused_until_the_command_ran(make_node, place):
    if not AS_ROOT:
        pytest.skip("NOT TESTED: only root can give a directory to another user")
    data = place / "data"
    node = make_node(data=data).start().provision().create_bucket("kept")
    assert node.stop() == 0
    for path in files(data):
        os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
    log = refusal(node)
    command = f"chown -R 0 {data}"
    assert f"{data} belongs to user {UNPRIVILEGED}" in log and command in log
    subprocess.run(shlex.split(command), check=True)
    assert node.start().is_running


def test_every_file_of_the_launcher_is_private_whatever_the_mask(tmp_path, open_mask):
    checkout = Checkout(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    try:
        checkout.start("--nodes", "2", "--bucket", "one")
        memory = checkout.path / ".divan"
        assert {"cluster.json", "lock", "cluster"} <= {path.name for path in memory.iterdir()}
        assert (memory / "cluster/node-0.log").exists()
        assert (memory / "cluster/node-0.ready").exists()
        assert open_paths(memory) == {}
        checkout.run("stop")
        # Those of earlier commands, made with other modes.
        for path in files(memory):
            path.chmod(0o755 if path.is_dir() else 0o644)
        checkout.start()
        assert open_paths(memory) == {}
        checkout.run("stop")
        checkout.start("--dir", str(elsewhere))
        assert open_paths(elsewhere, memory) == {}
    finally:
        checkout.run("stop", "--patience", "10")


def test_launcher_refuses_a_directory_that_others_may_write(tmp_path):
    checkout = Checkout(tmp_path)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    told = checkout.start("--dir", str(shared), code=1)
    assert f"chmod -R go-rwx {shared}" in told
    assert list(shared.iterdir()) == [] and checkout.processes() == []
