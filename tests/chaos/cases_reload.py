"""The table of faults, continued: what a reload touches, and what it leaves alone."""

import signal
import time

import misdeeds
from bench import FPS_BESIDE, Case
from cases import CASES, case
from parts import tiny_model, wait_until


def reloads(name, cause, change, accepted, times=1, **options):
    """`change(bench, cameras)` writes the new configuration; the cameras that stay lose nothing."""

    def run(bench):
        camera, well = bench.rtsp_camera(), bench.rtsp_camera("--fps", str(FPS_BESIDE))
        cameras = {"door": bench.rtsp("door", camera.port), "beside": bench.rtsp("beside", well.port),
                   "pattern": bench.pattern("pattern")}
        camd = bench.start("".join(cameras.values()), steady=tuple(cameras))
        bench.measure_before("door")
        for number in range(times * bench.repeat):
            if bench.result.problems:
                return
            seen = sum(line["event"] == "reload" for line in camd.lines)
            with bench.fault():
                change(bench, cameras, number)
                camd.signal(signal.SIGHUP)
                told_it = lambda: sum(line["event"] == "reload" for line in camd.lines) > seen
                wait_until(lambda: told_it() or not camd.alive(), 5)
                if not told_it():
                    bench.problem(f"no `reload` line (camd {'runs' if camd.alive() else 'has ended'})")
                elif camd.last("reload")["result"] != accepted:
                    bench.problem(f"reload {camd.last('reload')['result']}, wanted {accepted}")
    CASES.append(Case(name, cause, run, **options))


def same(bench, cameras, number):
    bench.configure("".join(cameras.values()))


def one_more_camera(bench, cameras, number):
    more = bench.pattern("added") if number % 2 == 0 else ""
    bench.configure("".join(cameras.values()) + more)


def another_door(bench, cameras, number):
    door = cameras["door"].replace("latency: 20ms", f"latency: {30 + number}ms")
    bench.configure(door + cameras["beside"] + cameras["pattern"])


def another_chain(bench, cameras, number):
    plugins = f"  - plugin: jsonl\n    config: {{path: {bench.folder}/{number}.jsonl}}\n" if number % 2 == 0 else ""
    bench.configure("".join(cameras.values()), plugins)


def another_model(bench, cameras, number):
    """Another file of other extents: engine and plug-ins are built anew."""
    tiny_model(bench.folder / f"tiny{number}.onnx", side=48 if number % 2 == 0 else 32)
    path = bench.configure("".join(cameras.values()))
    path.write_text(path.read_text().replace("tiny.onnx", f"tiny{number}.onnx"))


def wrong_yaml(bench, cameras, number):
    bench.configure("".join(cameras.values()), top="pipelin: {}\n")


def wrong_model(bench, cameras, number):
    path = bench.configure("".join(cameras.values()))
    path.write_text(path.read_text().replace("tiny.onnx", "tiny-not-there.onnx"))


def wrong_plugin_key(bench, cameras, number):
    bench.configure("".join(cameras.values()), "  - plugin: jsonl\n    config: {pat: x}\n")


def wrong_folder(bench, cameras, number):
    bench.configure("".join(cameras.values()), "  - plugin: jsonl\n    config: {path: /proc/camd/x.jsonl}\n")


def wrong_pipeline(bench, cameras, number):
    bench.configure("".join(cameras.values()) +
                    "  - name: typo\n    source: {type: gstreamer, pipeline: videotestsrc ! nosuchelement}\n")


def throwing_plugin(bench, cameras, number):
    bench.configure("".join(cameras.values()), bench.bad_plugin("throw_create"))


reloads("reload: nothing changed", "SIGHUP with the same file", same, "accepted", quick=True)
reloads("reload: a camera more, a camera less", "SIGHUP", one_more_camera, "accepted", times=2,
        quick=True)
reloads("reload: one camera altered", "SIGHUP, another `latency`", another_door, "accepted", quick=True)
reloads("reload: another chain", "SIGHUP, `jsonl` comes and goes", another_chain, "accepted", times=2,
        quick=True)
reloads("reload: another model", "SIGHUP, the model's file and its extents change", another_model, "accepted", times=2,
        quick=True)
reloads("reload: unknown key", "SIGHUP with a mistake", wrong_yaml, "refused", quick=True)
reloads("reload: model not there", "SIGHUP with a mistake", wrong_model, "refused")
reloads("reload: plug-in's unknown key", "SIGHUP with a mistake", wrong_plugin_key, "refused", quick=True)
reloads("reload: folder that cannot be written", "SIGHUP with a mistake", wrong_folder, "refused")
reloads("reload: typo in a pipeline's text", "SIGHUP with a mistake", wrong_pipeline, "refused", quick=True)
reloads("reload: plug-in that throws", "SIGHUP with a mistake", throwing_plugin, "refused")


@case("reload: 100 in 10 s", "SIGHUP every 100 ms, a camera comes and goes", repeat=1)
def many_reloads(bench):
    camera, well = bench.rtsp_camera(), bench.rtsp_camera("--fps", str(FPS_BESIDE))
    cameras = {"door": bench.rtsp("door", camera.port), "beside": bench.rtsp("beside", well.port),
               "pattern": bench.pattern("pattern")}
    camd = bench.start("".join(cameras.values()), steady=tuple(cameras))
    bench.measure_before("door")
    with bench.fault():
        for number in range(100):
            one_more_camera(bench, cameras, number)
            camd.signal(signal.SIGHUP)
            time.sleep(0.1)


@case("reload: while a camera hangs", "SIGHUP beside a server that never answers", quick=True, repeat=1)
def reload_while_hanging(bench):
    camera, well = bench.rtsp_camera(), bench.rtsp_camera("--fps", str(FPS_BESIDE))
    network = bench.proxy(camera)
    network.kind = misdeeds.KINDS["nothing"]
    cameras = {"door": bench.rtsp("door", network.port), "beside": bench.rtsp("beside", well.port),
               "pattern": bench.pattern("pattern")}
    camd = bench.start("".join(cameras.values()))
    bench.measure_before("beside")
    with bench.fault("beside"):
        one_more_camera(bench, cameras, 0)
        camd.signal(signal.SIGHUP)
        wait_until(lambda: camd.last("reload") is not None or not camd.alive(), 5)
    if camd.last("reload") is None:
        bench.problem("no `reload` line")
    bench.result.before = None  # there is a camera more
