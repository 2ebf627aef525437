"""Notifications to the service manager (systemd, `Type=notify`): that a node serves, works, and stops."""

import contextlib
import ctypes
import os
import pathlib
import socket
import time

import pytest

from rig.node import LIBC, wait_until

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WATCHDOG_SECONDS = 0.3


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path, monkeypatch):
    """The socket of a service manager, whose children find it in their environment."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        if request.param == "path":
            name = str(tmp_path / "notify")
            manager.bind(name)
        else:
            name = f"@divan-test-{os.getpid()}"
            manager.bind("\0" + name[1:])
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        manager.settimeout(20)
        yield manager


@pytest.fixture
def watched(manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", str(int(WATCHDOG_SECONDS * 1e6)))
    return manager


def received(manager):
    return manager.recv(4096).decode()


def alive_within(manager, seconds):
    """The number of reports within a time, after those that wait already."""
    manager.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            manager.recv(4096)
    manager.setblocking(True)
    count, end = 0, time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        manager.settimeout(left)
        try:
            assert received(manager) == "WATCHDOG=1"
            count += 1
        except TimeoutError:
            break
    return count


def test_node_reports_that_it_serves_and_that_it_stops(make_node, manager):
    node = make_node().start()
    assert received(manager) == "READY=1"
    assert node.anonymous.get("/pools").status == 200
    # Without a watchdog there is nothing more to report.
    manager.settimeout(0.5)
    with pytest.raises(TimeoutError):
        received(manager)
    manager.settimeout(20)
    assert node.stop() == 0
    assert received(manager) == "STOPPING=1"


def test_node_reports_that_it_works_until_it_has_stopped(make_node, watched):
    node = make_node().start().provision()
    assert received(watched) == "READY=1"
    # Several in each time of the watchdog, so that a late one does no harm.
    assert alive_within(watched, 5 * WATCHDOG_SECONDS) >= 5
    assert node.stop() == 0
    watched.settimeout(0.5)
    rest = []
    with contextlib.suppress(TimeoutError):
        while True:
            rest.append(received(watched))
    assert rest.count("STOPPING=1") == 1 and set(rest) <= {"STOPPING=1", "WATCHDOG=1"}


def test_watchdog_of_another_process_is_not_answered(make_node, watched, monkeypatch):
    """systemd sets the number of the process that has to report; a wrapper may have started this one."""
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    make_node().start()
    assert received(watched) == "READY=1"
    assert alive_within(watched, 3 * WATCHDOG_SECONDS) == 0


@contextlib.contextmanager
def standing_still(pid, name):
    """One thread of a process is stopped; the others run on."""
    tasks = pathlib.Path(f"/proc/{pid}/task")
    (task,) = [int(one.name) for one in tasks.iterdir() if (one / "comm").read_text() == f"{name}\n"]
    LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if LIBC.ptrace(PTRACE_SEIZE, task, None, None) != 0:
        pytest.skip("NOT TESTED: the kernel does not let this process stop a thread")
    assert LIBC.ptrace(PTRACE_INTERRUPT, task, None, None) == 0
    # __WALL: the thread is no child of this process.
    assert os.waitpid(task, 0x40000000)[0] == task
    yield
    assert LIBC.ptrace(PTRACE_DETACH, task, None, None) == 0


@pytest.mark.parametrize("name", ["control", "reactor 0"])
@pytest.mark.parametrize("manager", ["path"], indirect=True)
def test_node_with_a_thread_that_stands_still_does_not_report_that_it_works(
    make_node, watched, name
):
    node = make_node("--reactors", "2").start().provision()
    assert alive_within(watched, 3 * WATCHDOG_SECONDS) > 0
    with standing_still(node.process.pid, name):
        # A report may have been on its way.
        time.sleep(WATCHDOG_SECONDS)
        assert alive_within(watched, 5 * WATCHDOG_SECONDS) == 0
    wait_until(lambda: alive_within(watched, WATCHDOG_SECONDS) > 0, 10, "the node reports again")


def test_socket_without_a_manager_does_no_harm(make_node, tmp_path, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nothing"))
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    node = make_node().start()
    assert node.anonymous.get("/pools").status == 200
    assert node.stop() == 0
