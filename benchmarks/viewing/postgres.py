"""PostgreSQL, as a server under test and by its simple protocol, without a client library."""

import glob
import os
import pwd
import shutil
import socket
import struct
import subprocess
import time

from comparison.servers import Failure, Server, connect

ACCOUNT = "postgres"


def programs():
    """The directory of the newest release's programs, or None if none is installed."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    return max((os.path.dirname(each) for each in found),
               key=lambda each: int(each.split("/")[-2]), default=None)


class Postgres(Server):
    """A server with a fresh directory. It refuses to run as root, and then is of its own account."""

    name = "postgres"

    def __init__(self, core):
        super().__init__(core)
        self.data = os.path.join(self.directory, "data")
        self.become = []
        if os.geteuid() == 0:
            account = pwd.getpwnam(ACCOUNT)
            os.chown(self.directory, account.pw_uid, account.pw_gid)
            self.become = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}",
                           "--clear-groups"]

    def __enter__(self):
        try:
            self.create()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def create(self):
        done = subprocess.run(
            self.become + [os.path.join(programs(), "initdb"), "-D", self.data, "-U", ACCOUNT,
                           "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            capture_output=True, text=True, cwd=self.directory)
        if done.returncode:
            raise Failure(f"initdb: {done.stderr.strip()}")

    def command(self):
        return self.become + [
            os.path.join(programs(), "postgres"), "-D", self.data, "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.data}",
            "-c", "shared_buffers=1GB", "-c", "fsync=off",
        ]

    def connection(self):
        deadline = time.monotonic() + 30
        while True:
            try:
                return Session(self.port)
            except (OSError, Failure):  # It still starts up.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def release(self):
        done = subprocess.run([os.path.join(programs(), "postgres"), "--version"],
                              capture_output=True, text=True)
        return done.stdout.split()[2]

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class Session:
    """One connection, whose queries are the messages of the simple protocol."""

    def __init__(self, port):
        self.socket = connect(port, 300)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb", 1 << 16)
        body = struct.pack(">I", 196_608) + f"user\0{ACCOUNT}\0database\0postgres\0\0".encode()
        self.socket.sendall(struct.pack(">I", 4 + len(body)) + body)
        self.pid = None
        for kind, content in self.messages():
            if kind == b"K":
                self.pid = struct.unpack(">I", content[:4])[0]
            elif kind == b"R" and content[:4] != bytes(4):
                raise Failure("PostgreSQL asks for a password")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.reader.close()
        self.socket.close()

    @staticmethod
    def message(kind, content):
        return kind + struct.pack(">I", 4 + len(content)) + content

    def messages(self):
        """All messages until the server is ready for the next query."""
        while True:
            head = self.reader.read(5)
            if len(head) < 5:
                raise Failure("PostgreSQL closed a connection")
            kind, length = head[:1], struct.unpack(">I", head[1:])[0]
            content = self.reader.read(length - 4)
            if kind == b"E":
                fields = content.split(b"\0")
                text = next((each[1:] for each in fields if each[:1] == b"M"), content)
                raise Failure(f"PostgreSQL: {text.decode(errors='replace')}")
            if kind == b"Z":
                return
            yield kind, content
            if kind == b"G":  # It waits for the rows of COPY.
                return

    def query(self, text):
        return self.message(b"Q", text.encode() + b"\0")

    def exchange(self, query):
        """Sends a prepared message; returns the number of rows."""
        self.socket.sendall(query)
        return sum(kind == b"D" for kind, _ in self.messages())

    def run(self, text):
        return self.exchange(self.query(text))

    def first(self, text):
        """The first column of all rows."""
        self.socket.sendall(self.query(text))
        found = []
        for kind, content in self.messages():
            if kind == b"D":
                length = struct.unpack(">i", content[2:6])[0]
                found.append(content[6:6 + length].decode())
        return found

    def copy(self, table, lines):
        """Stores rows; a line has tabs between its columns and no end."""
        self.run(f"COPY {table} FROM STDIN")
        batch = []
        for line in lines:
            batch.append(self.message(b"d", line + b"\n"))
            if len(batch) == 1_000:
                self.socket.sendall(b"".join(batch))
                batch = []
        self.socket.sendall(b"".join(batch) + self.message(b"c", b""))
        for _ in self.messages():
            pass
