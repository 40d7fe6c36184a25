"""A small QEMU guest with V4L2 cameras: Debian's kernel, its driver `vivid`, busybox, and camd with its libraries.

Nothing is installed in it, and nothing outside it can be reached: all it has is an initramfs made here, and what it has
to say comes over its serial line. QEMU translates its code, because /dev/kvm is rarely to be had where tests run.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import bench as benches
from parts import balance, tiny_model

KERNEL_HINT = ("a kernel with vivid: apt-get download linux-image-amd64's package, dpkg-deb -x it into DIR, "
               "CAMD_CHAOS_KERNEL=DIR")
UNPLUGGED = 3  # times
MISSING = 5    # pictures at least that the driver drops while camd is stopped for a second, with its buffers full


def find_kernel():
    """(kernel, folder of its modules). Throws Skip."""
    places = [Path(os.environ["CAMD_CHAOS_KERNEL"])] if "CAMD_CHAOS_KERNEL" in os.environ else [Path("/")]
    for place in places:
        for kernel in sorted(place.glob("boot/vmlinuz-*"), reverse=True):
            modules = place / "lib/modules" / kernel.name.removeprefix("vmlinuz-")
            if next(modules.rglob("vivid.ko*"), None):
                return kernel, modules
    raise benches.Skip(f"no {KERNEL_HINT}")


def with_needed(modules, name, order):
    """The module's file and those it needs, in the order in which they are loaded."""
    found = next((file for file in modules.rglob("*.ko*") if re.split(r"\.ko", file.name)[0].replace("-", "_") == name), None)
    if found is None or found.suffix != ".ko":
        raise benches.Skip(f"module {name}: {'compressed' if found else 'missing'} in {modules}")
    if found in order:
        return
    needed = re.search(rb"\0depends=([^\0]*)\0", found.read_bytes())
    for other in needed.group(1).decode().split(",") if needed else []:
        if other:
            with_needed(modules, other.replace("-", "_"), order)
    order.append(found)


class Cpio:
    """An initramfs (Linux: Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self):
        self._out = bytearray()
        self._number = 0
        self._folders = set()

    def _entry(self, name, mode, data=b"", device=(0, 0)):
        self._number += 1
        fields = (self._number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0)
        self._out += b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        self._out += bytes(-len(self._out) % 4) + data
        self._out += bytes(-len(self._out) % 4)

    def folder(self, name):
        if name and name not in self._folders:
            self.folder(os.path.dirname(name))
            self._folders.add(name)
            self._entry(name, stat.S_IFDIR | 0o755)

    def file(self, name, data, mode=0o644):
        self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFREG | mode, data)

    def link(self, name, target):
        self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def device(self, name, major, minor):
        self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def tree(self, source, name):
        for path in sorted(Path(source).rglob("*")):
            inside = f"{name}/{path.relative_to(source)}"
            if path.is_file():
                self.file(inside, path.read_bytes(), path.stat().st_mode & 0o777)

    def bytes(self):
        self._entry("TRAILER!!!", 0)
        return bytes(self._out)


INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /tmp; : > /tmp/truth
end() { echo "END $1"; sync; poweroff -f; }
for module in $(cat /modules/order); do
  if [ "$module" = vivid.ko ]; then insmod /modules/$module n_devs=1 node_types=0x1 || end "insmod $module"
  else insmod /modules/$module || end "insmod $module"; fi
done
i=0; while [ ! -e /dev/video0 ]; do sleep 0.1; i=$((i + 1)); [ $i -gt 100 ] && end "no /dev/video0"; done
/camd/bin/camd run /camd.yaml --metrics json >/tmp/metrics 2>/tmp/log &
camd=$!
frames() { grep -c "^usb " /tmp/truth; }
wait_for() { # FRAMES
  i=0; while [ "$(frames)" -lt "$1" ]; do
    sleep 0.1; i=$((i + 1)); [ $i -gt 600 ] && return 1; kill -0 $camd 2>/dev/null || return 1
  done
}
threads() { awk '/^Threads/ {print $2}' /proc/$camd/status; }
usage() { echo "USAGE $(awk '/^VmRSS/ {print $2}' /proc/$camd/status) $(ls /proc/$camd/fd | wc -l) $(threads)"; }
wait_for 20 || echo "PROBLEM no frames before"
usage
before_all=$(threads)
kill -STOP $camd; sleep 1; kill -CONT $camd  # the driver has no buffer for what it films meanwhile
wait_for $(($(frames) + 20)) || echo "PROBLEM no frames after camd was stopped"
echo "GOES $(cut -d' ' -f1 /proc/uptime)"
for turn in %(turns)s; do
  echo vivid.0 > /sys/bus/platform/drivers/vivid/unbind
  sleep 2
  [ -e /dev/video0 ] && echo "PROBLEM /dev/video0 is still there"
  before=$(frames)
  echo vivid.0 > /sys/bus/platform/drivers/vivid/bind
  echo "PLUGGED $(cut -d' ' -f1 /proc/uptime)"
  wait_for $((before + 20)) || echo "PROBLEM no frames after it was plugged in again"
done
# GLib's pool keeps a thread that has nothing to do for 15 s.
i=0; while [ "$(threads)" -gt "$before_all" ] && [ $i -lt 200 ]; do sleep 0.1; i=$((i + 1)); done
usage
kill -TERM $camd
wait $camd
echo "EXIT $?"
echo "BEGIN truth"; cat /tmp/truth
echo "BEGIN log"; cat /tmp/log
echo "BEGIN metrics"; grep -v '"event":"process"' /tmp/metrics
end ok
"""


def new_archive(bench, build, programs, *options):
    """An initramfs with busybox, the bundle of a build in /camd, and what it expects of a machine. Throws Skip."""
    bundle = bench.folder / "bundle"
    root = Path(__file__).resolve().parents[2]
    subprocess.run(["sh", str(root / "scripts/bundle.sh"), "--build", str(build), "--out", str(bundle), *options],
                   check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(bundle / "models", ignore_errors=True)
    busybox = shutil.which("busybox")
    if busybox is None or b"not a dynamic" not in subprocess.run(["ldd", busybox], capture_output=True).stderr:
        raise benches.Skip("no static busybox: apt-get install busybox-static")
    archive = Cpio()
    for name in ("proc", "sys", "dev", "tmp", "bin"):
        archive.folder(name)
    archive.device("dev/console", 5, 1)
    archive.file("bin/busybox", Path(busybox).read_bytes(), 0o755)
    archive.link("bin/sh", "busybox")
    archive.tree(bundle, "camd")
    programs = [*programs, *sorted((bundle / "lib").rglob("*.so*"))]
    told = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True).stdout
    needed = set(re.findall(r"(/\S+/(?:ld-linux[^/\s]*|lib(?:c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)\.so[^/\s]*))", told))
    for library in sorted(needed):
        where = "lib64/" if "ld-linux" in library else "lib/x86_64-linux-gnu/"
        archive.file(where + os.path.basename(library), Path(library).read_bytes(), 0o755)
    return archive


def write_image(bench, archive, modules, init):
    order = []
    with_needed(modules, "vivid", order)
    for file in order:
        archive.file(f"modules/{file.name}", file.read_bytes())
    archive.file("modules/order", "\n".join(file.name for file in order).encode())
    archive.file("init", init.encode(), 0o755)
    image = bench.folder / "initramfs"
    image.write_bytes(archive.bytes())
    return image


# A plug-in in a process of its own that looks at pictures: camd then lends the driver memory that both share.
LOOKS_AT_PICTURES = "  - {plugin: codes, isolation: process}\n"


def build_initramfs(bench, modules, plugins=""):
    archive = new_archive(bench, bench.build, [bench.build / "bin/camd", bench.build / "lib/chaos/truth.so"], "--no-tests")
    archive.file("truth.so", (bench.build / "lib/chaos/truth.so").read_bytes())
    tiny_model(bench.folder / "tiny.onnx")
    archive.file("tiny.onnx", (bench.folder / "tiny.onnx").read_bytes())
    archive.file("camd.yaml", b"""device: host
model: {path: /tiny.onnx}
pipeline: {max_age: 1h}
cameras:
  - name: usb
    source: {type: v4l2, device: /dev/video0, width: 320, height: 180, fps: 25, timeout: 2s, reconnect: {initial: 100ms, max: 500ms}}
  - name: pattern
    source: {type: test, width: 320, height: 240, fps: 10}
postprocess:
  - plugin: /truth.so
    isolation: none
    config: {path: /tmp/truth}
%smetrics: {period: 500ms}
""" % plugins.encode())
    return write_image(bench, archive, modules, INIT % {"turns": " ".join(map(str, range(UNPLUGGED)))})


def boot(bench, kernel, image, *options):
    """What the guest has said until its end."""
    qemu = shutil.which("qemu-system-x86_64")
    if qemu is None:
        raise benches.Skip("no QEMU: apt-get install qemu-system-x86")
    command = [qemu, "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1024", "-nodefaults", "-no-reboot",
               "-display", "none", "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(image),
               "-append", "console=ttyS0 quiet panic=-1 loglevel=4", *options]
    try:
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=240)
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"the guest does not end: {(late.stdout or b'')[-500:]!r}") from late
    text = said.stdout.decode(errors="replace").replace("\r", "")
    (bench.folder / "guest.txt").write_text(text)
    if "END ok" not in text:
        raise RuntimeError(f"the guest: {text[-500:]!r} {said.stderr[-300:]!r}")
    return text


def unplugged(bench):
    """The case: camd is stopped for a second, and the pictures that the driver drops meanwhile are counted; then `vivid` is
    unbound for 2 s while camd reads from it, and bound again."""
    kernel, modules = find_kernel()
    judge(bench, boot(bench, kernel, build_initramfs(bench, modules)))


def unplugged_in_place(bench):
    """The same while the driver writes into memory that camd lends it: nothing is copied."""
    kernel, modules = find_kernel()
    text = boot(bench, kernel, build_initramfs(bench, modules, LOOKS_AT_PICTURES))
    judge(bench, text)
    copied = [int(number) for number in re.findall(r'"camera":"usb".*"copied_bytes":(\d+)', text)]
    if not copied or any(copied):
        bench.problem(f"bytes of pictures copied: {copied[-1:]}, none wanted")
    if "nobody copies its pictures" not in text:
        bench.problem("the log does not say that nobody copies the pictures of usb")


IN_PLACE_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /tmp
end() { echo "END $1"; sync; poweroff -f; }
for module in $(cat /modules/order); do
  if [ "$module" = vivid.ko ]; then insmod /modules/$module n_devs=2 node_types=0x1,0x1 allocators=0,1 || end "insmod $module"
  else insmod /modules/$module || end "insmod $module"; fi
done
i=0; while [ ! -e /dev/video1 ]; do sleep 0.1; i=$((i + 1)); [ $i -gt 100 ] && end "no /dev/video1"; done
export CAMD_TEST_V4L2=/dev/video0 CAMD_TEST_V4L2_CLOSED=/dev/video1
/camd/bin/test_capture --gtest_color=no --gtest_filter='%(tests)s' %(option)s 2>&1
echo "EXIT $?"
end ok
"""


def run_tests(bench, tests, option="", *machine):
    """Tests of test_capture, on two cameras: one writes into memory of others, one does not. What the guest has said."""
    kernel, modules = find_kernel()
    alone = bench.folder / "alone"
    (alone / "bin").mkdir(parents=True)
    program = bench.build / "bin/test_capture"
    if not program.exists():
        raise benches.Skip("no bin/test_capture: build the tests")
    (alone / "bin/test_capture").symlink_to(program)
    archive = new_archive(bench, alone, [program])
    init = IN_PLACE_INIT % {"tests": tests, "option": option}
    return boot(bench, kernel, write_image(bench, archive, modules, init), *machine)


def in_place(bench):
    """The case: the tests `V4l2.*` of test_capture."""
    text = run_tests(bench, "V4l2.*")
    for failed in re.findall(r"^\[  (?:FAILED|SKIPPED) ?\] (\S+)$", text, re.M):
        bench.problem(f"not passed: {failed}")
    ended = re.search(r"^EXIT (\d+)$", text, re.M)
    bench.result.exit_code = int(ended.group(1)) if ended else None
    if bench.result.exit_code != 0:
        bench.problem("test_capture did not end with 0")


def judge(bench, text):
    parts = re.split(r"^BEGIN (\w+)\n", text, flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2]))
    result = bench.result
    for problem in re.findall(r"^PROBLEM (.*)$", parts[0], re.M):
        bench.problem(problem)
    seen = [int(line.split()[4]) for line in sections["truth"].splitlines() if line.startswith("usb ")]
    for plugged in re.findall(r"^PLUGGED ([\d.]+)$", parts[0], re.M):
        since = float(plugged) * 1e9
        first = next((time for time in seen if time >= since), None)
        if first is not None:
            result.recoveries_s.append((first - since) / 1e9)
    usages = [benches.Usage(*map(int, words.split())) for words in re.findall(r"^USAGE (.*)$", parts[0], re.M)]
    if len(usages) == 2:
        result.before, result.after = usages
    goes = float(re.search(r"^GOES ([\d.]+)$", parts[0], re.M).group(1)) * 1e9  # before, the other camera was stopped as well
    pattern = [line.split() for line in sections["truth"].splitlines() if line.startswith("pattern ")]
    numbers = [int(words[5]) for words in pattern if int(words[4]) >= goes]
    result.lost_beside = sum(after - before - 1 for before, after in zip(numbers, numbers[1:]))
    missing = 0
    ended = re.search(r"^EXIT (\d+)$", parts[0], re.M)
    result.exit_code = int(ended.group(1)) if ended else None
    for line in sections["metrics"].splitlines():
        if not line.startswith("{"):
            continue
        line = json.loads(line)
        for totals in [line.get("totals")] + [each["totals"] for each in line.get("cameras", [])]:
            if totals:
                result.ledger_lines += 1
                if balance(totals) != 0:
                    bench.problem(f"ledger: {line}")
        if line["event"] == "camera" and line["camera"] == "usb":
            missing = line["upstream"]["frames_missing"]
        if line["event"] == "stop":
            result.lost = {reason: count for each in line["cameras"] if each["camera"] == "usb"
                           for reason, count in each["totals"]["dropped"].items() if count}
    if missing < MISSING:
        bench.problem(f"{missing} pictures missing by the driver's numbers, at least {MISSING} wanted")
    bench.judge_bounds()


def work(build):
    """What a picture of 1280x720 costs this way and that, in instructions."""
    with tempfile.TemporaryDirectory() as folder:
        bench = types.SimpleNamespace(folder=Path(folder), build=Path(build).resolve())
        text = run_tests(bench, "V4l2.DISABLED_WorkForAPicture", "--gtest_also_run_disabled_tests",
                         "-smp", "1", "-icount", "shift=0")
    print("\n".join(re.findall(r"^WORK (.*)$", text, re.M)))


if __name__ == "__main__":
    work(sys.argv[1])
