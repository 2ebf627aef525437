"""`make install`: a node in a root without Swift, its manual page, completions and systemd unit."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from rig import sdk
from rig.node import ROOT, SERVER, Node, wait_until

PREFIX = "/usr/local"
VIEW = {"views": {"all": {"map": "function (doc, meta) { emit(meta.id, doc.n * 2); }"}}}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A root with an installed node and the libraries of this machine that it names, without Swift's."""
    if shutil.which("chrpath") is None:
        pytest.fail("chrpath is missing: make deps installs it")
    root = tmp_path_factory.mktemp("root")
    subprocess.run([ROOT / "docs/deploy/install", root], check=True, timeout=300)
    home = root / PREFIX.strip("/") / "lib/divan"
    for program in ("divan-server", "divan-script", "divan-gateway"):
        listed = subprocess.run(
            ["ldd", home / program], check=True, capture_output=True, text=True, timeout=60
        ).stdout
        assert "not found" not in listed, listed
        libraries = [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", listed)]
        for library in libraries:
            if home in library.parents:
                continue
            # Not from the toolchain: what is installed needs no other place.
            assert "swift" not in str(library), library
            copy = root / str(library).lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, copy)
    for name in ("proc", "dev", "tmp"):
        (root / name).mkdir(exist_ok=True)
    return root


class Installed(Node):
    """A node whose process has `root` as its root, and only its own mounts."""

    def __init__(self, root):
        super().__init__()
        self.root = root

    def command(self):
        return [
            "unshare",
            "--mount",
            "sh",
            "-euc",
            'mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"; exec chroot "$0" "$@"',
            str(self.root),
            f"{PREFIX}/bin/divan-server",
            "--data",
            "/data",
            *self.flags,
        ]


def test_installed_node_serves_a_client_and_a_view_without_swift(root):
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root may change the root of a process")
    with Installed(root) as node:
        node.start().provision().create_bucket("travel")
        client = sdk.connect(node)
        documents = client.bucket("travel").default_collection()
        documents.upsert("one", {"n": 21})
        assert documents.get("one").content_as[dict] == {"n": 21}
        client.close()
        # The function runs in divan-script, which is beside the server.
        path = "/couchBase/travel/_design/numbers"
        as_json = {"Content-Type": "application/json"}
        assert node.admin.request("PUT", path, json.dumps(VIEW), as_json).status == 201

        def rows():
            reply = node.admin.get(f"{path}/_view/all?stale=false&full_set=true")
            return reply.status == 200 and reply.json["rows"]

        assert wait_until(rows, 20) == [{"id": "one", "key": "one", "value": 42}]
        assert node.stop() == 0


def test_installed_files_are_whole_and_readable_by_every_user(root):
    prefix = root / PREFIX.strip("/")
    assert os.readlink(prefix / "bin/divan-server") == "../lib/divan/divan-server"
    unit = (prefix / "lib/systemd/system/divan.service").read_text()
    assert f"ExecStart={PREFIX}/bin/divan-server " in unit and "@BINDIR@" not in unit
    manual = (prefix / "share/man/man1/divan-server.1").read_text()
    completions = [
        (prefix / "share" / name).read_text()
        for name in (
            "bash-completion/completions/divan-server",
            "zsh/site-functions/_divan-server",
            "fish/vendor_completions.d/divan-server.fish",
        )
    ]
    help_text = subprocess.run(
        [SERVER, "--help"], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    flags = set(re.findall(r"^  (?:-h, )?--([a-z-]+)", help_text, re.M))
    assert {"data", "log-limit", "identity", "version", "help"} <= flags
    for flag in flags:
        assert f"Fl -{flag}" in manual, flag
        assert all(flag in text for text in completions), flag
    assert "subcommand" not in manual
    for path in prefix.rglob("*"):
        assert path.stat().st_mode & 0o444 == 0o444, path
    assert not list(prefix.rglob("*.new"))


def test_install_over_an_installed_node_replaces_its_files(root):
    program = root / PREFIX.strip("/") / "lib/divan/divan-server"
    before = program.stat().st_ino
    with open(program, "rb"):
        subprocess.run([ROOT / "docs/deploy/install", root], check=True, timeout=300)
    # Another file: the program of a running node is not written to.
    assert program.stat().st_ino != before


def test_relative_prefix_is_refused(tmp_path):
    refused = subprocess.run(
        [ROOT / "docs/deploy/install", tmp_path],
        env={**os.environ, "PREFIX": "usr"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 64 and "absolute" in refused.stderr
    assert not list(tmp_path.iterdir())


def analyze(*arguments):
    result = subprocess.run(
        ["systemd-analyze", *arguments],
        env={**os.environ, "SYSTEMD_COLORS": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return result.returncode, result.stdout + result.stderr


def test_unit_passes_the_checks_of_systemd(root, tmp_path):
    installed = root / PREFIX.strip("/") / "lib/systemd/system/divan.service"
    # `verify` looks for the program.
    unit = tmp_path / "divan.service"
    unit.write_text(installed.read_text().replace(PREFIX, f"{root}{PREFIX}"))
    code, told = analyze("verify", "--man=no", unit)
    assert code == 0 and "divan.service" not in told, told
    # In tenths: everything but the network, the processor's compiler and the root of the machine.
    code, told = analyze("security", "--offline=true", "--threshold=20", "--no-pager", unit)
    assert code == 0, told
    text = unit.read_text()
    for line in ("Type=notify", "User=divan", "UMask=0077", "WatchdogSec="):
        assert re.search(f"^{line}", text, re.M), line
    # With it the functions of views would be interpreted.
    assert not re.search("^MemoryDenyWriteExecute", text, re.M)
