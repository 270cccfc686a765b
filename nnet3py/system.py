"""Functions that differ between operating systems. Light: the standard library only.

All functions of POSIX that other systems may lack (locks, signals, process groups, a shell, limits, functions of the C
library) are called only in this module. It checks whether a function exists, not the name of the system; if POSIX's
function is missing, that of Windows is used. ``watcher.py`` imports this file by its path.
"""
from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

try:
    import fcntl
except ImportError:         # Windows
    fcntl = None            # type: ignore[assignment]
try:
    import msvcrt
except ImportError:         # POSIX
    msvcrt = None           # type: ignore[assignment]

# -- files -------------------------------------------------------------------------------------------------------------

PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
"""Flags for ``os.open``: bytes unchanged, and a descriptor that child programs do not inherit."""
UNFOLLOWED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags for ``os.open``: no symbolic link is followed, and opening a fifo does not block."""
HAS_OWNERS = hasattr(os, "geteuid")
"""Whether files have owners and modes."""
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_FAR = 1 << 40              # offset of Windows' locks, since locked bytes cannot be read


def _seek_and_read(descriptor: int, size: int, offset: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


read_at: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)
"""``read_at(descriptor, size, offset)`` reads bytes of a file; the file position is undefined afterwards."""


def device_path(path: str) -> str:
    """Return this system's path for ``/dev/null``, and any other path unchanged."""
    return os.devnull if path == "/dev/null" else path


def set_mode(descriptor: int, mode: int) -> None:
    """Set the permission bits of an open file, on systems that have them. Raises OSError."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)


def link_or_copy(target: str, path: str) -> None:
    """Make ``path`` a symbolic link to ``target``, or a copy of it where the user cannot make links. Raises OSError."""
    try:
        os.symlink(target, path)
    except (OSError, AttributeError, NotImplementedError):
        if not os.path.exists(os.path.join(os.path.dirname(path), target)) or os.path.lexists(path):
            raise
        from shutil import copy2

        copy2(os.path.join(os.path.dirname(path), target), path)


def can_lock() -> bool:
    """Return whether files can be locked."""
    return fcntl is not None or msvcrt is not None


def lock_range(descriptor: int, start: int = 0, length: int = 0) -> bool:
    """Lock bytes of a file (all for length 0) for this process, without waiting, and return whether it has the lock.

    The lock ends with the process, and on POSIX when the process closes any descriptor of the file. A process does not
    exclude itself. Raises OSError for files that cannot be locked.
    """
    try:
        if fcntl is not None:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
        elif msvcrt is not None:
            _lock_by_windows(descriptor, start, True)
        else:
            return False
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def unlock_range(descriptor: int, start: int = 0, length: int = 0) -> None:
    """Release the lock of :func:`lock_range`. Raises OSError."""
    if fcntl is not None:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, length, start)
    elif msvcrt is not None:
        _lock_by_windows(descriptor, start, False)


def lock_open_file(descriptor: int) -> bool:
    """Lock a file for this descriptor, without waiting; other descriptors, also of the same process, cannot lock it.

    Returns False for a file that is locked already, and True, without a lock, on systems that have none.
    """
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            _lock_by_windows(descriptor, 0, True)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _lock_by_windows(descriptor: int, start: int, lock: bool) -> None:
    """Lock or unlock a byte beyond the end of the file, since other processes could not read locked bytes."""
    here = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _FAR + start, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK if lock else msvcrt.LK_UNLCK, 1)     # type: ignore[attr-defined]
    finally:
        os.lseek(descriptor, here, os.SEEK_SET)


def user_id() -> int:
    """Return the effective user id of this process; to be called only if :data:`HAS_OWNERS`."""
    return os.geteuid()


def is_private_group(group: int) -> bool:
    """Return whether a group, root's or the caller's own, has no members except the caller and root."""
    import grp
    import pwd

    try:
        group_entry, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
    except KeyError:
        return group == 0
    is_own = user.pw_gid == group and group_entry.gr_name == user.pw_name
    return (is_own or group == 0) and set(group_entry.gr_mem) <= {user.pw_name, "root"}


# -- programs ----------------------------------------------------------------------------------------------------------

SIGPIPE = 13                # signal that ends a program whose output has no reader any more
ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals by which a process is asked to end."""
_NEW_GROUP_ON_WINDOWS = 0x200           # subprocess.CREATE_NEW_PROCESS_GROUP
NEW_GROUP: dict[str, Any] = ({"start_new_session": True} if hasattr(os, "setsid")
                             else {"creationflags": _NEW_GROUP_ON_WINDOWS})
"""Arguments of ``subprocess.Popen`` for a program whose descendants can be ended with it, by :func:`end_groups`."""
PATIENCE = 2.0   # seconds between SIGTERM, when commands remove their temporary files, and SIGKILL
_POLL = 0.02     # seconds


CAN_FORK = hasattr(os, "fork") and sys.platform != "darwin"
"""Whether a process that has loaded libraries can be forked, which those of macOS forbid."""


def fork() -> int:
    """Fork this process: return 0 in the child, the child's process id in the parent.

    To be called only if :data:`CAN_FORK`, and while no other thread runs: locks that it holds would never be released
    in the child.
    """
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)      # about threads, which BLAS ends before each fork
        return os.fork()


def close_files_from(first: int) -> None:
    """Close all descriptors of this process from ``first`` on."""
    os.closerange(first, open_file_limit() or os.sysconf("SC_OPEN_MAX"))


TELLS_OF_PROCESSES = os.path.exists("/proc/self/status") and hasattr(os, "sched_getaffinity")
"""Whether /proc has the command line and environment of processes, as on Linux."""

pipe_starter: Callable[[str, bool], Any] | None = None
"""Function ``pipe_starter(command, reads)`` that starts the command of a pipe, and returns an object like Popen.

If there is none, or it returns None, a shell runs the command. With ``reads`` this process reads the command's output.
"""


def shell_words(command: str) -> list[str]:
    """Return the words that run a command line in a POSIX shell.

    Raises Nnet3Error for a system without shell; Windows has one on PATH with Git, MSYS2 or Cygwin.
    """
    return [_shell("sh"), "-c", command]


def bash_words(command: str) -> list[str]:
    """Return the words that run a command line in bash, where a pipe fails if any of its programs does.

    Raises Nnet3Error for a system without bash.
    """
    return [_shell("bash"), "-o", "pipefail", "-c", command]


def _shell(name: str) -> str:
    if name == "sh" and os.path.exists("/bin/sh"):
        return "/bin/sh"
    from shutil import which

    path = which(name)
    if path is None:
        from nnet3py.errors import Nnet3Error

        raise Nnet3Error(f"pipes and jobs are run by {name}, and there is none on PATH",
                         "install it; for Windows it comes with Git" if os.name == "nt" else f"install {name}")
    return path


def end_groups(groups: set[int]) -> None:
    """End programs that were started with :data:`NEW_GROUP`, with their descendants, and wait until they have ended.

    They get SIGTERM, and SIGKILL after ``PATIENCE`` seconds. Windows ends them at once.
    """
    if not hasattr(os, "killpg"):
        _end_trees(groups)
        return
    for group in groups:
        _signal_group(group, signal.SIGTERM)
    left = _living_groups(groups)
    deadline = time.monotonic() + PATIENCE
    while left and time.monotonic() < deadline:
        time.sleep(_POLL)
        left = _living_groups(left)
    for group in left:
        _signal_group(group, signal.SIGKILL)


def _end_trees(processes: set[int]) -> None:
    import subprocess

    for process in processes:
        subprocess.run(["taskkill", "/PID", str(process), "/T", "/F"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)


def _signal_group(group: int, number: int) -> bool:
    """Send a signal (0 for none) to a process group, and return whether the group exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass             # a member changed its user, or (macOS) only zombies are left
    return True


def _living_groups(groups: set[int]) -> set[int]:
    """Return the process groups with a member that has not ended."""
    alive = {group for group in groups if _signal_group(group, 0)}
    if not alive or not os.path.exists("/proc/self/stat"):
        return alive
    # In a container zombies may stay for ever, since no process waits for them.
    living = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stream:
                    state, _, group = stream.read().rpartition(b")")[2].split()[:3]
            except OSError:
                continue                 # it has ended meanwhile
            if state not in b"ZX":
                living.add(int(group))
    return alive & living


HANGUP: int = getattr(signal, "SIGHUP", 0)
"""Signal for services to read their files again, and for programs whose terminal was closed."""


def has_terminal() -> bool:
    """Return whether this process has a controlling terminal that is still open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True


def call_at_signals(loop: Any, numbers: tuple[int, ...], function: Callable[[], Any]) -> None:
    """Let an event loop of asyncio call ``function`` when this process gets one of these signals."""
    for number in numbers:
        try:
            loop.add_signal_handler(number, function)
        except NotImplementedError:             # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(function))


# -- the machine, and this process's share of it -----------------------------------------------------------------------

def host_name() -> str:
    """Return the name of the machine, as ``uname -n`` prints it."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import platform

    return platform.node()


def available_cores() -> int:
    """Return the number of processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:     # not on macOS or Windows
        return os.cpu_count() or 1


def memory_limit() -> int | None:
    """Return the limit of this process's address space in bytes; None if there is none."""
    return _limit("RLIMIT_AS")


def open_file_limit() -> int | None:
    """Return the limit of open files of this process; None if there is none."""
    return _limit("RLIMIT_NOFILE")


def _limit(name: str) -> int | None:
    try:
        import resource
    except ImportError:         # Windows
        return None
    limit = int(resource.getrlimit(getattr(resource, name))[0])
    return None if limit == resource.RLIM_INFINITY else limit


def largest_memory() -> int | None:
    """Return the peak memory in bytes of this process or of the largest child it waited for; None if unknown."""
    try:
        import resource
    except ImportError:         # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def resident_bytes() -> int | None:
    """Return the resident memory of this process in bytes; None if unknown."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


# -- the C library -----------------------------------------------------------------------------------------------------

_M_ARENA_MAX = -8           # of glibc's mallopt


def address_of_c_function(name: str) -> int:
    """Return the address of ``read``, ``write`` or ``sched_yield`` of the C library, or of an equivalent function."""
    import ctypes

    if sys.platform == "win32":
        windows: Any = ctypes
        function = (windows.windll.kernel32.SwitchToThread if name == "sched_yield"
                    else getattr(ctypes.cdll.msvcrt, f"_{name}"))
    else:
        function = getattr(ctypes.CDLL(None), name)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def share_heaps(count: int) -> None:
    """Limit the number of heaps that threads share to ``count``, if the C library is glibc.

    With a heap for each thread, free memory of one cannot be used by others, and a server's memory grows for hours.
    """
    mallopt = _function_of_c("mallopt")
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, count)


def give_back_memory() -> None:
    """Return freed memory to the operating system, if the C library is glibc; other libraries do so by themselves."""
    trim = _function_of_c("malloc_trim")
    if trim is not None:
        trim(0)


def _function_of_c(name: str) -> Any:
    """Return a function of the C library on systems with /proc; None if it has no function of that name."""
    if not os.path.exists("/proc/self"):
        return None
    import ctypes

    return getattr(ctypes.CDLL(None), name, None)
