"""Run a program of a root as a container runtime would run an init container with one capability more.

    unshare --mount --net python contained.py ROOT USER CAPABILITY -- COMMAND...

No other capability can ever be had, no privilege gained, and what the file of the program holds is what it gets. Then
what the kernel has of rules is printed, by root.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 8, 24, 38
LAST_CAPABILITY = 40
VERSION_3 = 0x20080522
LIBC = ctypes.CDLL(None, use_errno=True)


class Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class Data(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def done(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def become(user: int, capability: int) -> None:
    """That user, with this capability at most, for good."""
    for each in range(LAST_CAPABILITY + 1):
        if each != capability:
            done(LIBC.prctl(PR_CAPBSET_DROP, each, 0, 0, 0))
    done(LIBC.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    bit = 1 << capability
    data = (Data * 2)(Data(bit, bit, 0), Data(0, 0, 0))
    done(LIBC.capset(ctypes.byref(Header(VERSION_3, 0)), data))
    done(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def main(root: str, user: str, capability: str, *command: str) -> int:
    os.chroot(root)
    os.chdir("/")
    child = os.fork()
    if not child:
        become(int(user), int(capability))
        os.execv(command[0], command)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        return code
    return subprocess.run(["/usr/sbin/nft", "list", "ruleset"], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:4], *sys.argv[5:]))
