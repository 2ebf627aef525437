"""Messages of a server about its directory and its ports, for the operator."""

import os
import pathlib
import socket
import sqlite3
import tempfile

import pytest

from rig.node import Node, NotReady

UNPRIVILEGED = 65_534
AS_ROOT = os.getuid() == 0


@pytest.fixture
def place():
    """A directory that another user may enter."""
    with tempfile.TemporaryDirectory(prefix="divan-place-") as path:
        os.chmod(path, 0o755)
        yield pathlib.Path(path)


def refusal(node, **options):
    """Starts a node that must not start, and returns its log."""
    with pytest.raises(NotReady) as refused:
        node.start(**options)
    assert refused.value.code not in (0, None), "it did not end"
    assert refused.value.code > 0, f"it crashed with signal {-refused.value.code}"
    return refused.value.log


def as_unprivileged(node):
    if not AS_ROOT:
        pytest.skip("NOT TESTED: only root can become another user")
    return refusal(node, user=UNPRIVILEGED)


# The directory


def test_missing_directory_is_created(make_node, place):
    data = place / "new" / "data"
    node = make_node(data=data).start().provision()
    assert data.is_dir()
    assert node.stop() == 0


def test_directory_that_cannot_be_created_is_refused_by_name(make_node, place):
    (place / "file").write_text("not a directory")
    log = refusal(make_node(data=place / "file" / "data"))
    assert str(place / "file") in log


def test_file_in_place_of_the_data_directory_is_refused(make_node, place):
    (place / "file").write_text("not a directory")
    log = refusal(make_node(data=place / "file"))
    assert str(place / "file") in log
    assert (place / "file").read_text() == "not a directory"


def test_directory_below_an_unwritable_one_is_reported(make_node, place):
    node = make_node(data=place / "data")
    log = as_unprivileged(node)
    assert str(place / "data") in log
    assert "denied" in log.lower() or "permission" in log.lower()


def test_private_directory_of_another_user_is_refused_by_name(make_node, place):
    data = place / "data"
    node = make_node(data=data).start().provision()
    node.stop()
    os.chmod(data, 0o700)
    log = as_unprivileged(node)
    assert str(data) in log
    assert "denied" in log.lower() or "permission" in log.lower()


def test_unwritable_directory_is_refused_with_the_command(make_node, place):
    data = place / "data"
    data.mkdir(mode=0o755)
    log = as_unprivileged(make_node(data=data))
    assert str(data) in log
    assert "belongs to user 0" in log and "chown" in log


def test_data_directory_of_an_unprivileged_user_is_accepted(make_node, place):
    if not AS_ROOT:
        pytest.skip("NOT TESTED: only root can become another user")
    data = place / "data"
    data.mkdir()
    os.chown(data, UNPRIVILEGED, UNPRIVILEGED)
    node = make_node(data=data).start(user=UNPRIVILEGED).provision().create_bucket("mine")
    assert node.stop() == 0


def test_foreign_directory_is_recognised_and_not_changed(make_node, place):
    (place / "thesis.txt").write_text("twenty years of work")
    (place / "pictures").mkdir()
    log = refusal(make_node(data=place))
    assert str(place) in log
    assert "denied" not in log.lower()
    assert sorted(path.name for path in place.iterdir()) == ["pictures", "thesis.txt"]


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_buckets_without_the_state_of_their_node_are_not_changed(make_node, place, how):
    data = place / "data"
    node = make_node(data=data).start().provision().create_bucket("kept")
    with node.connect("kept") as connection:
        assert connection.set(b"key", b"1").status == 0
    assert node.stop() == 0
    saved = place / "saved"
    saved.mkdir()
    for path in list(data.glob("control.sqlite*")):
        path.rename(saved / path.name)
    if how == "empty":
        (data / "control.sqlite").touch()
    files = sorted(str(path) for path in (data / "buckets").rglob("*"))
    assert files
    # Also the second time, when a file of that name exists.
    for _ in range(2):
        log = refusal(make_node(data=data))
        assert "control.sqlite is missing" in log and "buckets" in log and "backup" in log
        assert sorted(str(path) for path in (data / "buckets").rglob("*")) == files
    for path in data.glob("control.sqlite*"):
        path.unlink()
    for path in saved.iterdir():
        path.rename(data / path.name)
    back = make_node(data=data).start()
    with back.connect("kept") as connection:
        assert connection.get(b"key").value == b"1"


def test_second_server_on_the_same_directory_is_refused(make_node, place):
    first = make_node(data=place / "data").start().provision().create_bucket("kept")
    log = refusal(make_node(data=place / "data"))
    assert str(place / "data") in log
    assert "another" in log.lower() or "in use" in log.lower() or "already" in log.lower()
    with first.connect("kept") as connection:
        assert connection.set(b"key", b"1").status == 0


def test_after_a_kill_the_directory_is_free_again(make_node, place):
    first = make_node(data=place / "data").start().provision()
    first.kill()
    assert make_node(data=place / "data").start().is_running


def test_file_of_a_later_format_version_is_refused_by_name(make_node, place):
    node = make_node(data=place / "data").start().provision().create_bucket("kept")
    with node.connect("kept") as connection:
        connection.set(b"key", b"1")
    node.stop()
    victim = node.database_files()[0]
    with sqlite3.connect(victim) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        database.execute(f"PRAGMA user_version = {version + 1000}")
    database.close()
    try:
        node.start()
    except NotReady:
        pass
    log = node.log()
    assert victim.name in log
    assert str(version + 1000) in log
    # Refused, not "repaired".
    with sqlite3.connect(f"file:{victim}?mode=ro", uri=True) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (version + 1000,)
    database.close()


# The ports


def names_port(log, port):
    """Whether it names the port that it could not open, and that another process has it."""
    return str(port) in log and ("in use" in log.lower() or "another process" in log.lower())


@pytest.mark.parametrize("flag", ["--kv-port", "--admin-port"])
def test_port_in_use_is_named(make_node, flag):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        log = refusal(make_node(flag, str(port)))
    assert names_port(log, port)


@pytest.mark.parametrize("flag,key", [("--kv-port", "kv_port"), ("--admin-port", "admin_port")])
def test_second_server_does_not_share_a_port(make_node, flag, key):
    """With SO_REUSEPORT both would listen, and half of the connections reach the wrong one."""
    first = make_node().start().provision()
    port = getattr(first, key)
    log = refusal(make_node(flag, str(port)))
    assert names_port(log, port)


def test_port_is_free_again_after_a_kill(make_node):
    with Node() as first:
        first.start().provision().create_bucket("kept")
        ports = first.kv_port, first.admin_port
        connection = first.connect("kept")
        first.kill()
        connection.close()
    flags = ["--kv-port", str(ports[0]), "--admin-port", str(ports[1])]
    assert (make_node(*flags).start().kv_port, ports[1]) == ports


def test_listen_address_of_another_machine_is_refused_by_name(make_node):
    log = refusal(make_node("--bind", "192.0.2.1"))
    assert "192.0.2.1" in log
