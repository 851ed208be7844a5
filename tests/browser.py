"""A real browser, told what to do over a pipe: pages that live, at any width."""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
MISSING = "there is no Chromium on this machine; install the package chromium"
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()
LONG = 60.0  # seconds


class Tab:
    """One page of a browser; `said` is what went to its console, errors of the network too."""

    def __init__(self, folder):
        ours, theirs = os.pipe(), os.pipe()
        read, write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs[0], ours[1]))
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={folder}", "--remote-debugging-pipe"]
        with (folder.parent / f"{folder.name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", f'exec "$0" "$@" 3<&{read} 4>&{write}', *command],
                pass_fds=(read, write),
                stdout=log,
                stderr=log,
            )
        for fd in (read, write, theirs[0], ours[1]):
            os.close(fd)
        self.out, self.come = os.fdopen(theirs[1], "wb", 0), os.fdopen(ours[0], "rb", 0)
        self.number, self.held, self.said, self.session = 0, b"", [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **params):
        self.number += 1
        about = {} if self.session is None else {"sessionId": self.session}
        told = {"id": self.number, "method": method, "params": params} | about
        self.out.write(json.dumps(told).encode() + b"\0")
        while True:
            heard = self.hear()
            if heard.get("id") == self.number:
                assert "error" not in heard, heard
                return heard["result"]
            if heard.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.said.append(json.dumps(heard["params"]))

    def hear(self):
        while b"\0" not in self.held:
            more = self.come.read(2**16)
            assert more, "the browser is gone"
            self.held += more
        one, _, self.held = self.held.partition(b"\0")
        return json.loads(one)

    def open(self, address, width=1000, height=900, dark=False):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=address)

    def value(self, expression):
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression):
        deadline = time.monotonic() + LONG
        while not self.value(expression):
            assert time.monotonic() < deadline, (expression, self.value("document.body.innerText"))
            time.sleep(0.1)

    def picture(self, path):
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(shot))

    def close(self):
        with contextlib.suppress(OSError, AssertionError):
            self.session = None
            self.ask("Browser.close")
        self.process.kill()
        self.process.wait(LONG)
        self.out.close()
        self.come.close()


@contextlib.contextmanager
def tab(folder):
    opened = Tab(folder)
    try:
        yield opened
    finally:
        opened.close()
