"""Who may set up a node without a cluster: its own machine, and clients that know its token."""

import http.server
import json
import re
import shlex
import stat
import subprocess
import threading
import time

import pytest

from rig import network as rig_network
from rig import privileges
from rig.node import PASSWORD, ROOT, SERVER, USER, Node, NotReady, wait_until
from rig.rest import Rest

FORM = {"port": "SAME", "username": USER, "password": PASSWORD, "services": "kv", "memoryQuota": 512}
MULTIPART = {"Content-Type": "multipart/form-data; boundary=x"}
PORTS = ("--kv-port", "11210", "--admin-port", "8091", "--views-port", "8092", "--peer-port", "21100")
NAMES = ("db1", "db2", "db3", "divan")
TABLE = privileges.Table()


@pytest.fixture(scope="module")
def machines():
    """Machines of nodes, and that of a client, in which the tests open their sockets."""
    with rig_network.opened(NAMES) as network:
        yield network


@pytest.fixture
def machine(machines):
    """Makes nodes on machines; they listen on all addresses, and are reached over the network."""
    nodes = []

    def make(name, *flags, **options):
        node = Node(
            *PORTS,
            *("--bind", "0.0.0.0"),
            *flags,
            host=machines.addresses[name],
            prefix=machines.command(name),
            **options,
        )
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.close()


def ask(rest, route):
    body = None if route.method == "GET" else "--x--\r\n"
    return rest.head_of(route.method, route.target("demo"), body, MULTIPART).status


def test_new_node_shows_unauthenticated_clients_only_that_it_is_new(machine):
    """Every route of both HTTP ports, from another machine."""
    node = machine("db1").start()
    known = {"cluster.pools!read"}
    for login in (None, ("Administrator", "guess"), ("", ""), ("x", "0" * 32)):
        for route in TABLE.routes:
            port = node.admin_port if route.port == "admin port" else int(node.flag("--views-port"))
            status = ask(Rest(port, login, node.host), route)
            # A body that is no form is refused by routes that are open.
            if route.need == "open":
                assert status not in (401, 403, 421), (route, status)
            elif route.need in known and login is None:
                assert status in (200, 404), (route, status)
            else:
                assert status == 401, (route, login, status)
    pools = node.anonymous.get("/pools").json
    assert pools["pools"] == [] and pools["isAdminCreds"] is False
    assert node.anonymous.post("/clusterInit", FORM).status == 401
    assert node.anonymous.get("/pools").json["pools"] == []


def test_token_sets_up_a_node_from_another_machine(machine):
    node = machine("db1").start()
    token = node.token
    assert re.fullmatch("[0-9a-f]{32}", token)
    assert node.ready["initToken"] == str(node.token_file)
    assert stat.S_IMODE(node.token_file.stat().st_mode) == 0o600
    # A restarted node keeps it: the operator may have read it already.
    node.stop()
    node.start()
    assert node.token == token
    for wrong in (token[:-1], token + "0", token.upper() + "x", "", f"{token} "):
        reply = Rest(node.admin_port, ("operator", wrong), node.host).post("/clusterInit", FORM)
        assert reply.status == 401, wrong
    assert node.newcomer.get("/nodes/self").status == 200
    assert node.newcomer.get("/pools").json["isAdminCreds"] is True
    assert Rest(node.admin_port, ("", token), node.host).post("/clusterInit", FORM).status == 200
    assert not node.token_file.exists()
    assert Rest(node.admin_port, ("operator", token), node.host).get("/pools").status == 401
    assert node.admin.get("/pools/default").status == 200
    assert token not in node.log() and token not in json.dumps(node.ready)
    node.stop()
    node.start()
    assert node.ready["initToken"] is None and node.token is None


def test_node_that_leaves_its_cluster_gets_a_new_token(machine):
    node = machine("db1").start()
    first = node.token
    node.provision(512)
    assert node.admin.post("/controller/hardResetNode").status == 200
    assert re.fullmatch("[0-9a-f]{32}", node.token) and node.token != first
    assert stat.S_IMODE(node.token_file.stat().st_mode) == 0o600
    assert Rest(node.admin_port, ("x", first), node.host).post("/clusterInit", FORM).status == 401
    assert node.anonymous.post("/clusterInit", FORM).status == 401
    assert node.newcomer.post("/clusterInit", FORM).status == 200


@pytest.mark.parametrize("bind", ["127.0.0.1", "::1", "0.0.0.0", "::"])
def test_loopback_needs_no_token(make_node, bind):
    """Also over IPv6, and over an IPv4 address that is mapped to IPv6."""
    node = make_node("--bind", bind).start()
    hosts = {"127.0.0.1": ["127.0.0.1"], "::1": ["::1"], "0.0.0.0": ["127.0.0.1", "127.8.9.1"],
             "::": ["::1", "127.0.0.1"]}[bind]
    for host in hosts:
        rest = Rest(node.admin_port, None, host)
        assert rest.post("/clusterInit?just_validate=1", FORM).status == 200, host
        assert rest.get("/nodes/self").status == 200, host
    assert Rest(node.admin_port, ("any", "credentials"), hosts[-1]).post("/clusterInit", FORM).status == 200


# The name in a request


def init_as(node, host, path="/clusterInit?just_validate=1"):
    return node.anonymous.post(path, FORM, headers={"Host": host})


def test_change_of_a_new_node_needs_a_known_host_name_or_an_address(make_node):
    node = make_node("--host-name", "db1.example.com", "--host-name", "Alias").start()
    for host in ("127.0.0.1", f"127.0.0.1:{node.admin_port}", "[::1]:1", "10.1.2.3", "localhost",
                 "LOCALHOST:8091", "db1.example.com:8091", "DB1.example.com", "alias"):
        assert init_as(node, host).status == 200, host
    for host in ("evil.example", "evil.example:8091", "db1.example.com.evil.example", "127.0.0.1.evil.example",
                 "db2.example.com", "localhost.evil.example"):
        reply = init_as(node, host, "/clusterInit")
        assert reply.status == 421, (host, reply)
        assert "--host-name" in reply.text and host.split(":")[0] in reply.text
    assert node.anonymous.get("/pools").json["pools"] == []
    # The token proves access to the machine, and changes nothing about names.
    assert node.newcomer.post("/clusterInit", FORM, headers={"Host": "evil.example"}).status == 421


def test_every_protected_route_checks_the_host_name(make_node):
    """On a new node, and without a login on a node with a bucket without a password."""
    node = make_node().start()
    evil = {**MULTIPART, "Host": "evil.example"}

    def statuses(login):
        for route in TABLE.routes:
            port = node.admin_port if route.port == "admin port" else int(node.flag("--views-port"))
            body = None if route.method == "GET" else "--x--\r\n"
            reply = Rest(port, login).head_of(route.method, route.target("open"), body, evil)
            yield route, reply

    for route, reply in statuses(None):
        is_free = route.need == "open" or route.path == "/pools"
        assert (reply.status == 421) == (not is_free), (route, reply)
        if reply.status == 421:
            assert "--host-name" in reply.text, reply
    node.provision()
    node.create_bucket("open", passwordless=1)
    for login in (None, ("open", "")):
        for route, reply in statuses(login):
            is_free = route.need == "open" or route.path == "/pools" and login is None
            assert not (is_free and reply.status == 421), (route, reply)
            assert is_free or reply.status in (421, 401, 403), (route, login, reply)
    # With a password every name is right.
    for path in ("/pools/default", "/pools/default/buckets/open"):
        assert node.admin.get(path, headers={"Host": "evil.example"}).status == 200
        assert node.anonymous.get(path, headers={"Host": "evil.example"}).status == 421
        assert node.anonymous.get(path, headers={"Host": "localhost"}).status == 200
    for path in ("/", "/ui/app.js", "/pools"):
        assert node.anonymous.get(path, headers={"Host": "evil.example"}).status in (200, 301, 302)
    form = {"user": USER, "password": PASSWORD}
    assert node.anonymous.post("/uilogin", form, headers={"Host": "evil.example"}).status == 200


def test_alternate_address_is_accepted_as_host_name(make_node):
    node = make_node().start().provision()
    node.create_bucket("open", passwordless=1)
    host = {"Host": "outside.example.com:9000"}
    assert node.anonymous.get("/pools/default", headers=host).status == 421
    path = "/node/controller/setupAlternateAddresses/external"
    assert node.admin.put(path, {"hostname": "outside.example.com"}).status == 200
    assert node.anonymous.get("/pools/default", headers=host).status == 200


# Adding nodes


class Fake(http.server.BaseHTTPRequestHandler):
    """A server that answers with what `answers` has for a path."""

    answers = {}

    def respond(self):
        length = int(self.headers.get("Content-Length", 0))
        self.rfile.read(length)
        status, body = self.answers.get(self.path, (404, b"no"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = respond

    def log_message(self, *_):
        pass


@pytest.fixture
def fake():
    """Starts servers on this thread's machine; returns their port."""
    servers = []

    def start(answers):
        handler = type("Answers", (Fake,), {"answers": answers})
        server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server.server_address[1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def add(node, address, password, user="operator"):
    form = {"hostname": address, "user": user, "password": password, "services": "kv"}
    return node.admin.post("/controller/addNode", form)


def test_node_on_another_machine_is_added_with_its_token_only(machine):
    node, new = machine("db1").start().provision(512), machine("db2").start()
    for password in ("", PASSWORD, "0" * 32, new.token[:-1]):
        reply = add(node, new.host, password)
        assert reply.status == 400 and "init-token" in reply.text, reply
        if password:
            assert "not the token" in reply.text, reply
    assert "had no proof of the node's token" in new.log()
    assert new.anonymous.get("/pools").json["pools"] == []
    assert add(node, new.host, new.token).status == 200
    wait_until(lambda: new.token is None, 10, "the token is deleted")
    assert len(node.admin.get("/pools/default").json["nodes"]) == 2


def fingerprint(node):
    return node.anonymous.get("/nodes/self/peer").json["fingerprint"]


def test_fingerprint_that_is_not_the_nodes_is_refused(machine):
    node, new = machine("db1").start().provision(512), machine("db2").start()
    form = {"hostname": new.host, "user": "", "password": new.token, "services": "kv"}
    for wrong in ("0" * 64, fingerprint(node)):
        reply = node.admin.post("/controller/addNode", {**form, "fingerprint": wrong})
        assert reply.status == 400 and fingerprint(new) in reply.text, reply
        assert "not the one that was named" in reply.text and "not the one" in node.log()
    # The fingerprint proves the node to the cluster, not the cluster to the node.
    right = ":".join(re.findall("..", fingerprint(new).upper()))
    reply = node.admin.post("/controller/addNode", {**form, "password": "", "fingerprint": right})
    assert reply.status == 400 and "only with its token" in reply.text, reply
    assert len(node.admin.get("/pools/default").json["nodes"]) == 1
    reply = node.admin.post("/controller/addNode", {**form, "fingerprint": right})
    assert reply.status == 200, reply


def test_node_joins_from_another_machine_if_it_names_the_members_fingerprint(machine):
    node, new = machine("db1").start().provision(512), machine("db2").start()
    form = {"hostname": node.host, "user": USER, "password": PASSWORD}
    assert new.anonymous.post("/node/controller/doJoinCluster", form).status == 401
    # Without it the password is not sent.
    reply = new.newcomer.post("/node/controller/doJoinCluster", form)
    assert reply.status == 400 and 'field \\"fingerprint\\"' in reply.text, reply
    reply = new.newcomer.post("/node/controller/doJoinCluster", {**form, "fingerprint": "f" * 64})
    assert reply.status == 400 and fingerprint(node) in reply.text, reply
    form["fingerprint"] = fingerprint(node)
    reply = new.newcomer.post("/node/controller/doJoinCluster", {**form, "password": "wrong"})
    assert reply.status == 400 and "refused user and password" in reply.text, reply
    assert new.token_file.exists()
    assert new.newcomer.post("/node/controller/doJoinCluster", form).status == 200
    assert not new.token_file.exists()


SECRET = b"root:x:0:0:secret"
FOREIGN = [
    (400, b'["The node refuses."]'),
    (400, SECRET),
    (203, SECRET),
    (200, SECRET),
    (200, b"<html>secret</html>"),
    (200, b'{"secret":"secret"}'),
    (500, b'["secret",{"a":1}]'),
    (400, b'["' + b"secret" * 400 + b'"]'),
]


@pytest.mark.parametrize("status, body", FOREIGN)
def test_answers_of_other_servers_are_not_passed_on(make_node, fake, status, body):
    node = make_node().start()
    port = fake({"/nodes/self/peer": (status, body)})
    form = {"hostname": f"127.0.0.1:{port}", "user": "a", "password": "b"}
    reply = node.anonymous.post("/node/controller/doJoinCluster", form)
    assert reply.status == 400 and "is not a Divan node" in reply.text, reply
    assert "secret" not in reply.text and "refuses" not in reply.text, reply
    node.provision()
    reply = add(node, f"127.0.0.1:{port}", "b")
    assert reply.status == 400 and "secret" not in reply.text, reply
    # Nor is what such a server says of itself.
    port = fake({"/nodes/self/peer": (200, b'{"port":"secret","fingerprint":"secret"}')})
    reply = add(node, f"127.0.0.1:{port}", "b")
    assert reply.status == 400 and "secret" not in reply.text, reply


# The first administrator by flags


def test_node_with_flags_never_listens_without_an_administrator(machine, machines, tmp_path):
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n")
    node = machine("db1", "--administrator", USER, "--password-file", str(secret))
    seen, ended = set(), threading.Event()

    def watch():
        with machines.inside("db1"):
            while not ended.is_set():
                try:
                    reply = Rest(8091, None, "127.0.0.1").post("/clusterInit?just_validate=1", FORM)
                    seen.add(reply.status)
                except OSError:
                    pass

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        node.start()
        time.sleep(0.2)
    finally:
        ended.set()
        thread.join()
    assert seen <= {401, 503} and 401 in seen, seen
    assert node.ready["initToken"] is None and not node.token_file.exists()
    assert node.admin.get("/pools/default").status == 200
    assert PASSWORD not in node.log()
    # With a cluster in the directory they are ignored.
    secret.write_text("another-password")
    node.stop()
    node.start()
    assert "--administrator and --password-file are ignored" in node.log()
    assert node.admin.get("/pools/default").status == 200


@pytest.mark.parametrize(
    "flags, text",
    [
        (["--administrator", USER], "need each other"),
        (["--password-file", "/nowhere"], "need each other"),
        (["--administrator", USER, "--password-file", "/nowhere"], "cannot be read"),
        (["--administrator", USER, "--password-file", "SHORT"], "--password-file: "),
        (["--administrator", "a:b", "--password-file", "GOOD"], "--administrator: "),
        (["--host-name", "http://db1"], "not a host name"),
    ],
)
def test_wrong_flags_end_the_start_with_a_sentence(make_node, tmp_path, flags, text):
    for name, password in (("SHORT", "abc"), ("GOOD", PASSWORD)):
        (tmp_path / name).write_text(password)
    flags = [str(tmp_path / each) if each in ("SHORT", "GOOD") else each for each in flags]
    node = make_node(*flags)
    with pytest.raises(NotReady) as ended:
        node.start()
    assert ended.value.code != 0 and text in ended.value.log, ended.value.log


# The commands of docs/operations.md


def documented(heading):
    """The blocks of commands below a heading: each with the machines of its first line."""
    text = (ROOT / "docs/operations.md").read_text()
    section = text.split(f"### {heading}\n", 1)[1]
    section = re.split(r"\n(?=#|\*\*)", section, maxsplit=1)[0]
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", section, re.M)
    lines = [line[4:] for block in blocks for line in block.splitlines()] + [""]
    found = []
    for line in lines:
        if line.startswith("# "):
            found.append((line[2:].partition(":")[0].split(", "), []))
        elif line:
            found[-1][1].append(line)
    return [(names, "\n".join(commands)) for names, commands in found]


class Shell:
    """Runs documented commands on machines; a server's command runs on in the background."""

    def __init__(self, network, root):
        self.network, self.root = network, root
        self.servers = {}
        (root / "password").write_text(PASSWORD)

    def run(self, names, commands):
        for name in names:
            if commands.startswith("divan-server "):
                self.serve(name, commands)
            else:
                self.call(name, commands)

    def serve(self, name, command):
        if name in self.servers:
            self.servers.pop(name).close()
        words = shlex.split(command)
        data = words[words.index("--data") + 1]
        assert words[:3] == ["divan-server", "--data", data] and data == "/var/lib/divan"
        words = [each.replace("/run/secrets/divan-password", str(self.root / "password")) for each in words]
        node = Node(*words[3:], host=self.network.addresses[name], prefix=self.network.command(name))
        # What the command does not name has its default.
        for flag, port in zip(PORTS[::2], PORTS[1::2]):
            if flag not in words:
                node.flags[node.flags.index(flag) + 1] = port
        self.servers[name] = node.start()

    def call(self, name, commands):
        files = "\n".join(f"{each}) echo {node.data} ;;" for each, node in self.servers.items())
        machines = "\n".join(
            f'{each}) {shlex.join(self.network.command(each))} "$@" ;;' for each in self.servers
        )
        prelude = f"""set -eu
LOGIN={USER}:{PASSWORD}
directory() {{ case $1 in {files} esac; }}
read_file() {{ "$2" "$(directory "$1")/${{3#/var/lib/divan/}}"; }}
on() {{ local name=$1; shift; case $name in {machines} esac; }}
ssh() {{ if test "$2" = cat; then read_file "$@"; else on "$@"; fi; }}
docker() {{ test "$1" = exec; shift; read_file "$@"; }}
"""
        where = self.network.command("client" if name == "host" else name)
        result = subprocess.run(
            [*where, "bash", "-c", prelude + commands], capture_output=True, text=True, timeout=120
        )
        print(commands, result.stdout, result.stderr)
        assert result.returncode == 0, result.stderr

    def close(self):
        for node in self.servers.values():
            node.close()


@pytest.fixture
def shell(machines, tmp_path):
    shell = Shell(machines, tmp_path)
    yield shell
    shell.close()


def test_documented_first_start_in_a_container_works(shell):
    steps = documented("First start in a container")
    assert [names for names, _ in steps] == [["divan"], ["host"], ["divan"], ["host"]]
    for place, (names, commands) in enumerate(steps):
        shell.run(names, commands)
        node = shell.servers["divan"]
        if place == 1:
            node.await_bucket("travel")
    assert node.admin.get("/pools/default").status == 200
    assert not node.token_file.exists()


def test_documented_first_start_on_three_machines_works(shell):
    steps = documented("First start on three machines")
    assert [names for names, _ in steps] == [["db1", "db2", "db3"], ["db1"]]
    for names, commands in steps:
        shell.run(names, commands)
    node = shell.servers["db1"]

    def is_balanced():
        pool = node.admin.get("/pools/default").json
        members = {each["hostname"]: each["clusterMembership"] for each in pool["nodes"]}
        return members == {f"{each}:8091": "active" for each in ("db1", "db2", "db3")}

    wait_until(is_balanced, 60, "all three are members")
    assert all(each.token is None for each in shell.servers.values())
    assert SERVER.exists()


def test_documented_start_at_the_request_of_the_new_nodes_works(shell):
    steps = documented("First start on three machines, at the request of the new nodes")
    assert [names for names, _ in steps] == [["db1", "db2", "db3"], ["db1"], ["db2", "db3"], ["db1"]]
    for names, commands in steps:
        shell.run(names, commands)
    node = shell.servers["db1"]

    def are_active():
        nodes = node.admin.get("/pools/default").json["nodes"]
        return [each["clusterMembership"] for each in nodes] == ["active"] * 3

    wait_until(are_active, 60, "all three are members")
    assert all(each.token is None for each in shell.servers.values())
