"""Servers over TLS: both prove certificates of P-256 by the same library."""

import glob
import os
import re
import socket
import ssl
import subprocess
import time

from .servers import Divan, Failure, Memcached, Server, free_port


def make_certificate(directory):
    """The paths of a certificate for 127.0.0.1, signed with its own key, and of the key."""
    certificate, key = (os.path.join(directory, name) for name in ("server.pem", "server.key"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", key, "-out", certificate, "-days", "30", "-subj", "/CN=peer",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )
    return certificate, key


class SecuredMemcached(Memcached):
    def __init__(self, core, megabytes=2048):
        super().__init__(core, megabytes)
        self.certificate, self.key = make_certificate(self.directory)

    def command(self):
        options = f"ssl_chain_cert={self.certificate},ssl_key={self.key}"
        return super().command() + ["-Z", "-o", options]

    def driver_arguments(self):
        return super().driver_arguments() + ["--cacert", self.certificate]


class SecuredDivan(Divan):
    """The load connects to the port with TLS, and trusts the CA of the cluster."""

    def await_ready(self):
        super().await_ready()
        self.secured = self.ready["kv_tls"]

    def provision(self, buckets=("bench",)):
        super().provision(buckets)
        self.authority = os.path.join(self.directory, "authority.pem")
        deadline = time.monotonic() + 10
        while True:
            try:
                text = self.request("/pools/default/certificate")
                break
            except Failure:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        with open(self.authority, "wb") as file:
            file.write(text)

    def driver_arguments(self, secured=True):
        arguments = super().driver_arguments()
        if secured:
            arguments[arguments.index("--port") + 1] = str(self.secured)
            arguments += ["--cacert", self.authority]
        return arguments


class PlainPortOf:
    """The same server for a load without TLS."""

    def __init__(self, divan):
        self.divan, self.name = divan, divan.name

    def driver_arguments(self):
        return self.divan.driver_arguments(secured=False)


class StockServer(Server):
    """The server of OpenSSL's command, which sends no tickets, as Divan."""

    name = "openssl"

    def command(self):
        certificate, key = make_certificate(self.directory)
        return ["openssl", "s_server", "-quiet", "-accept", f"127.0.0.1:{self.port}",
                "-cert", certificate, "-key", key, "-num_tickets", "0"]


def processor_seconds(pid):
    """The processor time of all threads, in the resolution of the scheduler."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path) as line:
            total += int(line.read().split()[0])
    return total / 1e9


def handshake_seconds(server, port, plan):
    """The server's processor time of one full handshake of TLS 1.3."""
    before = processor_seconds(server.pid)
    done = subprocess.run(
        ["taskset", "-c", str(plan.driver.core), "openssl", "s_time", "-connect", f"127.0.0.1:{port}",
         "-new", "-tls1_3", "-time", str(max(1, round(plan.seconds)))],
        capture_output=True, text=True, timeout=60,
    )
    used = processor_seconds(server.pid) - before
    found = re.search(r"(\d+) connections in [\d.]+ real seconds", done.stdout)
    if found is None or int(found[1]) == 0:
        raise Failure(f"no handshake with {server.name}: {done.stdout} {done.stderr}")
    return used / int(found[1])


def idle_bytes(divan, count):
    """Growth of private memory by idle connections after a handshake."""
    context = ssl.create_default_context(cafile=divan.authority)

    def connect():
        own = socket.create_connection(("127.0.0.1", divan.secured), 10)
        return context.wrap_socket(own, server_hostname="127.0.0.1")

    # The first ones fill what all connections share.
    held = [connect() for _ in range(100)]
    time.sleep(1)
    before = divan.anonymous_bytes()
    held += [connect() for _ in range(count)]
    time.sleep(1)
    growth = divan.anonymous_bytes() - before
    for each in held:
        each.close()
    return growth / count
