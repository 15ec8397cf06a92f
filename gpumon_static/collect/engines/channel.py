"""Messages between a run and its worker processes: a length, then that many bytes, over a socket."""

from __future__ import annotations

import pickle
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_LENGTH = struct.Struct("!I")
_CHUNK = 1 << 16


class Channel:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._sending = threading.Lock()
        self._received = bytearray()

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, message: object) -> None:
        self.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def send_bytes(self, content: bytes) -> None:
        with self._sending:
            self.sock.sendall(_LENGTH.pack(len(content)) + content)

    def receive_bytes(self) -> bytes:
        """Wait for a whole message; raises `EOFError` when the other side is gone."""
        while True:
            for content in self._whole():
                return content
            self._read_more()

    def receive(self) -> Any:
        return pickle.loads(self.receive_bytes())  # noqa: S301 (our own run's)

    def messages(self) -> Iterator[Any]:
        """What has come by now, without waiting for the rest of a message; raises `EOFError`."""
        self._read_more()
        for content in self._whole():
            yield pickle.loads(content)  # noqa: S301 (our own worker's)

    def close(self) -> None:
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def _read_more(self) -> None:
        try:
            chunk = self.sock.recv(_CHUNK)
        except ConnectionError as error:
            raise EOFError from error
        if not chunk:
            raise EOFError
        self._received += chunk

    def _whole(self) -> Iterator[bytes]:
        while len(self._received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            content = bytes(self._received[_LENGTH.size : end])
            del self._received[:end]
            yield content
