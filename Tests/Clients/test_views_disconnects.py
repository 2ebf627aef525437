"""Clients that disconnect while their view query waits for its first byte."""

import base64
import json
import socket

import pytest

from rig.load import ingest
from rig.node import PASSWORD, USER, Node, wait_until
from rig.views import Views

COUNT = 4_000
QUERIES_MAX = 64
QUICK = "function (doc, meta) { emit(doc.n, null); }"
# Some 20 ms for each document: the build of the index outlasts the test.
SLOW = """function (doc, meta) {
    for (var i = 0, x = 1; i < 2e6; i++) x = (x * 69069 + 1) % 4294967296;
    emit(doc.n, x);
}"""


@pytest.fixture(scope="module")
def views():
    with Node() as node:
        node.start().provision()
        node.create_bucket("left", numVBuckets=64)
        with node.connect("left") as connection:
            ingest(
                connection,
                [(f"doc-{n}".encode(), json.dumps({"n": n}).encode()) for n in range(COUNT)],
            )
        views = Views(node, "left")
        assert views.put("quick", {"v": QUICK}).status == 201
        assert len(views.fresh("quick", "v").rows) == COUNT
        yield views


def begin(views, document):
    """Sends a query of all changes without waiting for its answer."""
    token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    connection = socket.create_connection((views.rest.host, views.rest.port), timeout=30)
    connection.sendall(
        f"GET {views.path(document, 'v')}?stale=false&limit=1 HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Basic {token}\r\nConnection: close\r\n\r\n".encode()
    )
    return connection


def read(connection):
    text = b""
    while part := connection.recv(1 << 16):
        text += part
    return text


def is_busy(views):
    """Whether the node has no place for a further query."""
    return views.query("quick", "v", connection_timeout=200, limit=1).status == 503


def test_client_that_only_ends_its_requests_gets_its_answer(views):
    connection = begin(views, "quick")
    connection.shutdown(socket.SHUT_WR)
    text = read(connection)
    connection.close()
    assert text.startswith(b"HTTP/1.1 200"), text
    assert f'"total_rows":{COUNT}'.encode() in text


def test_queries_of_closed_connections_free_their_places(views):
    assert views.put("slow", {"v": SLOW}).status == 201
    connections = [begin(views, "slow") for _ in range(QUERIES_MAX)]
    wait_until(lambda: is_busy(views), 30, "all places are in use")
    for connection in connections:
        connection.close()
    # Else the places would be in use for 90 s.
    answer = views.query("quick", "v", seconds=30, limit=1)
    assert answer.status == 200 and not answer.errors, answer
    assert views.delete("slow").status == 200
