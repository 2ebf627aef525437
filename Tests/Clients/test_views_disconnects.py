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


def slow(turn):
    """A map function that takes some 20 ms for each document: its index is built after the test."""
    return f"""function (doc, meta) {{
        for (var i = 0, x = {turn}; i < 2e6; i++) x = (x * 69069 + 1) % 4294967296;
        emit(doc.n, x);
    }}"""


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
    assert views.put("slow", {"v": slow(1)}).status == 201
    connections = [begin(views, "slow") for _ in range(QUERIES_MAX)]
    wait_until(lambda: is_busy(views), 30, "all places are in use")
    refused = views.query("quick", "v", connection_timeout=200, limit=1)
    assert refused.refusal[:2] == (503, "service_unavailable")
    assert refused.headers["Retry-After"] == "1"
    for connection in connections:
        connection.close()
    # Else the places would be in use for 90 s.
    answer = views.query("quick", "v", seconds=30, limit=1)
    assert answer.status == 200 and not answer.errors, answer
    assert views.delete("slow").status == 200


def test_query_that_waited_for_its_place_is_answered_by_the_newest_definition(views):
    def source(turn):
        return f"function (doc, meta) {{ emit({turn}, null); }}"

    assert views.put("changed", {"v": source(1)}).status == 201
    assert len(views.fresh("changed", "v").rows) == COUNT
    assert views.put("slow", {"v": slow(2)}).status == 201
    connections = [begin(views, "slow") for _ in range(QUERIES_MAX)]
    wait_until(lambda: is_busy(views), 30, "all places are in use")
    waiting = begin(views, "changed")
    # A later query is refused while it waits: the first one waits too.
    assert is_busy(views)
    assert views.put("changed", {"v": source(2)}).status == 201
    for connection in connections:
        connection.close()
    text = read(waiting)
    waiting.close()
    assert text.startswith(b"HTTP/1.1 200") and b'"errors"' not in text, text
    assert b'"key":2' in text and f'"total_rows":{COUNT}'.encode() in text, text
    assert views.delete("slow").status == 200
