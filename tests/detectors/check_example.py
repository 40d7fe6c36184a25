#!/usr/bin/env python3
"""Holds an example of docs/examples/detectors against `camd check`: no error, and its layout reads the model's outputs.

usage: check_example.py CAMD EXAMPLE
"""

import subprocess
import sys

import detectors


def main() -> int:
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    detectors.need_shared(detectors.SHARED)
    done = subprocess.run([sys.argv[1], "check", str(detectors.EXAMPLES / f"{sys.argv[2]}.yaml")], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(done.stdout)
    good = done.returncode == 0 and done.stdout.startswith("ok\n") and "reads its outputs as configured" in done.stdout
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
