"""Hostile sync functions and bodies: each costs its own write, and neither state nor memory."""

import gzip
import http.client
import json
import pathlib
import struct
import threading
import zlib

import pytest

from rig.divan_gateway import DivanGateway
from rig.sync_gateway import descendants

# A call has 1 s of processor time, and is repeated apart from others if it takes more than 2 s. The rest is for other work of
# the machine.
SECONDS = 60
TARGET = {"isTarget": True}
MEGABYTE = 1_024

# Endless bodies of a sync function. Each costs its second of processor time.
ENDLESS = {
    "loop that catches": "while (true) { try { while (true) {} } catch (e) {} }",
    "getter of a thrown object": "throw {get forbidden() { while (true) {} }};",
    "length of a list of channels": "channel({get length() { while (true) {} }});",
    "evaluated text": "eval('while (true) {}');",
    "promise": "(function f() { return Promise.resolve().then(f); })();",
    "function that waits": "(async function () { while (true) await 0; })();",
    "job": "Promise.resolve().then(function () { while (true) {} });",
}
HOSTILE = {
    "endless string": "var s = 'x'; while (true) s += s;",
    "endless array": "var a = []; while (true) a.push(new Array(1000));",
    "large arrays of bytes": "var a = []; while (true) a.push(new Uint8Array(1e8));",
    "endless number": "var b = 2n; while (true) b = b * b;",
    "deep recursion": "(function f(n) { return f(n + 1) + 1; })(0);",
    "endless channels": "var n = 0; while (true) channel('x' + n++);",
    "endless grants": "var n = 0; while (true) access('u' + n++, 'c');",
    "endless claims": "while (true) requireUser('x');",
    "channel of 3 MB": "channel(new Array(3e6).join('x'));",
    "1 000 000 channels": "var a = []; for (var n = 0; n < 1e6; n++) a.push('c' + n); channel(a);",
    "reason of 10 MB": "throw {forbidden: new Array(1e7).join('x')};",
    "throws a string": "throw 'on purpose';",
    "throws nothing": "throw undefined;",
    "throws a cycle": "var c = {}; c.c = c; throw c;",
    "throws itself": """
        throw {toString: function () { throw this; }, get forbidden() { throw this; }};""",
    "replaces its helpers": "channel = access = role = reject = undefined; channel('x');",
    "replaces the global object": """
        globalThis.__proto__ = new Proxy({}, {get: function () { while (true) {} }});
        channel(unknown);""",
}

# Functions that change what later calls would meet, and the channels that documents get by them.
# `doc.member` is a name of a member that devices choose.
CHANGING = {
    "member of every object": (
        "if (({}).x !== undefined) throw {forbidden: 'state'}; Object.prototype.x = doc.n;"
        "channel('x' + ({}).x);",
        lambda n, member: [f"x{n}"],
    ),
    "method that is replaced": (
        "var before = [].push(1); Array.prototype.push = function () { return 77; };"
        "channel('before-' + before); channel('after-' + [].push(1));",
        lambda n, member: ["after-77", "before-1"],
    ),
    "method that is defined": (
        "var before = [1].indexOf(1);"
        "Object.defineProperty(Array.prototype, 'indexOf', {value: function () { return 77; }});"
        "channel('before-' + before); channel('after-' + [1].indexOf(1));",
        lambda n, member: ["after-77", "before-0"],
    ),
    "polyfill": (
        "if (!Array.prototype.last) { channel('made');"
        "Array.prototype.last = function () { return this[this.length - 1]; }; }"
        "channel('last-' + [1, doc.n].last());",
        lambda n, member: [f"last-{n}", "made"],
    ),
    "constructors": (
        "var before = typeof Date.now; Date = function () { return 5; };"
        "Math.max = function () { return 6; }; JSON.parse = function () { return 7; };"
        "channel(before + '-' + Date() + Math.max(1, 2) + JSON.parse('1'));",
        lambda n, member: ["function-567"],
    ),
    "global variable": (
        "if (typeof counter === 'undefined') counter = 0; counter++; channel('n' + counter);",
        lambda n, member: ["n1"],
    ),
    "property of the function": (
        "arguments.callee.n = (arguments.callee.n || 0) + 1; channel('n' + arguments.callee.n);",
        lambda n, member: ["n1"],
    ),
    "own object with names of builtins": (
        "var counts = {}; counts['constructor'] = 1;"
        "counts[doc.member] = (counts[doc.member] || 0) + 1; channel('c-' + typeof ({}).constructor);",
        lambda n, member: ["c-function"],
    ),
    "builtins by a name that a device chose": (
        "var groups = {}; (groups[doc.member] = groups[doc.member] || {}).seen = doc.n;"
        "channel('seen-' + ({}).seen);",
        lambda n, member: [f"seen-{n}" if member == "__proto__" else "seen-undefined"],
    ),
    "its helpers": (
        "var own = channel; channel = function (name) { own('mine-' + name); }; channel(doc.member);",
        lambda n, member: [f"mine-{member}"],
    ),
}


class Client:
    """Requests to the administration port."""

    def __init__(self, gateway):
        self.port = gateway.admin_port

    def ask(self, method, path, body=None, headers=()):
        """A status and the bytes of the answer. `body` is bytes, or a value to send as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        data = body if isinstance(body, bytes) else json.dumps(body)
        try:
            lines = {"Content-Type": "application/json", **dict(headers)}
            connection.request(method, path, data, lines)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def make(self, database, body):
        """Makes a database whose function does `body` with documents that are targets."""
        sync = f"function (doc, oldDoc) {{ if (doc.isTarget) {{ {body} }} channel('innocent'); }}"
        configuration = {"server": "walrus:", "bucket": database, "sync": sync}
        assert self.ask("PUT", f"/{database}/", configuration) == (201, b"")

    def channels(self, database):
        """The channels of each document."""
        status, answer = self.ask("GET", f"/{database}/_all_docs?channels=true")
        assert status == 200, answer
        return {row["id"]: row["value"]["channels"] for row in json.loads(answer)["rows"]}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "gateway.json"
    databases = {name: {"server": "walrus:", "bucket": name} for name in ("healthy", "changed")}
    path.write_text(json.dumps({"log": [], "databases": databases}))
    with DivanGateway(path) as gateway:
        yield gateway


@pytest.fixture
def client(gateway):
    return Client(gateway)


@pytest.fixture
def database(client):
    """The name of a database that is deleted after the test."""
    yield "hostile"
    client.ask("DELETE", "/hostile/")


def check_innocent(client, database):
    """A write that is no target succeeds, and the target is not stored."""
    assert client.ask("PUT", f"/{database}/innocent", {})[0] == 201
    assert client.channels(database) == {"innocent": ["innocent"]}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_function_costs_only_its_own_write(client, database, kind):
    client.make(database, HOSTILE[kind])
    status, answer = client.ask("PUT", f"/{database}/target", TARGET)
    assert status in (500, 503), answer
    check_innocent(client, database)
    assert client.ask("POST", "/healthy/", {"kind": kind})[0] == 200


def test_endless_functions_delay_no_other_database(client):
    """Healthy writes are answered one after another, while each endless function runs."""
    answers = {}

    def write(database):
        answers[database] = client.ask("PUT", f"/{database}/target", TARGET)

    databases = {f"endless-{number}": body for number, body in enumerate(ENDLESS.values())}
    for name, body in databases.items():
        client.make(name, body)
    threads = [threading.Thread(target=write, args=[name]) for name in databases]
    for thread in threads:
        thread.start()
    healthy = 0
    while not answers:
        assert client.ask("POST", "/healthy/", {"n": healthy})[0] == 200
        healthy += 1
    for thread in threads:
        thread.join(SECONDS)
    assert answers.keys() == databases.keys()
    assert all(status in (500, 503) for status, _ in answers.values()), answers
    # A function that held the healthy database would let about one write through.
    assert healthy >= 20
    for name in databases:
        check_innocent(client, name)
        assert client.ask("DELETE", f"/{name}/")[0] == 200


def test_hostile_write_fails_alone_in_a_batch(client, database):
    client.make(database, "(function f(n) { return f(n + 1) + 1; })(0);")
    documents = [{"_id": f"{n:02}", **(TARGET if n % 5 == 2 else {})} for n in range(20)]
    status, answer = client.ask("POST", f"/{database}/_bulk_docs", {"docs": documents})
    assert status == 201, answer
    rows = {row["id"]: row.get("status", 201) for row in json.loads(answer)}
    assert rows == {each["_id"]: 500 if "isTarget" in each else 201 for each in documents}


def test_function_of_a_changed_configuration_is_hostile_until_it_is_corrected(client):
    def change(sync):
        configuration = {"server": "walrus:", "bucket": "changed", "sync": sync}
        status, answer = client.ask("PUT", "/changed/_config", configuration)
        assert status in (200, 201), answer

    assert client.ask("PUT", "/changed/first", {})[0] == 201
    change("function (doc) { (function f(n) { return f(n + 1) + 1; })(0); }")
    assert client.ask("PUT", "/changed/second", {})[0] == 500
    assert client.ask("POST", "/healthy/", {})[0] == 200
    change("function (doc) { channel('corrected'); }")
    assert client.ask("PUT", "/changed/third", {})[0] == 201


@pytest.mark.parametrize("kind", CHANGING)
def test_changed_builtins_work_and_end_with_their_document(client, database, kind):
    body, expected = CHANGING[kind]
    sync = f"function (doc) {{ {body} }}"
    configuration = {"server": "walrus:", "bucket": database, "sync": sync}
    assert client.ask("PUT", f"/{database}/", configuration)[0] == 201
    members = ("__proto__", "constructor", "plain", "toString")
    documents = {
        f"{way}-{n}": {"n": n, "member": members[n % 4]} for way in ("one", "many") for n in range(8)
    }
    for id, each in documents.items():
        if id.startswith("one"):
            assert client.ask("PUT", f"/{database}/{id}", each)[0] == 201
    batch = [{"_id": id, **each} for id, each in documents.items() if id.startswith("many")]
    status, answer = client.ask("POST", f"/{database}/_bulk_docs", {"docs": batch})
    assert status == 201 and all("rev" in row for row in json.loads(answer)), answer
    found = {id: sorted(names) for id, names in client.channels(database).items()}
    assert found == {id: expected(each["n"], each["member"]) for id, each in documents.items()}


# Bodies


def peaks(gateway):
    """The greatest resident memory of each process of the gateway so far, in KiB."""
    found = {}
    for process in [gateway.process.pid, *descendants(gateway.process.pid)]:
        lines = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
        found[process] = int(next(each for each in lines if each.startswith("VmHWM")).split()[1])
    return found


@pytest.fixture
def small_peak(gateway, client):
    """Fails a test during which the memory of the gateway grew by 16 MB or more."""
    assert client.ask("PUT", "/healthy/before", {"small": True})[0] in (201, 409)
    before = peaks(gateway)
    yield
    after = peaks(gateway)
    for process, peak in before.items():
        assert after.get(process, 0) - peak < 16 * MEGABYTE, f"{before} KiB became {after}"


# Routes, and what stands around the blanks of a bomb or the levels of a deep value.
ROUTES = {
    "PUT /healthy/document": (b'{"a":', b"}"),
    "POST /healthy/_bulk_docs": (b'{"docs":[{"a":', b"}]}"),
    "POST /healthy/_bulk_get": (b'{"docs":[{"id":', b"}]}"),
    "POST /healthy/_revs_diff": (b'{"a":', b"}"),
    "POST /healthy/_changes": (b'{"since":', b"}"),
    "POST /healthy/_all_docs": (b'{"keys":', b"}"),
    "PUT /healthy/_local/document": (b'{"a":', b"}"),
    "PUT /healthy/_user/name": (b'{"name":', b"}"),
    "PUT /another/": (b'{"a":', b"}"),
}


# Blanks that a bomb has, 1 MiB at a time.
BLANKS = b" " * (1 << 20)
TIMES = 100


def bomb(before, after):
    """A gzip body of 1 000 times its size: blanks between two texts.

    The compressed blanks end with a full flush, so they can be repeated.
    """
    packer = zlib.compressobj(9, wbits=-15)
    parts = [packer.compress(each) + packer.flush(zlib.Z_FULL_FLUSH) for each in (before, BLANKS)]
    parts += [parts[1]] * (TIMES - 1) + [packer.compress(after) + packer.flush()]
    checksum = zlib.crc32(before)
    for _ in range(TIMES):
        checksum = zlib.crc32(BLANKS, checksum)
    size = len(before) + len(BLANKS) * TIMES + len(after)
    head = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 2, 255])
    body = head + b"".join(parts) + struct.pack("<II", zlib.crc32(after, checksum), size)
    assert len(body) * 900 < size
    return body


def test_gzip_bomb_of_the_tests_unpacks_to_the_expected_json():
    unpacked = gzip.decompress(bomb(b'{"a":', b"1}"))
    assert unpacked == b'{"a":' + BLANKS * TIMES + b"1}"


@pytest.mark.parametrize("route", ROUTES)
def test_gzip_bomb_is_refused_in_little_memory(client, small_peak, route):
    before, after = ROUTES[route]
    body = bomb(before, b"1" + after)
    status, answer = client.ask(*route.split(), body, {"Content-Encoding": "gzip"})
    assert status == 413, answer


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("ends", [b"[]", (b'{"a":', b"}")], ids=["arrays", "objects"])
def test_json_of_100_000_levels_is_refused_in_little_memory(client, small_peak, route, ends):
    before, after = ROUTES[route]
    opening, closing = (ends[:1], ends[1:]) if isinstance(ends, bytes) else ends
    deep = opening * 100_000 + b"1" + closing * 100_000
    status, answer = client.ask(*route.split(), before + deep + after)
    assert status == 400, answer
