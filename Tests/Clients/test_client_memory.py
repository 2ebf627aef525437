"""The memory for input, replies and requests of all clients together is bounded."""

import concurrent.futures
import contextlib
import socket
import time

import pytest

from rig.node import wait_until
from rig.wire import Op, Status, frame, vbucket_of

MIB = 1 << 20
STALLED = 60
SIZE = 19 * MIB
BOUND = 64 * MIB
# Heap that is not returned, the kernel's rounding, one reply or read of each reactor.
SLACK = 96 * MIB
TIMEOUT_SECONDS = 30


def set_request(key, size):
    return frame(Op.SET, key, bytes(8), bytes(size), vbucket=vbucket_of(key))


def memory_stats(connection):
    return {name: int(value) for name, value in connection.stat("memory").items()}


def send_what_is_taken(connection, data):
    """Sends until the node stops reading for a while; returns the number of bytes sent."""
    connection.socket.settimeout(0.2)
    sent = 0
    try:
        while sent < len(data):
            sent += connection.socket.send(memoryview(data)[sent:])
    except socket.timeout:
        pass
    connection.socket.settimeout(TIMEOUT_SECONDS + 30)
    return sent


@pytest.fixture
def small(make_node):
    """A node with 64 MiB for clients, and a bucket."""
    return make_node("--client-memory", "64").start().provision().create_bucket("travel")


def test_stalled_large_sets_are_bounded_and_closed_while_others_are_served(small):
    node = small
    large = set_request(b"large", SIZE)
    with contextlib.ExitStack() as stack:
        witness = stack.enter_context(node.connect("travel"))
        assert witness.set(b"witness", b"unharmed").status == Status.SUCCESS
        # It uses no more than its own 64 KiB, so it may stall without a time limit.
        idle = stack.enter_context(node.connect("travel"))
        request = set_request(b"idle", 60_000)
        idle.send(request[:-1])
        clients = [stack.enter_context(node.connect("travel")) for _ in range(STALLED)]
        before = peak = node.resident_anonymous_bytes()
        sent = []
        began = time.monotonic()
        for client in clients:
            sent.append(send_what_is_taken(client, large[:-1]))
            assert witness.get(b"witness").value == b"unharmed"
            peak = max(peak, node.resident_anonymous_bytes())
        assert peak - before < BOUND + SLACK
        stats = memory_stats(witness)
        assert 0 < stats["client_receive_bytes"] <= stats["client_receive_bytes_max"] == BOUND
        assert stats["client_receive_waiting"] == STALLED - 3

        # The three clients that hold all memory make no progress: the next three get it.
        for client in clients[:3]:
            assert client.is_closed_by_server()
        assert TIMEOUT_SECONDS - 1 < time.monotonic() - began < TIMEOUT_SECONDS + 30
        assert wait_until(lambda: memory_stats(witness)["client_receive_waiting"] == STALLED - 6)
        assert witness.set(b"witness", b"still unharmed").status == Status.SUCCESS
        assert node.resident_anonymous_bytes() - before < BOUND + SLACK

        # A client that waited for memory finishes its request when it is its turn.
        last = clients.pop()
        for client in clients:
            client.close()
        last.send(large[sent[-1] :])
        assert last.receive().status == Status.SUCCESS
        idle.send(request[-1:])
        assert idle.receive().status == Status.SUCCESS
        assert wait_until(lambda: memory_stats(witness)["client_receive_bytes"] == 0, 30)


def test_more_large_sets_than_fit_all_succeed(small):
    """Each client waits in order, and none is closed for waiting."""

    def store(number):
        with small.connect("travel") as connection:
            connection.socket.settimeout(120)
            key = b"large-%d" % (number % 3)
            return connection.set(key, bytes(SIZE)).status

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(store, range(20)))
    # A write may be retried for the bucket's quota, but not for input memory.
    assert set(statuses) <= {Status.SUCCESS, Status.TEMPORARY}
    assert Status.SUCCESS in statuses
    with small.connect("travel") as witness:
        stats = memory_stats(witness)
        assert stats["client_receive_bytes"] == stats["client_receive_waiting"] == 0


def test_slow_sender_that_makes_progress_succeeds(small):
    with small.connect("travel") as slow, small.connect("travel") as witness:
        request = set_request(b"slow", 2 * MIB)
        piece = len(request) // 40 + 1
        began = time.monotonic()
        for start in range(0, len(request), piece):
            slow.send(request[start : start + piece])
            assert witness.call(Op.NOOP).status == Status.SUCCESS
            time.sleep(0.9)
        assert time.monotonic() - began > TIMEOUT_SECONDS + 2
        assert slow.receive().status == Status.SUCCESS


def test_clients_that_read_no_replies_are_bounded_together(small):
    """Sixty clients ask for 19 MiB each and read nothing."""
    node = small
    with contextlib.ExitStack() as stack:
        witness = stack.enter_context(node.connect("travel"))
        witness.socket.settimeout(60)
        assert witness.set(b"large", bytes(SIZE)).status == Status.SUCCESS
        assert witness.set(b"witness", b"unharmed").status == Status.SUCCESS
        before = node.resident_anonymous_bytes()
        request = frame(Op.GET, b"large", vbucket=vbucket_of(b"large"))
        peak = 0
        for _ in range(STALLED):
            client = stack.enter_context(node.connect("travel"))
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.send(request)
            assert witness.get(b"witness").value == b"unharmed"
            peak = max(peak, node.resident_anonymous_bytes())
        time.sleep(1)
        peak = max(peak, node.resident_anonymous_bytes())
        assert peak - before < BOUND + SLACK
        stats = memory_stats(witness)
        assert stats["client_reply_bytes"] >= stats["client_reply_bytes_max"]
        # Large documents wait until the other clients have closed; small ones do not.
        assert witness.get(b"large").status == Status.TEMPORARY
        stack.pop_all().close()
    with node.connect("travel") as witness:
        assert wait_until(lambda: memory_stats(witness)["client_reply_bytes"] == 0, 30) is True
        assert len(witness.get(b"large").value) == SIZE
