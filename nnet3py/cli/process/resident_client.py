"""What launchers run under ``nnet3py resident``: it lets the resident process run the command, and waits for its end.

It imports next to nothing, since the time to start is what is to be saved. If the resident process cannot be reached,
or does not take the command, the launcher does what it does otherwise.
"""
import _signal
import _socket
import os
import sys

VARIABLE = "NNET3PY_RESIDENT"            # the socket's path
JOINED, APART = b"j", b"a"               # the answer: the command runs, in the caller's process group or outside
EXITED, KILLED = 0, 1                    # how it ended; the second byte is the exit status or the signal
_STREAMS = (0, 1, 2)
_FATAL = 255


def main() -> None:
    """``resident_client.py LAUNCHER NAME [ARG …]``: end as the command ends."""
    launcher, name, *words = sys.argv[1:]
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    path = os.environ.pop(VARIABLE)
    try:
        if connection.fileno() <= _STREAMS[-1]:          # one of them is closed, which cannot be handed on
            raise OSError
        connection.connect(path)
        streams = b"".join(number.to_bytes(4, sys.byteorder) for number in _STREAMS)
        connection.sendmsg([b"\0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        answer = connection.recv(1)
    except OSError:
        answer = b""
    if answer not in (JOINED, APART):
        connection.close()
        os.execv(launcher, [launcher, *words])
    for number in (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGINT):
        if _signal.getsignal(number) not in (_signal.SIG_IGN, None):
            _signal.signal(number, lambda number, frame: connection.send(bytes([number])))
    if answer == JOINED:                 # a terminal sends it to both
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    end = connection.recv(2)
    if len(end) < 2:
        os.write(2, f"{name}: the process of nnet3py resident, which ran it, is gone\n".encode())
        os._exit(_FATAL)
    if end[0] == KILLED:
        _signal.signal(end[1], _signal.SIG_DFL)
        os.kill(os.getpid(), end[1])
    os._exit(end[1])


if __name__ == "__main__":
    main()
