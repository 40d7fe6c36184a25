"""A camd that answers HTTP, for as long as a test looks at it."""

import contextlib
import re
import subprocess
import threading
from pathlib import Path


@contextlib.contextmanager
def started(camd: str, config: str, folder: Path):
    """Runs a configuration whose http.listen has port 0. Gives the process and "ADDRESS:PORT"; ends it, which has to succeed."""
    path = folder / "c.yaml"
    path.write_text(config)
    run = subprocess.Popen([camd, "run", str(path), "--metrics", "json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log, rest = [], None
    try:
        while not (found := re.search(r"http: listening on ([0-9.]+:[0-9]+)", log[-1] if log else "")):
            line = run.stderr.readline()
            assert line, "camd has ended:\n" + "".join(log)
            log.append(line)
        rest = threading.Thread(target=lambda: log.extend(run.stderr))
        rest.start()
        yield run, found[1]
    finally:
        run.terminate()
        run.wait()
        if rest:
            rest.join()
    assert run.returncode == 0, "".join(log)
