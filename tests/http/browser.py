"""A headless Chromium, driven by the DevTools protocol over a pipe: no port, no driver, no package of Python.

https://chromedevtools.github.io/devtools-protocol/: each message is JSON and ends with a NUL.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time


class Browser:
    """One page of a Chromium of its own. `patience`: seconds for each answer and each wait."""

    def __init__(self, folder: str, patience: float = 60):
        self.patience = patience
        self.events = []  # messages that answer nothing
        self._number = 0
        self._text = b""
        self._session = None
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4. High numbers first: 3 and 4 may be one of these.
        high = [os.dup(to_browser), os.dup(from_browser)]
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync",
                   "--remote-debugging-pipe", f"--user-data-dir={folder}/profile", "--window-size=1280,900"]
        self._process = subprocess.Popen(
            ["bash", "-c", 'exec 3<&"$0" 4>&"$1"; shift; exec "$@"', str(high[0]), str(high[1]), *command],
            pass_fds=high, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": folder, "DBUS_SESSION_BUS_ADDRESS": "/dev/null"})
        for one in (to_browser, from_browser, *high):
            os.close(one)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    @staticmethod
    def is_there() -> bool:
        return shutil.which("chromium") is not None

    def close(self) -> None:
        os.close(self._out)
        self._process.kill()
        self._process.wait()
        os.close(self._in)

    def call(self, method: str, **parameters) -> dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.patience
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") != self._number:
                self.events.append(answer)
                continue
            assert "error" not in answer, (method, answer["error"])
            return answer["result"]

    def _next(self, deadline: float, method: str) -> dict:
        while b"\0" not in self._text:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"Chromium does not answer {method}"
            some = os.read(self._in, 1 << 20)
            assert some, "Chromium has ended"
            self._text += some
        one, self._text = self._text.split(b"\0", 1)
        return json.loads(one)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def value(self, script: str):
        """What an expression is, or what its promise becomes."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_until(self, condition: str) -> None:
        """Until the expression is true. Fails where that takes longer than nine tenths of the patience."""
        ends = int(self.patience * 900)
        found = self.value(
            "new Promise(done => { const ends = performance.now() + " + str(ends) + "; const look = () => {"
            " let now; try { now = " + condition + "; } catch (error) { now = false; }"
            " if (now || performance.now() > ends) done(Boolean(now)); else setTimeout(look, 20); }; look(); })")
        assert found, f"did not come: {condition}\n{self.value('document.body?.innerText')}"

    def problems(self) -> list:
        """What went wrong in the page: exceptions, and what its policy has refused. An answer like 503 is no mistake."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded")
        found = [one["params"] for one in self.events if one.get("method") in kinds]
        return [one for one in found if one.get("entry", {}).get("source") != "network"]

    def screenshot(self, file: str) -> None:
        with open(file, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
