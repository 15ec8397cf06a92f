"""nginx serves the site while it is rendered again and again: every answer is a whole page."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

from tests.sshd import free_port, wait_for_port
from tests.torture.lab import Lab, Result

CLIENTS = 4
CONFIG = """
{user}daemon off; pid {base}/pid; error_log {base}/error; worker_processes 1;
events {{}}
http {{
  access_log off; gzip_static on; client_body_temp_path {base}/t1; proxy_temp_path {base}/t2;
  fastcgi_temp_path {base}/t3; uwsgi_temp_path {base}/t4; scgi_temp_path {base}/t5;
  types {{ text/html html; }}
  server {{ listen 127.0.0.1:{port}; root {site}; }}
}}
"""


def pages_under_load(directory: Path, times: int) -> Result:
    lab, result = Lab(directory / "lab"), Result("answers of nginx while pages are replaced")
    lab.goes_on()
    base, port = directory / "nginx", free_port()
    base.mkdir()
    directory.chmod(0o755)
    user = "user root; " if os.geteuid() == 0 else ""
    (base / "nginx.conf").write_text(CONFIG.format(user=user, base=base, port=port, site=lab.site))
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    server = subprocess.Popen([nginx, "-c", base / "nginx.conf", "-e", base / "error"])
    over = threading.Event()
    lock = threading.Lock()
    try:
        wait_for_port(port)
        clients = [
            threading.Thread(
                target=_look, args=(f"http://127.0.0.1:{port}/index.html", packed, over, lock, result)
            )
            for packed in (True, False) * (CLIENTS // 2)
        ]
        for client in clients:
            client.start()
        for _ in range(times):
            code, errors = lab.run("render")
            if code:
                result.note(f"render exits {code}: {errors}")
        over.set()
        for client in clients:
            client.join()
    finally:
        over.set()
        server.terminate()
        server.wait(120)
    return result


def _look(url: str, packed: bool, over: threading.Event, lock: threading.Lock, result: Result) -> None:
    while not over.is_set():
        told = None
        request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"} if packed else {})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                content = answer.read()
                if answer.headers.get("Content-Encoding") == "gzip":
                    content = gzip.decompress(content)
            if not content.rstrip().endswith(b"</html>"):
                told = f"half a page: {len(content)} bytes"
        except (OSError, EOFError) as error:
            told = f"{type(error).__name__}: {error}"
        with lock:
            result.note(told)
        time.sleep(0.002)
