# SPDX-License-Identifier: Apache-2.0
"""What some containers forbid."""
import ctypes
import errno
import platform
import struct

from failure import Unfit

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # of BPF
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
CALLS = {'x86_64': (101, 310), 'aarch64': (117, 270)}  # ptrace, process_vm_readv


class Program(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('filter', ctypes.c_char_p)]


def deny_ptrace():
    """For this process and all that it starts."""
    if platform.machine() not in CALLS:
        raise Unfit('no filter for this processor')
    ptrace, read_memory = CALLS[platform.machine()]
    steps = ((LOAD, 0, 0, 0), (EQUAL, 2, 0, ptrace), (EQUAL, 1, 0, read_memory), (RETURN, 0, 0, ALLOW),
             (RETURN, 0, 0, REFUSE))
    code = b''.join(struct.pack('HBBI', *step) for step in steps)
    program = Program(len(steps), code)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise Unfit('no seccomp filter: errno ' + str(ctypes.get_errno()))
