"""Runs a command under a kernel that refuses filters of system calls: `refusing_kernel.py COMMAND...`.

A filter of its own answers the system call `seccomp` with EPERM, as the profile of a container does. It
is set by `prctl`, and holds for the command and its children.
"""

import ctypes
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL_WITH_EPERM = 0x7FFF0000, 0x00050001
SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]

program = b"".join(
    struct.pack("=HBBI", *instruction)
    for instruction in [
        (LOAD_WORD, 0, 0, 0),
        (JUMP_IF_EQUAL, 0, 1, SECCOMP),
        (RETURN, 0, 0, FAIL_WITH_EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
)


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


libc = ctypes.CDLL(None, use_errno=True)
filter = Program(len(program) // 8, program)
for arguments in [
    (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
    (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter), 0, 0),
]:
    if libc.prctl(*arguments) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[1], sys.argv[1:])
