"""Delays of a node's disk: reads and syncs of its files take longer, as long as a test wants."""

import mmap
import pathlib
import struct
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).with_name("delays.c")


class Delays:
    """`prefix` begins the command of a node; the delays are zero at first, and apply at once."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="divan-delays-")
        library = pathlib.Path(self.directory.name) / "delays.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        path = pathlib.Path(self.directory.name) / "delays"
        path.write_bytes(bytes(8))
        self.file = open(path, "r+b")
        self.memory = mmap.mmap(self.file.fileno(), 8)
        self.prefix = ("env", f"LD_PRELOAD={library}", f"DIVAN_TEST_DELAYS={path}")

    def set(self, read=0.0, sync=0.0):
        """In seconds, for each call of the system."""
        self.memory[:] = struct.pack("II", int(read * 1e6), int(sync * 1e6))

    def close(self):
        self.memory.close()
        self.file.close()
        self.directory.cleanup()
