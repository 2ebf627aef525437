"""The client's side of a WebSocket, for feeds: one message to the gateway, then all of its messages."""

import os
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def _frame(kind, payload):
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    if len(payload) < 126:
        head = struct.pack(">BB", 0x80 | kind, 0x80 | len(payload))
    else:
        head = struct.pack(">BBH", 0x80 | kind, 0x80 | 126, len(payload))
    return head + mask + masked


def send_text(connection, payload):
    connection.send(_frame(TEXT, payload))


def _read_frame(connection):
    first, second = connection.exactly(2)
    size = second & 0x7F
    if size == 126:
        (size,) = struct.unpack(">H", connection.exactly(2))
    elif size == 127:
        (size,) = struct.unpack(">Q", connection.exactly(8))
    return first & 0x0F, bool(first & 0x80), connection.exactly(size)


def messages(connection):
    """Each message as (kind, payload) when it has come; the last is (CLOSE, its payload)."""
    kind, payload = None, b""
    while True:
        opcode, is_last, data = _read_frame(connection)
        if opcode == CLOSE:
            yield CLOSE, data
            return
        if opcode == PING:
            connection.send(_frame(PONG, data))
        elif opcode in (CONTINUATION, TEXT, BINARY):
            kind = opcode if opcode != CONTINUATION else kind
            payload += data
            if is_last:
                yield kind, payload
                payload = b""


def read_all(connection):
    """Messages as (kind, payload) until the gateway closes; the last is (CLOSE, its payload)."""
    return list(messages(connection))
