"""Client that launchers run under ``nnet3py resident``: the resident process runs the command, the client waits for it.

The client imports next to nothing, since its purpose is a short start. If the resident process cannot be reached or
refuses the command, the launcher starts the command in a process of its own.
"""
import _signal
import _socket
import os
import sys

VARIABLE = "NNET3PY_RESIDENT"            # environment variable with the path of the server's socket
JOINED, APART = b"j", b"a"               # server's answer: the command runs, in the caller's process group or outside
EXITED, KILLED = 0, 1                    # first byte of the server's last message; the second is the status or signal
_STREAMS = (0, 1, 2)
_FATAL = 255


def main() -> None:
    """Run ``resident_client.py LAUNCHER NAME [ARG …]``; exit with the command's status, or die of its signal."""
    launcher, name, *words = sys.argv[1:]
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    path = os.environ.pop(VARIABLE)
    try:
        if connection.fileno() <= _STREAMS[-1]:          # a standard stream is closed, which cannot be handed on
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
    if answer == JOINED:                 # a terminal sends the signal to both processes
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    end = connection.recv(2)
    if len(end) < 2:
        os.write(2, f"{name}: the process of nnet3py resident, which ran this command, is gone\n".encode())
        os._exit(_FATAL)
    if end[0] == KILLED:
        _signal.signal(end[1], _signal.SIG_DFL)
        os.kill(os.getpid(), end[1])
    os._exit(end[1])


if __name__ == "__main__":
    main()
