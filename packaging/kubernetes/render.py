#!/usr/bin/env python3
"""Prints the Kubernetes manifests of a fleet of camds with one configuration (docs/fleet.md).

    render.py CONFIG --shards N --image IMAGE [--gpus N] [--no-monitor] | kubectl apply -f -

Needs Python alone.
"""

import argparse
import hashlib
import string
from pathlib import Path

TEMPLATE = Path(__file__).with_name("camd.yaml.in")


def manifests(config: str, shards: int, image: str, gpus: int = 1, monitor: bool = True) -> str:
    text = string.Template(TEMPLATE.read_text()).substitute(
        # "|2" of the template: the block's indentation is told, so that the text may begin with spaces.
        CONFIG="".join(f"    {line}".rstrip() + "\n" for line in config.splitlines()).rstrip("\n"),
        CHECKSUM=hashlib.sha256(config.encode()).hexdigest(),
        SHARDS=shards, IMAGE=image,
        GPU=f", nvidia.com/gpu: {gpus}" if gpus else "")
    if monitor:
        return text
    documents = text.split("\n---\n")
    return "\n---\n".join(one for one in documents if "kind: ServiceMonitor" not in one) + "\n"


def positive(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 4096:
        raise argparse.ArgumentTypeError("from 1 to 4096")
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints the Kubernetes manifests of a fleet of camds.")
    parser.add_argument("config", type=Path, help="the YAML file that all shards share")
    parser.add_argument("--shards", type=positive, required=True, help="how many pods share the cameras")
    parser.add_argument("--image", required=True, help="made with packaging/Containerfile")
    parser.add_argument("--gpus", type=int, default=1, choices=range(0, 17), metavar="0..16", help="of a pod (default: 1)")
    parser.add_argument("--no-monitor", action="store_true", help="without the Prometheus operator's ServiceMonitor")
    told = parser.parse_args()
    print(manifests(told.config.read_text(), told.shards, told.image, told.gpus, not told.no_monitor), end="")


if __name__ == "__main__":
    main()
