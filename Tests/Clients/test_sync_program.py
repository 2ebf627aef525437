"""The program `divan-gateway`: its start, its lines, its end, and what it may do meanwhile."""

import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import time

import pytest

from rig.node import ROOT, wait_until
from rig.sync_gateway import SyncGateway, descendants, parent_of, run

SHARED = ROOT.parent / "shared/conformance/sync-gateway"
KERNEL = pathlib.Path(__file__).parent / "rig/refusing_kernel.py"
MEMORY = """{
  "log": ["CRUD+", "Changes+"],
  "databases": {
    "demo": {
      "server": "walrus:", "bucket": "stuff", "feed_type": "DCP",
      "roles": {"staff": {"admin_channels": ["s"]}},
      "users": {
        "GUEST": {"disabled": false, "admin_channels": ["*"]},
        "joe": {"password": "password", "admin_channels": ["_joe"]}
      },
      "sync": `function (doc) { channel(doc.channels); }`
    }
  }
}"""


@pytest.fixture
def gateway():
    """Starts gateways that end with the test."""
    started = []

    def start(*arguments, **options):
        started.append(SyncGateway(*map(str, arguments), **options))
        return started[-1]

    yield start
    for each in started:
        each.__exit__()


@pytest.fixture
def file(tmp_path):
    """A configuration file of the test's own."""

    def write(text):
        path = tmp_path / "gateway.json"
        path.write_text(text)
        return path

    return write


def shared(name):
    """A file of the conformance folder beside the checkout."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"NOT TESTED: ../shared/conformance/sync-gateway/{name} is missing")
    return path


def test_file_in_memory_starts_unchanged(gateway):
    running = gateway(shared("walrus-jane-joe.json")).wait_for_start()
    cpus = len(os.sched_getaffinity(0))
    assert running.lines() == [
        "Enabling logging: [*]",
        "==== Divan Sync Gateway/0.1.0 ====",
        f"Configured Divan to use all {cpus} CPUs",
        'Opening db /demo as bucket "default", pool "default", server <walrus:>',
        "Opening Walrus database default on <walrus:>",
        "    Reset guest user to config",
        '    Created user "joe"',
        '    Created user "jane"',
        f"Starting admin server on 127.0.0.1:{running.admin}",
        'Changes+: Notifying that "default" changed (keys="{_sync:user:}") count=2',
        'Changes+: Notifying that "default" changed (keys="{_sync:user:joe}") count=4',
        'Changes+: Notifying that "default" changed (keys="{_sync:user:jane}") count=6',
        f"Starting server on 127.0.0.1:{running.public} ...",
    ]


def test_file_of_a_bucket_is_refused_with_its_place():
    path = shared("bucket-demo.json")
    assert run(path) == (
        1,
        "",
        f"divan-gateway: {path}:8:10: databases.demo.server: a bucket of the cluster "
        'http://localhost:8091 is not supported yet: expected "walrus:", which keeps the documents '
        "in memory\n",
    )


def test_start_announces_roles_and_keys_without_effect(gateway, file):
    path = file(MEMORY)
    running = gateway(path).wait_for_start()
    lines = running.lines()
    assert f"WARNING: {path}:5:47: databases.demo.feed_type has no effect here" in lines
    assert lines.index('    Created role "staff"') < lines.index("    Reset guest user to config")
    assert 'Changes+: Notifying that "stuff" changed (keys="{_sync:role:staff}") count=2' in lines


def test_gateway_without_a_file_serves_a_database_in_memory(gateway):
    running = gateway("-bucket", "demo").wait_for_start()
    assert 'Opening db /demo as bucket "demo", pool "default", server <walrus:>' in running.lines()
    assert "Using default sync function 'channel(doc.channels)' for database \"demo\"" in running.lines()


def test_both_ports_greet(gateway, file):
    running = gateway(file(MEMORY)).wait_for_start()
    status, greeting = running.ask(running.public, "/")
    assert (status, greeting["couchdb"]) == (200, "Welcome")
    assert "ADMIN" not in greeting
    assert running.ask(running.admin, "/")[1]["ADMIN"] is True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_gateway_and_its_processes(gateway, file, number):
    running = gateway(file(MEMORY)).wait_for_start()
    below = descendants(running.process.pid)
    assert below
    status, seconds = running.end(number)
    assert status == 0, running.log
    assert seconds < 5
    assert [each for each in below if parent_of(each) is not None] == []


def test_confined_gateway_ends_without_a_crash_right_after_its_start(gateway, file):
    """The end once started worker threads that read /proc, which the kernel refuses: one end in fifteen crashed."""
    for number in range(20):
        running = gateway(file(MEMORY)).wait_for_start()
        time.sleep(number % 4 * 0.005)
        status, _ = running.end(signal.SIGTERM)
        assert status == 0, running.log


def test_killed_gateway_leaves_no_process(gateway, file):
    running = gateway(file(MEMORY)).wait_for_start()
    below = descendants(running.process.pid)
    running.end(signal.SIGKILL)
    wait_until(lambda: all(parent_of(each) is None for each in below))


def test_lines_go_to_the_file_of_the_log(gateway, file, tmp_path):
    log = tmp_path / "gateway.log"
    log.write_text("before\n")
    running = gateway("-logFilePath", log, file(MEMORY))
    wait_until(lambda: "Starting server on" in log.read_text())
    assert log.read_text().startswith("before\n")
    assert running.log == ""


def test_all_threads_are_confined(gateway, file):
    running = gateway(file(MEMORY)).wait_for_start()
    tasks = list(pathlib.Path(f"/proc/{running.process.pid}/task").iterdir())
    assert len(tasks) > 1

    def confined(task):
        status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
        # The second step has a filter of its own.
        filters = int(status.get("Seccomp_filters", 2))
        return status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and filters >= 2

    wait_until(lambda: all(confined(task) for task in tasks))


def test_kernel_without_filters_is_refused_unless_the_operator_allows_it(gateway, file):
    prefix = [sys.executable, KERNEL]
    refused = gateway(file(MEMORY), prefix=prefix)
    assert refused.process.wait(timeout=30) == 1
    assert "This process is not confined: cannot filter system calls" in refused.log
    assert "--unconfined" in refused.log
    assert "Starting admin server" not in refused.log
    gateway("--unconfined", file(MEMORY), prefix=prefix).wait_for_start()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_ports_have_the_tls_of_the_file(gateway, file, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    text = MEMORY.replace("{", f'{{ "SSLCert": "{cert}", "SSLKey": "{key}",', 1)
    running = gateway(file(text))
    wait_until(lambda: "Starting server on" in running.log and listens(running.public))
    context = ssl.create_default_context(cafile=cert)

    def ask(port, line, body=b""):
        """The head of an answer over TLS."""
        head = f"{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as secured:
                secured.sendall(head.encode() + body)
                return secured.recv(4096).partition(b"\r\n\r\n")[0]

    for port in (running.public, running.admin):
        assert ask(port, "GET /").startswith(b"HTTP/1.1 200")
    login = ask(running.public, "POST /demo/_session", b'{"name":"joe","password":"password"}')
    (cookie,) = re.findall(rb"Set-Cookie: (.*)", login)
    assert b"; Secure" in cookie, login


def test_certificate_that_cannot_be_read_is_refused(file):
    path = file('{"SSLCert": "/no/cert", "SSLKey": "/no/key", "databases": {}}')
    status, _, errors = run(path)
    assert status == 1
    assert errors.startswith("divan-gateway: TLS cannot be served: the certificate /no/cert"), errors


def test_port_in_use_is_an_error_with_a_cure(gateway, file):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, _, errors = run("-adminInterface", f"127.0.0.1:{port}", file(MEMORY))
    assert status == 1
    assert f"divan-gateway: 127.0.0.1:{port} is in use by another process" in errors


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["no-such-file"], "no-such-file: there is no such file; name the configuration"),
        (["-interfce", ":1"], "-interfce is unknown; divan-gateway -help lists the flags"),
        (["-interface", "x"], '-interface: expected HOST:PORT or :PORT, found "x"'),
        (["-url", "walrus:dir"], "-url: saving to dir is not supported yet: expected"),
        (["-configServer", "http://x"], "-configServer: databases come from the file"),
    ],
)
def test_mistake_of_the_command_line_is_refused(arguments, expected):
    status, output, errors = run(*arguments)
    assert (status, output) == (1, "")
    assert errors.startswith(f"divan-gateway: {expected}"), errors


def test_mistake_of_the_file_names_line_and_column(file):
    path = file('{\n  "interface": ":4984",\n  "databases": []\n}')
    assert run(path)[2] == (
        f"divan-gateway: {path}:3:16: databases: expected an object, found an array\n"
    )


def test_help_and_version_are_printed():
    status, output, errors = run("-help")
    assert (status, errors) == (0, "") and "-adminInterface" in output
    assert run("--version") == (0, "0.1.0\n", "")
