"""Disks of a few megabytes, mounted while a test runs; only root can."""

import ctypes
import os
import pathlib
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2
MS_REMOUNT = 32


class Impossible(Exception):
    """Nothing can be mounted here."""


class SmallDisk:
    def __init__(self, megabytes):
        if os.getuid() != 0:
            raise Impossible("only root can mount a small disk")
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="divan-disk-"))
        if self._mount(megabytes, 0) != 0:
            reason = os.strerror(ctypes.get_errno())
            self.path.rmdir()
            raise Impossible(f"cannot mount a tmpfs here: {reason}")

    def _mount(self, megabytes, flags):
        options = f"size={megabytes}m".encode()
        return LIBC.mount(b"divan", str(self.path).encode(), b"tmpfs", flags, options)

    def resize(self, megabytes):
        if self._mount(megabytes, MS_REMOUNT) != 0:
            raise OSError(ctypes.get_errno(), "cannot resize the disk")

    @property
    def free_bytes(self):
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def close(self):
        LIBC.umount2(str(self.path).encode(), MNT_DETACH)
        self.path.rmdir()
