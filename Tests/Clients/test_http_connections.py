"""Connections of the admin port by bytes: versions of HTTP, and when the server closes."""

import base64
import json
import socket

import pytest

from rig.node import PASSWORD, USER

LOGIN = "Authorization: Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def ask(node, path, version, *headers, seconds=3):
    """Head and body of an answer, and whether the server closed the connection within `seconds`."""
    lines = [f"GET {path} {version}", "Host: x", LOGIN, *headers, "", ""]
    received = b""
    with socket.create_connection(("127.0.0.1", node.admin_port), seconds) as connection:
        connection.sendall("\r\n".join(lines).encode())
        try:
            while part := connection.recv(1 << 16):
                received += part
            is_closed = True
        except TimeoutError:
            is_closed = False
    head, body = received.split(b"\r\n\r\n", 1)
    return head.decode().lower().split("\r\n"), body, is_closed


@pytest.mark.parametrize(
    ("version", "connection", "closes"),
    [
        ("HTTP/1.0", None, True),
        ("HTTP/1.0", "keep-alive", False),
        ("HTTP/1.1", None, False),
        ("HTTP/1.1", "close", True),
        ("HTTP/1.1", "TE, Close", True),
    ],
)
def test_connection_closes_after_the_answer_as_its_version_has_it(
    node, version, connection, closes
):
    headers = [f"Connection: {connection}"] if connection else []
    head, body, is_closed = ask(node, "/pools", version, *headers)
    assert head[0].startswith(f"{version.lower()} 200")
    assert json.loads(body)["isAdminCreds"] is True
    assert is_closed == closes
    assert ("connection: close" in head) == closes
    assert ("connection: keep-alive" in head) == (version == "HTTP/1.0" and not closes)


def test_page_of_documents_to_http_10_has_no_chunks_and_ends_with_the_connection(node, bucket):
    with node.connect(bucket) as connection:
        connection.set(b"key", b'{"n":1}')
    path = f"/pools/default/buckets/{bucket}/docs?include_docs=true"
    for headers in ([], ["Connection: keep-alive"]):
        head, body, is_closed = ask(node, path, "HTTP/1.0", *headers)
        assert not any(line.startswith("transfer-encoding") for line in head), head
        assert "connection: close" in head and is_closed
        (row,) = json.loads(body)["rows"]
        assert row["doc"]["json"] == {"n": 1}


def test_stream_to_http_10_has_no_chunks(node, bucket):
    head, body, is_closed = ask(node, f"/pools/default/bs/{bucket}", "HTTP/1.0")
    assert not any(line.startswith("transfer-encoding") for line in head), head
    document, rest = body.split(b"\n\n\n\n", 1)
    assert json.loads(document)["name"] == bucket and rest == b""
    assert not is_closed


@pytest.mark.parametrize(
    ("path", "headers", "word"),
    [
        ("/pools?name=é", [], b"Percent-encode"),
        ("/pools", ["Content-Length: many"], b"not valid HTTP/1.1"),
    ],
)
def test_head_that_cannot_be_parsed_is_refused_with_cause_and_cure(node, path, headers, word):
    head, body, is_closed = ask(node, path, "HTTP/1.1", *headers)
    assert head[0].startswith("http/1.1 400") and word in body and is_closed
    assert f"content-length: {len(body)}" in head


def test_view_port_refuses_a_raw_byte_in_its_format(node, bucket):
    lines = [f"GET /{bucket}/_design/d/_view/v?key=%22é%22 HTTP/1.1", "Host: x", LOGIN, "", ""]
    port = int(node.flag("--views-port"))
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall("\r\n".join(lines).encode())
        received = b""
        while part := connection.recv(1 << 16):
            received += part
    head, body = received.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 400")
    found = json.loads(body)
    assert found["error"] == "bad_request" and "Percent-encode" in found["reason"]
