"""Looks at the live page of a camd with a headless Chromium.

usage: page_test.py CAMD SOURCE_FOLDER

Two cameras: the demo clip, with a zone, and one whose pictures come over a cable, a TCP connection that is pulled out.
"""

import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from browser import Browser
from started import started

CONFIG = """device: host
model: {{path: {source}/models/marker-640x360.onnx}}
cameras:
  - name: demo
    source: {{type: file, path: {source}/models/demo/demo.mp4, loop: true}}
  - name: cable
    source:
      type: gstreamer
      pipeline: "tcpclientsrc host=127.0.0.1 port={port} ! rawvideoparse format=gray8 width=64 height=48 framerate=10/1"
      timeout: 1s
      reconnect: {{initial: 100ms, max: 100ms}}
postprocess:
  - plugin: detections
  - plugin: track
  - plugin: zones
    config: {{picture: [200, 100], zones: [{{name: "a <b> & c", camera: demo, polygon: [[20, 50], [180, 50], [180, 100], [20, 100]]}}]}}
  - {{plugin: webhook, config: {{url: "http://127.0.0.1:9/", publish: frame}}}}  # nobody is there
metrics: {{period: 200ms}}
http: {{listen: "127.0.0.1:0"}}
"""


class Cable:
    """A camera's end of a TCP connection: sends a grey picture ten times a second, until it is pulled out."""

    def __init__(self):
        self.port = 0
        self._pulled = threading.Event()
        self._thread = None

    def plug(self) -> None:
        server = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.port = server.getsockname()[1]
        self._pulled = threading.Event()
        self._thread = threading.Thread(target=self._send, args=(server, self._pulled))
        self._thread.start()

    def pull(self) -> None:
        self._pulled.set()
        self._thread.join()

    @staticmethod
    def _send(server: socket.socket, pulled: threading.Event) -> None:
        server.settimeout(0.1)
        clients = []
        with server:
            while not pulled.wait(0.1):
                try:
                    clients.append(server.accept()[0])
                    server.settimeout(0)
                except OSError:
                    pass  # nobody has come
                for client in list(clients):
                    try:
                        client.sendall(bytes([128]) * (64 * 48))
                    except OSError:
                        clients.remove(client)
        for client in clients:
            client.close()


def look(page: Browser, cable: Cable, camd: subprocess.Popen) -> None:
    # Tiles appear, with pictures.
    page.wait_until("document.querySelectorAll('article.good').length === 2")
    page.wait_until("[...document.querySelectorAll('.name')].map(one => one.textContent).join() === 'demo,cable'")
    page.wait_until("at('sum').textContent.startsWith('2 of 2 cameras run')")
    page.wait_until("tiles.get('cable').size + '' === '64,48'")
    page.wait_until("Math.abs(tiles.get('cable').canvas.getContext('2d').getImageData(9, 9, 1, 1).data[0] - 128) < 3")

    # Boxes are those of the picture that is shown, and move.
    page.value("""globalThis.seen = new Set(); globalThis.wrong = 0;
        new MutationObserver(() => {
          const one = tiles.get('demo'), boxes = [...one.labels.querySelectorAll('.box')];
          if (boxes.length !== one.frames.get(one.sequence).detections.length) ++wrong;
          for (const box of boxes) seen.add(box.style.left);
        }).observe(tiles.get('demo').labels, { childList: true }); 0""")
    page.wait_until("seen.size > 5")
    assert page.value("wrong") == 0

    # The zone is drawn, and its name is a text and nothing else.
    assert page.value("document.querySelectorAll('#camera-demo .zone').length") == 1
    assert page.value("document.querySelectorAll('#camera-cable .zone').length") == 0
    assert page.value("tiles.get('demo').drawing.querySelector('.zone').points[0].x") == 0.1 * page.value("tiles.get('demo').size[0]")
    assert page.value("document.querySelector('.place').textContent").startswith("a <b> & c")
    page.wait_until("tiles.get('demo').history.length > 2 && tiles.get('demo').stages.textContent.includes('infer')")

    # An outlet is a row with the sums of its cameras, which a click shows.
    page.wait_until("document.querySelectorAll('#outlets tbody tr').length === 1 && document.querySelector('#outlets button').textContent === '2 cameras'")
    page.value("document.querySelector('#outlets button').click(); 0")
    page.wait_until("[...document.querySelectorAll('#outlets .of-camera')].map(row => row.children[1].textContent).join() === 'demo,cable'")
    page.wait_until("(([sum, ...of]) => sum > 0 && of.length === 2 && sum === of[0] + of[1])"
                    "([...document.querySelectorAll('#outlets tbody tr')].map(row => Number(row.children[2].textContent)))")
    page.value("document.querySelector('#outlets button').click(); 0")
    page.wait_until("document.querySelectorAll('#outlets tbody tr').length === 1")

    # A camera that is unplugged turns red, and comes back.
    cable.pull()
    page.wait_until("document.querySelector('#camera-cable.bad') && at('trouble').textContent.includes('cable')")
    assert page.value("tiles.get('cable').pill.textContent") in ("reconnecting", "stalled")
    assert page.value("getComputedStyle(tiles.get('cable').root).borderColor === getComputedStyle(at('link')).color"), "red"
    page.wait_until("document.querySelector('#camera-demo.good')")  # the other one runs
    cable.plug()
    page.wait_until("document.querySelector('#camera-cable.good') && at('trouble').textContent === ''")
    before = page.value("tiles.get('cable').sequence")
    page.wait_until(f"tiles.get('cable').sequence > {before}")

    # The policy lets no other script run, and has refused nothing of the page's own.
    assert page.problems() == [], page.problems()
    page.value("document.body.append(Object.assign(document.createElement('script'), {textContent: 'globalThis.ran = 1'}))")
    assert page.value("globalThis.ran") is None
    page.events.clear()

    # Nobody looks at a page in the background.
    page.value("Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
               "document.dispatchEvent(new Event('visibilitychange')); 0")
    assert page.value("feed") is None
    page.value("delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); 0")
    page.wait_until("feed.readyState === EventSource.OPEN")

    # The page says when camd is gone.
    camd.terminate()
    page.wait_until("at('link').textContent === 'no connection to camd'")


def main(camd: str, source: str) -> int:
    if not Browser.is_there():
        print("skipped: Debian's chromium is not installed")
        return 77
    cable = Cable()
    cable.plug()
    page = None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            with started(camd, CONFIG.format(source=source, port=cable.port), Path(folder)) as (run, address):
                page = Browser(folder)
                page.open(f"http://{address}/")
                look(page, cable, run)
        finally:
            if page:
                page.close()
            cable.pull()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
