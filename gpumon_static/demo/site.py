"""The demo's web server: the standard library's, on 127.0.0.1. A lab has nginx for this."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gpumon_static.demo import DEFAULT_PORT
from gpumon_static.errors import GpumonError


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing: the terminal is for the demo's own lines."""


@contextmanager
def serve_site(site: Path, port: int) -> Iterator[str]:
    """Serve the site; gives the URL. If the default port is taken, any free one is used."""
    with _bind(site, port) as server:
        # The default poll of half a second would be felt at the end.
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def _bind(site: Path, port: int) -> ThreadingHTTPServer:
    handler = partial(_Quiet, directory=str(site))
    try:
        return _Server(("127.0.0.1", port), handler)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and port == DEFAULT_PORT:
            return _Server(("127.0.0.1", 0), handler)
        raise GpumonError(f"cannot serve on port {port}: {error.strerror}") from error


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A browser that keeps its connection open must not hold up the end.
    block_on_close = False
