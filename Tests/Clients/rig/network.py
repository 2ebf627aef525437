"""Machines as network namespaces of this one, on one switch, with links that can be cut.

Nothing outside of them changes: switch and cables are in namespaces as well. Only root may make
them; `Impossible` says why where they cannot be made.
"""

import contextlib
import ctypes
import os
import pathlib
import subprocess

import pytest

from .node import Node

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
NAMESPACES = pathlib.Path("/run/netns")
FILES = pathlib.Path("/etc/netns")
PREFIX = "divan"
# An unused address: packets to it reach every port of the switch, and no machine accepts them.
NOWHERE = "02:00:00:00:ff:ff"


class Impossible(Exception):
    """Namespaces cannot be made here."""


def ip(*words):
    try:
        result = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20)
    except FileNotFoundError as error:
        raise Impossible("there is no `ip` command (iproute2)") from error
    if result.returncode != 0:
        raise Impossible(f"ip {' '.join(words)}: {result.stderr.strip()}")
    return result.stdout


def remove_leftovers():
    """Removes namespaces of killed runs."""
    if not NAMESPACES.exists():
        return
    for path in NAMESPACES.glob(f"{PREFIX}-*-*"):
        owner = path.name.split("-")[1]
        if owner.isdecimal() and not pathlib.Path(f"/proc/{owner}").exists():
            remove(path.name)


def remove(namespace):
    # Without the command there is none to remove, and the reason was reported before.
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["ip", "netns", "del", namespace], capture_output=True, timeout=20)
    with contextlib.suppress(OSError):
        (FILES / namespace / "hosts").unlink()
        (FILES / namespace).rmdir()
        FILES.rmdir()


class Network:
    """Machines by name, each with an address; all names are known on all of them."""

    def __init__(self, names):
        self.addresses = {name: f"10.213.7.{place + 1}" for place, name in enumerate(names)}
        self.cuts = set()
        if os.getuid() != 0:
            raise Impossible("only root can make network namespaces")
        remove_leftovers()
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self):
        switch = self.namespace("switch")
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        hosts = "127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for name, address in self.addresses.items()
        )
        for name, address in self.addresses.items():
            inside = self.namespace(name)
            ip("netns", "add", inside)
            ip("-n", inside, "link", "add", "eth0", "type", "veth", "peer", name, "netns", switch)
            ip("-n", switch, "link", "set", name, "master", "bridge", "up")
            ip("-n", inside, "link", "set", "lo", "up")
            ip("-n", inside, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", inside, "link", "set", "eth0", "up")
            (FILES / inside).mkdir(parents=True, exist_ok=True)
            (FILES / inside / "hosts").write_text(hosts)

    def close(self):
        for name in (*self.addresses, "switch"):
            remove(self.namespace(name))

    @staticmethod
    def namespace(name):
        return f"{PREFIX}-{os.getpid()}-{name}"

    def command(self, name):
        """The prefix of a command that runs there; the process number stays the same."""
        return ["ip", "netns", "exec", self.namespace(name)]

    @contextlib.contextmanager
    def inside(self, name):
        """Opens the sockets of this thread, and of threads that it starts, on that machine."""
        with open("/proc/thread-self/ns/net", "rb") as home:
            with open(NAMESPACES / self.namespace(name), "rb") as there:
                enter(there)
            try:
                yield self
            finally:
                enter(home)

    def sources(self, name):
        """Makes a machine have 65 000 more addresses, which no other machine has seen, and iterates over them."""
        block = "10.214.0.0/16"
        ip("-n", self.namespace(name), "route", "add", "local", block, "dev", "lo")
        for other in self.addresses:
            if other != name:
                ip("-n", self.namespace(other), "route", "add", block, "via", self.addresses[name])
        return (f"10.214.{number >> 8}.{number & 255}" for number in range(1, 0xffff))

    # Cutting: packets are dropped silently

    def cut(self, source, target):
        """Drops packets from `source` to `target`; the other direction stays open."""
        self._route(source, target, "replace", "lladdr", NOWHERE, "nud", "permanent")
        self.cuts.add((source, target))

    def cut_off(self, name, talks=False, hears=False, others=None):
        """Cuts a machine off from other machines: its link to the client stays."""
        for other in others or [each for each in self.addresses if each not in (name, "client")]:
            if not talks:
                self.cut(name, other)
            if not hears:
                self.cut(other, name)

    def heal(self):
        for source, target in self.cuts:
            self._route(source, target, "del")
        self.cuts = set()

    def _route(self, source, target, verb, *words):
        place = (self.addresses[target], *words, "dev", "eth0")
        ip("-n", self.namespace(source), "neighbour", verb, *place)

    def unplug(self, name):
        """Takes a machine's link down: the machine notices."""
        ip("-n", self.namespace("switch"), "link", "set", name, "down")

    def plug(self, name):
        ip("-n", self.namespace("switch"), "link", "set", name, "up")


@contextlib.contextmanager
def opened(names):
    """Machines, and that of the client, in which the caller opens its sockets; skips where there can be none."""
    try:
        network = Network([*names, "client"])
    except Impossible as reason:
        pytest.skip(f"NOT TESTED: no network namespaces here: {reason}")
    try:
        with network.inside("client"):
            yield network
    finally:
        network.close()


def enter(namespace):
    if LIBC.setns(namespace.fileno(), CLONE_NEWNET) != 0:
        raise Impossible(f"setns: {os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def node_elsewhere(has_name=False):
    """A provisioned node on a machine of its own, and its `network`; the body opens its sockets on another one.

    `has_name` gives the node its address as --host-name.
    """
    with opened(["db1"]) as network:
        address = network.addresses["db1"]
        flags = ("--bind", "0.0.0.0", *(("--host-name", address) if has_name else ()))
        with Node(*flags, host=address, prefix=network.command("db1")) as node:
            node.start().provision()
            node.network = network
            yield node
