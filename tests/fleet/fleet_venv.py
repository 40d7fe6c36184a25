"""The virtual environment of the fleet's tests, outside the repository: PyPI's kubernetes-validate,
cloudcoil-models-prometheus-operator (types made from that operator's CRDs) and ray.

    python3 -m venv ~/.cache/camd/fleet-venv
    ~/.cache/camd/fleet-venv/bin/pip install kubernetes-validate cloudcoil-models-prometheus-operator ray

CAMD_FLEET_VENV names another folder.
"""

import os
import sys
from pathlib import Path

FOLDER = Path(os.environ.get("CAMD_FLEET_VENV", "~/.cache/camd/fleet-venv")).expanduser()
HINT = f"python3 -m venv {FOLDER} && {FOLDER}/bin/pip install kubernetes-validate cloudcoil-models-prometheus-operator ray"


def enter() -> None:
    """Goes on in the virtual environment where it is there."""
    python = FOLDER / "bin/python3"
    if python.exists() and Path(sys.prefix) != FOLDER:
        os.execv(python, [str(python), *sys.argv])
