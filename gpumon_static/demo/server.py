"""SSH hosts on 127.0.0.1: paramiko's server side, one listening socket per host, one thread that accepts."""

from __future__ import annotations

import logging
import os
import selectors
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)

logging.getLogger("paramiko").addHandler(logging.NullHandler())

AT_ONCE = 8
"""Probes that run at the same time: each is a dozen short processes."""
LONGEST = 60.0
"""Seconds that a command may take."""
MOST_INPUT = 1024 * 1024

Environment = Callable[[str], Mapping[str, str]]
"""The environment in which a host, by name, runs a command at this moment."""


class SshServer:
    """Listens for all hosts; each connection is a thread of paramiko, each command one more."""

    def __init__(self, host_key: paramiko.PKey, client_key: paramiko.PKey, environment: Environment) -> None:
        self._host_key = host_key
        self._client_key = client_key
        self._environment = environment
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._selector = selectors.DefaultSelector()
        self._transports: list[paramiko.Transport] = []
        self._wake, self._wakened = socket.socketpair()
        self._selector.register(self._wakened, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._accept, name="demo-accept", daemon=True)

    def listen(self, name: str) -> int:
        """Returns the port that the system chose."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, name)
        return int(listener.getsockname()[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._wake.close()
        if self._thread.is_alive():
            self._thread.join()
        for transport in self._transports:
            transport.close()
        # A command ends soon after its connection; then all places are free.
        for _ in range(AT_ONCE):
            self._places.acquire(timeout=1)
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    def _accept(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._wakened:
                    return
                assert isinstance(key.fileobj, socket.socket)
                with suppress(OSError):
                    connection, _ = key.fileobj.accept()
                    self._welcome(connection, key.data)

    def _welcome(self, connection: socket.socket, name: str) -> None:
        connection.setblocking(True)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = paramiko.Transport(connection)
        transport.daemon = True
        transport.add_server_key(self._host_key)
        self._transports = [t for t in self._transports if t.is_alive()] + [transport]
        session = _Session(self._client_key, lambda: self._environment(name), self._places)
        # With an event it does not wait for the handshake, which depends on the client.
        transport.start_server(event=threading.Event(), server=session)


class _Session(paramiko.ServerInterface):
    """One login: only the demo's own key, and only commands."""

    def __init__(
        self,
        client_key: paramiko.PKey,
        environment: Callable[[], Mapping[str, str]],
        places: threading.BoundedSemaphore,
    ) -> None:
        self._client_key = client_key
        self._environment = environment
        self._places = places

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:  # noqa: ARG002
        return AUTH_SUCCESSFUL if key == self._client_key else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._answer, args=(channel, command), daemon=True).start()
        return True

    def _answer(self, channel: paramiko.Channel, command: bytes) -> None:
        # The client may disconnect at any point, and reports that itself.
        with suppress(OSError, EOFError, paramiko.SSHException, ValueError):
            try:
                arguments = shlex.split(command.decode())
                stdin = _read_all(channel)
                with self._places:
                    output, errors, status = _run(arguments, stdin, self._environment(), channel)
                channel.sendall(output)
                channel.sendall_stderr(errors)
                channel.send_exit_status(status)
            finally:
                channel.close()


def _read_all(channel: paramiko.Channel) -> bytes:
    channel.settimeout(LONGEST)
    data = bytearray()
    while len(data) < MOST_INPUT and (chunk := channel.recv(65536)):
        data += chunk
    return bytes(data)


def _run(
    arguments: list[str], stdin: bytes, environment: Mapping[str, str], channel: paramiko.Channel
) -> tuple[bytes, bytes, int]:
    """Run a command until it ends, its client disconnects, or after `LONGEST`; no process is left."""
    if channel.closed:
        raise EOFError
    end = time.monotonic() + LONGEST
    pipe = subprocess.PIPE
    # A file, not a pipe: some releases of Python lose unwritten input when communicate() is called again.
    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        with subprocess.Popen(
            arguments, stdin=file, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
        ) as process:
            try:
                while True:
                    try:
                        output, errors = process.communicate(timeout=0.25)
                        return output, errors, process.returncode
                    except subprocess.TimeoutExpired:
                        if channel.closed or time.monotonic() > end:
                            raise EOFError from None
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
