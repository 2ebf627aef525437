"""Libraries that stand between a node and its machine: delays of its disk, and a wrong clock."""

import mmap
import pathlib
import shutil
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent


def compiler():
    """A C compiler: the system's, or the one that the Swift toolchain brings."""
    swift = shutil.which("swift")
    beside = [str(pathlib.Path(swift).resolve().with_name("clang"))] if swift else []
    found = next(filter(None, map(shutil.which, ["cc", "gcc", "clang", *beside])), None)
    if found is None:
        raise FileNotFoundError("no C compiler: install gcc")
    return found


def build(name, directory):
    """The library of a source beside this file."""
    library = pathlib.Path(directory) / f"{name}.so"
    source = HERE / f"{name}.c"
    subprocess.run([compiler(), "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def wrong_clock(directory, seconds):
    """The begin of a command whose wall clock differs from the system's."""
    return ("env", f"LD_PRELOAD={build('clock', directory)}", f"DIVAN_TEST_CLOCK={seconds}")


class Delays:
    """`prefix` begins the command of a node; the delays are zero at first, and apply at once."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="divan-delays-")
        library = build("delays", self.directory.name)
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
