"""What operating systems do differently, with substitutes where one lacks something. Light: the standard library only.

Everything that POSIX has and others may not have (locks, signals, groups of processes, a shell, limits, the functions
of the C library) is called from here. What counts is whether a thing is there, not the name of the system; Windows'
own way is taken where POSIX's is missing. ``watcher.py`` imports this file by its path.
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
"""For ``os.open``: bytes as they are, and no descriptor for programs that are started."""
UNFOLLOWED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""For ``os.open``: no symbolic link is followed, and no fifo waited for."""
HAS_OWNERS = hasattr(os, "geteuid")
"""Whether files belong to users, and say by their mode who may write them."""
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_FAR = 1 << 40              # where Windows' locks are, which forbid reading what they lock


def _seek_and_read(descriptor: int, size: int, offset: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


read_at: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)
"""``read_at(descriptor, size, offset)``: bytes of a file; where it stands is undefined afterwards."""


def device_path(path: str) -> str:
    """``/dev/null``, the device that discards everything, as this system calls it; other names as they are."""
    return os.devnull if path == "/dev/null" else path


def set_mode(descriptor: int, mode: int) -> None:
    """Set the mode of an open file, where the system can do that. Raises OSError."""
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
    """Return whether files can be locked at all."""
    return fcntl is not None or msvcrt is not None


def lock_range(descriptor: int, start: int = 0, length: int = 0) -> bool:
    """Lock bytes of a file (length 0: all of them) for this process, unless another has done so.

    Without waiting; returns whether it could be done. The lock ends with the process, and, with POSIX's, when the
    process closes any descriptor of the file. A process does not exclude itself. OSError where files cannot be locked.
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
    """Give back what :func:`lock_range` locked. Raises OSError."""
    if fcntl is not None:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, length, start)
    elif msvcrt is not None:
        _lock_by_windows(descriptor, start, False)


def lock_open_file(descriptor: int) -> bool:
    """Lock a file for whoever has this descriptor: also other descriptors of the same process are excluded.

    Without waiting; returns False if it is locked already. True where files cannot be locked: nobody is kept out.
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
    """One byte, after all that files hold: a locked one cannot be read by others."""
    here = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _FAR + start, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK if lock else msvcrt.LK_UNLCK, 1)     # type: ignore[attr-defined]
    finally:
        os.lseek(descriptor, here, os.SEEK_SET)


def user_id() -> int:
    """Return the number of the user whose rights this process has; only where :data:`HAS_OWNERS`."""
    return os.geteuid()


def is_private_group(group: int) -> bool:
    """Return whether nobody but the caller and root is in a group: root's own, and the caller's where each user has one."""
    import grp
    import pwd

    try:
        group_entry, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
    except KeyError:
        return group == 0
    is_own = user.pw_gid == group and group_entry.gr_name == user.pw_name
    return (is_own or group == 0) and set(group_entry.gr_mem) <= {user.pw_name, "root"}


# -- programs ----------------------------------------------------------------------------------------------------------

SIGPIPE = 13                # the signal that ends a program whose reader went away
ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""By which others end a process."""
_NEW_GROUP_ON_WINDOWS = 0x200           # subprocess.CREATE_NEW_PROCESS_GROUP
NEW_GROUP: dict[str, Any] = ({"start_new_session": True} if hasattr(os, "setsid")
                             else {"creationflags": _NEW_GROUP_ON_WINDOWS})
"""For ``subprocess.Popen``: a program whose descendants can be ended with it, by :func:`end_groups`."""
PATIENCE = 2.0   # seconds between SIGTERM, at which commands remove their temporary files, and SIGKILL
_POLL = 0.02     # seconds


CAN_FORK = hasattr(os, "fork") and sys.platform != "darwin"
"""Whether a process can be copied that has loaded libraries; those of macOS forbid it."""


def fork() -> int:
    """Copy this process: 0 in the copy, the copy's number in this one. Only where :data:`CAN_FORK`.

    No other thread may be at work: what it holds would be held for ever in the copy.
    """
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)      # of threads, which BLAS ends before each fork
        return os.fork()


def close_files_from(first: int) -> None:
    """Close all files of this process from a descriptor on."""
    os.closerange(first, open_file_limit() or os.sysconf("SC_OPEN_MAX"))


TELLS_OF_PROCESSES = os.path.exists("/proc/self/status") and hasattr(os, "sched_getaffinity")
"""Whether /proc says what a process was started with, as Linux's does."""

pipe_starter: Callable[[str, bool], Any] | None = None
"""``pipe_starter(command, reads)`` may start what a pipe names, and returns what a subprocess.Popen would be.

None, and what it returns None for, is left to a shell. ``reads``: this process reads what the command writes.
"""


def shell_words(command: str) -> list[str]:
    """Return the words that run a command line in POSIX's shell.

    Raises Nnet3Error where there is none: Windows has one with Git, MSYS2 or Cygwin, found on PATH.
    """
    return [_shell("sh"), "-c", command]


def bash_words(command: str) -> list[str]:
    """Return the words that run a command line in bash; a pipe fails if any of its programs does. Nnet3Error as above."""
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
    """End programs that were started with :data:`NEW_GROUP`, and all they started; returns when they are gone.

    They get SIGTERM, and SIGKILL if they are still there after ``PATIENCE`` seconds. Windows ends them at once.
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
    """Send a signal (0: none, only check) to a process group; returns whether the group exists."""
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
    # In a container there may be nobody to collect those that have ended: they would seem to exist for ever.
    living = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stream:
                    state, _, group = stream.read().rpartition(b")")[2].split()[:3]
            except OSError:
                continue                 # it went away meanwhile
            if state not in b"ZX":
                living.add(int(group))
    return alive & living


HANGUP: int = getattr(signal, "SIGHUP", 0)
"""The signal by which services are told to look at their files again, and programs that their terminal was closed."""


def has_terminal() -> bool:
    """Return whether this process has a terminal that controls it, which is still open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True


def call_at_signals(loop: Any, numbers: tuple[int, ...], function: Callable[[], Any]) -> None:
    """Let an event loop of asyncio call ``function`` when one of these signals comes."""
    for number in numbers:
        try:
            loop.add_signal_handler(number, function)
        except NotImplementedError:             # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(function))


# -- the machine, and this process's share of it -----------------------------------------------------------------------

def host_name() -> str:
    """Return the name of the machine, as ``uname -n`` says it."""
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
    """How many bytes of address space this process may have; None if that was not limited."""
    return _limit("RLIMIT_AS")


def open_file_limit() -> int | None:
    """How many files can be open at once in this process; None if that was not limited."""
    return _limit("RLIMIT_NOFILE")


def _limit(name: str) -> int | None:
    try:
        import resource
    except ImportError:         # Windows
        return None
    limit = int(resource.getrlimit(getattr(resource, name))[0])
    return None if limit == resource.RLIM_INFINITY else limit


def largest_memory() -> int | None:
    """Return the most bytes of memory that this process, or the largest of those it waited for, has had; None if unknown."""
    try:
        import resource
    except ImportError:         # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def resident_bytes() -> int | None:
    """Return the memory that this process has now; None where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


# -- the C library -----------------------------------------------------------------------------------------------------

_M_ARENA_MAX = -8           # of glibc's mallopt


def address_of_c_function(name: str) -> int:
    """Where a function of the C library is: ``read``, ``write`` or ``sched_yield``, or what does the same."""
    import ctypes

    if sys.platform == "win32":
        windows: Any = ctypes
        function = (windows.windll.kernel32.SwitchToThread if name == "sched_yield"
                    else getattr(ctypes.cdll.msvcrt, f"_{name}"))
    else:
        function = getattr(ctypes.CDLL(None), name)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def share_heaps(count: int) -> None:
    """Let threads share ``count`` heaps, where the C library is glibc.

    Else each thread has one of its own, which keeps room that others could use, and a server grows for hours.
    """
    mallopt = _function_of_c("mallopt")
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, count)


def give_back_memory() -> None:
    """Give memory that was freed back to the system, where the C library is glibc: elsewhere it decides that itself."""
    trim = _function_of_c("malloc_trim")
    if trim is not None:
        trim(0)


def _function_of_c(name: str) -> Any:
    """Return a function of the C library, where there is /proc; None if it has none of that name."""
    if not os.path.exists("/proc/self"):
        return None
    import ctypes

    return getattr(ctypes.CDLL(None), name, None)
