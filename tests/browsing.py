"""Pages in a headless Chromium: what is drawn, what goes wrong, what is asked for.

A page is served from this machine with a script before all else of it that keeps errors, warnings
and stopped requests, and posts them once the charts are drawn. Its policy allows what a page that
needs nothing else does: every other request is stopped by the browser and counts as wrong.
"""

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from sql_files import sql_of

#: Put before all else of a page: keeps what goes wrong, and tells the test once all is drawn.
_WATCH = sql_of(__file__, "watch.html")
#: What a page may do that needs nothing else; all other requests are stopped, and told of.
_ALONE = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src data: 'self'"
)


@pytest.fixture
def browse(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """``browse(path, charts="0")``: what a browser saw of a page once its charts were drawn.

    ``charts`` is JavaScript for how many there should be, ``width`` that of the page in a frame. A
    button in the navigation is clicked. Without a Chromium the test is skipped.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium on the PATH (Debian's package: chromium)")

    def call(path: Path, charts: str = "0", width: int = 1400) -> dict[str, Any]:
        text = path.read_text(encoding="utf-8")
        watched = text.replace("<head>", "<head>" + _WATCH.replace("CHARTS", charts), 1)
        seen: dict[str, Any] = {"asked": []}
        told = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                frame = self.path == "/frame"
                if not frame:
                    seen["asked"].append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                if not frame:
                    self.send_header("Content-Security-Policy", _ALONE)
                self.end_headers()
                # A window has a least width, a frame has none.
                style = f"width:{width}px;height:900px;border:0"
                framed = f"<link rel=icon href=data:,><iframe src=/ style='{style}'></iframe>"
                self.wfile.write((framed if frame else watched).encode())

            def do_POST(self) -> None:
                seen.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()
                told.set()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            command = [
                program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--no-first-run", "--disable-background-networking", "--disable-component-update",
                "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}",
                "--window-size=1600,1000", f"http://127.0.0.1:{server.server_port}/frame",
            ]  # fmt: skip
            output = tmp_path / "chromium.log"
            with (
                output.open("wb") as log,
                subprocess.Popen(
                    command, stdout=log, stderr=log, start_new_session=True
                ) as browser,
            ):
                try:
                    assert told.wait(90), output.read_text(errors="replace")[-2000:]
                finally:
                    os.killpg(browser.pid, signal.SIGKILL)
            server.shutdown()
        return seen

    return call
