"""What clients without a login may use, on all ports where clients log in (docs/operations.md)."""

import base64
import contextlib
import json
import resource
import socket
import time

import pytest

from rig.node import PASSWORD, USER, Node, wait_until
from rig.wire import Connection, Op, Status, frame

PORTS = ["kv", "admin", "views"]
# Addresses of strangers: the rig itself uses 127.0.0.1.
STRANGER = "127.0.0.2"


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node.start().provision().create_bucket("b")


def number_of(node, port):
    views = int(node.flag("--views-port"))
    return {"kv": node.kv_port, "admin": node.admin_port, "views": views}[port]


def connect(node, port, host=STRANGER):
    return socket.create_connection(
        (node.host, number_of(node, port)), timeout=30, source_address=(host, 0)
    )


def half_login(port):
    """The first part of a request, without its end."""
    if port == "kv":
        return frame(Op.SASL_AUTH, b"PLAIN", value=b"x" * 3_000)[:2_000]
    return b"GET /pools HTTP/1.1\r\nHost: a\r\nX-Filler: " + b"x" * 2_000


def is_closed(connection):
    """Whether the node has closed a connection on which it has sent nothing."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def read_time(node):
    start = time.monotonic()
    assert node.admin.get("/pools/default/buckets/b/docs/k").status in (200, 404)
    return time.monotonic() - start


@pytest.mark.parametrize("port", PORTS)
def test_connections_without_a_login_are_bounded_and_end_after_15_seconds(node, port):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4_096), hard))
    with contextlib.ExitStack() as stack:
        begun = time.monotonic()
        few = [stack.enter_context(connect(node, port, "127.0.0.3")) for _ in range(3)]
        many = [stack.enter_context(connect(node, port)) for _ in range(1_200)]
        for each in few + many[-100:]:
            each.sendall(half_login(port))
        wait_until(lambda: sum(map(is_closed, many)) >= 1_200 - 1_024)
        # The oldest of the address with the most of them; another address keeps its own.
        if time.monotonic() - begun < 13:
            assert is_closed(many[0]) and not is_closed(many[-1])
            assert not any(map(is_closed, few))
        assert read_time(node) < 5
        wait_until(lambda: all(map(is_closed, few + many)), seconds=25)
        assert time.monotonic() - begun > 14
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def refuse_on_data_port(node):
    """Sends wrong logins until the node closes; returns how many it answered."""
    count = 0
    with Connection(node.kv_port, source=STRANGER) as connection:
        for number in range(20):
            reply = connection.plain(USER, f"guess {number}")
            assert reply.status == Status.AUTH_ERROR
            count += 1
            if count == 5:
                assert connection.is_closed_by_server()
                return count
    return count


def refuse_over_http(node, port):
    path = "/pools/default" if port == "admin" else "/b/_design/d"
    with connect(node, port) as connection:
        stream = connection.makefile("rb")
        for number in range(20):
            login = base64.b64encode(f"{USER}:guess {number}".encode()).decode()
            connection.sendall(
                f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {login}\r\n\r\n".encode()
            )
            assert b" 401 " in stream.readline()
            headers = {}
            for line in iter(stream.readline, b"\r\n"):
                name, value = line.decode().split(":", 1)
                headers[name.lower()] = value.strip()
            stream.read(int(headers.get("content-length", 0)))
            if headers.get("connection") == "close":
                assert stream.read() == b""
                return number + 1
    return 20


@pytest.mark.parametrize("port", PORTS)
def test_fifth_refused_login_closes_the_connection(node, port):
    answered = refuse_on_data_port(node) if port == "kv" else refuse_over_http(node, port)
    assert answered == 5


def test_refused_logins_are_logged_once_a_second_with_user_and_address(make_node):
    node = make_node().start().provision()
    begun = time.monotonic()
    for _ in range(4):
        refuse_on_data_port(node)
    lines = [line for line in node.log().splitlines() if "refused a login as" in line]
    assert 1 <= len(lines) <= 2 + time.monotonic() - begun
    assert f'"{USER}" from {STRANGER}' in lines[0]


def test_right_login_works_beside_many_wrong_ones(make_node):
    """A guesser holds all places that wait; known logins, SCRAM and documents do not wait."""
    node = make_node().start().provision().create_bucket("b")
    assert read_time(node) < 5
    with contextlib.ExitStack() as stack:
        guessers = [
            stack.enter_context(Connection(node.kv_port, source=STRANGER)) for _ in range(150)
        ]
        for number, each in enumerate(guessers):
            each.send(frame(Op.SASL_AUTH, b"PLAIN", value=f"\0{USER}\0guess {number}".encode()))
        times = sorted(read_time(node) for _ in range(10))
        assert times[5] < 0.2, times
        with Connection(node.kv_port) as connection:
            assert connection.plain(USER, PASSWORD).status == Status.SUCCESS
        with Connection(node.kv_port) as connection:
            assert connection.log_in(USER, PASSWORD).status == Status.SUCCESS
        # Every wrong one has its answer: none was refused without a check.
        assert {each.receive().status for each in guessers} == {Status.AUTH_ERROR}


@pytest.mark.parametrize("port", ["admin", "views"])
def test_body_is_read_after_the_login_of_its_head_was_checked(node, port):
    """Whatever its size, the body of a client with a login; of another one, only a little."""
    document = json.dumps({"views": {"v": {"map": "function (d, m) {}" + " " * 300_000}}}).encode()
    path = "/b/_design/large" if port == "views" else "/pools/default/buckets/b/docs/large"
    method = "PUT" if port == "views" else "POST"
    value = document if port == "views" else b"value=" + b"1" * 300_000
    kind = "application/json" if port == "views" else "application/x-www-form-urlencoded"

    def send(login):
        encoded = base64.b64encode(login.encode()).decode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {encoded}\r\n"
            f"Content-Type: {kind}\r\nContent-Length: {len(value)}\r\nConnection: close\r\n\r\n"
        )
        with connect(node, port, "127.0.0.4") as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(head.encode() + value)
            return connection.makefile("rb").readline()

    assert send(f"{USER}:{PASSWORD}").split()[1] in (b"200", b"201")
    with contextlib.suppress(ConnectionError):
        assert b" 401 " in send(f"{USER}:wrong")
