"""Answers in a form that two gateways share: what they choose at random, by first appearance.

Replaced are ids of documents and sessions that a gateway makes, boundaries, times, and the product's
name and version. The form is JSON: a status, a reason, the headers that matter, and a body that is
one of `text`, `base64`, `multipart`, `lines` or `messages`.
"""

import base64
import gzip
import json
import re
import zlib

from . import websocket

HEADERS = (
    "accept-ranges",
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-max-age",
    "allow",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-range",
    "content-type",
    "etag",
    "location",
    "set-cookie",
    "www-authenticate",
    "x-content-encoding",
)
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
# Names of times that depend on when the campaign runs; other times are data of documents.
TIMES = re.compile(rf'("(?:time_saved|expires)":)"{TIME}"')
START = re.compile(r'"instance_start_time":\d{16}\b')
COOKIE_DATE = re.compile(r"Expires=\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")
MADE_ID = re.compile(r'"id":"([0-9a-f]{32})"')
SESSION = re.compile(r'(?:SyncGatewaySession=|"session_id":")([0-9a-f]{40})\b')
HEXADECIMAL = re.compile(r"\b(?:[0-9a-f]{40}|[0-9a-f]{32})\b")
PLACEHOLDER = re.compile(r"(?:IDMADE|SESSION)\d{4}")
PLACEHOLDER_BYTES = re.compile(PLACEHOLDER.pattern.encode())
WELCOME = re.compile(r'"vendor":\{"name":"[^"]*","version":[^}]*\},"version":"[^"]*"')


class Names:
    """What one gateway chose at random, and the names that the stream uses instead."""

    def __init__(self):
        self.given = {}
        self.actual = {}
        self.counts = {}

    def learn(self, kind, value):
        if value not in self.given:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            name = f"{kind}{self.counts[kind]:04}"
            self.given[value] = name
            self.actual[name] = value

    def learn_from(self, request, answer, text):
        """Ids that the gateway made, in the answers that may have some."""
        if request.method != "POST":
            return
        if answer.header("Location"):
            value = answer.header("Location")
            if re.fullmatch("[0-9a-f]{32}", value):
                self.learn("IDMADE", value)
        elif "_bulk_docs" in request.target:
            for value in MADE_ID.findall(text):
                self.learn("IDMADE", value)
        elif "_session" in request.target:
            for value in SESSION.findall(answer.header("Set-Cookie") + text):
                self.learn("SESSION", value)

    def replace(self, text):
        """Names in place of what the gateway chose."""
        return HEXADECIMAL.sub(lambda found: self.given.get(found[0], found[0]), text)

    def restore(self, text):
        """What the gateway chose in place of names; a name that it does not have stays."""
        return PLACEHOLDER.sub(lambda found: self.actual.get(found[0], found[0]), text)

    def restore_bytes(self, data):
        return PLACEHOLDER_BYTES.sub(
            lambda found: self.actual.get(found[0].decode(), found[0].decode()).encode(), data
        )


def normalise(request, answer, names):
    """The answer as JSON."""
    body = _decoded(answer)
    text = body.decode("utf-8", errors="replace")
    names.learn_from(request, answer, text)
    result = {"status": answer.status, "reason": answer.reason, "headers": _headers(answer, names)}
    if answer.messages is not None:
        result["body"] = _messages(answer.messages, names)
    elif request.feed == "lines" and answer.header("Content-Type") == "application/octet-stream":
        result["body"] = {"lines": _lines(text, names)}
    else:
        result["body"] = _body(body, answer.header("Content-Type"), names)
        if request.pattern in ("GET /", "HEAD /"):
            result["body"] = {"text": WELCOME.sub('"vendor":"","version":""', text)}
    if answer.wake is not None:
        result["wake"] = normalise(request.wake, answer.wake, names)
    return result


def _decoded(answer):
    """The body without its Content-Encoding; an attachment may claim one that it does not have."""
    if answer.header("Content-Encoding") == "gzip":
        try:
            return gzip.decompress(answer.body)
        except (OSError, EOFError, zlib.error):
            pass
    return answer.body


def _headers(answer, names):
    found = {}
    for name, value in answer.headers:
        if name.lower() in HEADERS:
            value = COOKIE_DATE.sub("Expires=DATE", names.replace(value))
            value = re.sub(r'boundary="?[^";]+"?', 'boundary="BOUNDARY"', value)
            found.setdefault(name, []).append(value)
    return found


def _text(text, names):
    text = TIMES.sub(r'\1"TIME"', START.sub('"instance_start_time":0', text))
    return names.replace(text)


def _body(data, content_type, names):
    boundary = re.search(r'multipart/\w+; boundary="?([^";]+)"?', content_type)
    if boundary:
        return _multipart(data, boundary[1].encode(), names)
    try:
        return {"text": _text(data.decode("utf-8"), names)}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _multipart(data, boundary, names):
    """The parts, and the bytes around them."""
    opening, *parts = data.split(b"--" + boundary)
    if not parts:
        return {"base64": base64.b64encode(data).decode()}
    closing = parts.pop()
    return {
        "multipart": [_part(each, names) for each in parts],
        "opening": opening.decode("latin-1"),
        "closing": closing.decode("latin-1"),
    }


def _part(data, names):
    head, blank, payload = data.partition(b"\r\n\r\n")
    text = head.decode("utf-8", errors="replace")
    if not (blank and head.startswith(b"\r\n") and payload.endswith(b"\r\n")):
        return {"broken": base64.b64encode(data).decode()}
    payload = payload[:-2]
    if "Content-Encoding: gzip" in text:
        payload = gzip.decompress(payload)
    kind = re.search(r"(?mi)^Content-Type: *(.*)$", text)
    head = re.sub(r'boundary="?[^";\r]+"?', 'boundary="BOUNDARY"', names.replace(text[2:]))
    return {"headers": head, "body": _body(payload, kind[1] if kind else "", names)}


def _lines(text, names):
    """Lines of a continuous feed. Each wake-up may add an empty line, so several are one."""
    lines = []
    for line in _text(text, names).split("\n")[:-1]:
        if line or (lines and lines[-1]) or not lines:
            lines.append(line)
    return lines


def _messages(messages, names):
    """Rows of a feed on a WebSocket. How many rows share a message depends on threads of the gateway.

    An empty array says once that the past is sent. Afterwards each wake-up of the feed sends an empty
    message, with or without new rows, so empty ones are left out.
    """
    inflater = zlib.decompressobj(31)
    rows, kinds, close = [], set(), None
    for kind, payload in messages:
        if kind == websocket.CLOSE:
            close = payload.hex()
            continue
        if kind == websocket.BINARY:
            payload = inflater.decompress(payload)
        kinds.add((kind, len(payload) > 8))
        text = _text(payload.decode("utf-8"), names)
        if text.startswith("[{"):
            rows += _elements(text)
        elif text:
            rows.append(text)
    return {"messages": rows, "kinds": sorted(map(list, kinds)), "close": close}


def _elements(text):
    """The elements of a JSON array, each as it is written."""
    decoder, at, found = json.JSONDecoder(), 1, []
    while text[at - 1 : at] in "[,":
        _, end = decoder.raw_decode(text, at)
        found.append(text[at:end])
        at = end + 1
    return found
