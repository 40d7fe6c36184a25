"""Trains the reference detector on scenes made on the fly: workers compose scenes on the CPU, the GPU turns
each into many views and learns from them.

  python3 models/marker/train.py --out out/marker
  python3 models/marker/train.py --out out/marker --start models/marker-640x360.onnx --minutes 9

The second goes on from exported weights: batch statistics stay folded, so that what learns is what is exported, and the
learning rate is --peak of the other's, falling from the start. --start may name two files: it begins with their mean.

The run lasts as long as --minutes says: learning rate, what is taught and how follow the share of the training time
that has passed. It is cut into pieces at will: it writes checkpoint.pt as it goes and resumes from it (--resume).
Weights for export are the exponential moving average, in marker.pt.
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import torch.multiprocessing as mp
from torch import Tensor

from codes import CodeBank
from export import load_onnx
from loss import Losses, detection_loss, probe
from model import ConvBN, MarkerNet, flatten, make_anchors
from muon import Muon
from scene import HEIGHT, MAX_CODES, WIDTH, make_training_scene
from views import Batch, Dice, jpeg_tables, make_views

SEED = 20260101
SLOTS_PER_WORKER = 4
SCENES_PER_BANK = 150
SMALL, LARGE = (640, 360), (1280, 720)  # (width, height) of views
WARM_UP = 3
AHEAD = 8  # steps that may wait for the device
SAVE_EVERY = 60.0  # seconds
# At the peak. Muon's is the share by which a step turns a layer's weights.
LEARNING_RATE, MUON_LEARNING_RATE = 2.5e-3, 1e-2
WARM_UP_SHARE, FINE_WARM_UP_SHARE = 0.005, 0.02  # of the run, in which the learning rate rises
KEPT_AT = (0.6, 0.8)  # shares of the run after which the weights are kept as marker-60.pt and so on, to choose from
# Share of the run after which the turn is known and small errors count most again; of one that begins with learned weights.
SHARPEN_FROM, FINE_SHARPEN_FROM = 0.65, 0.4
# Share of the keypoints' loss that is asked of the mean over a code's cells, and the share of the run after which.
TOGETHER, TOGETHER_FROM = 0.5, 0.4
# Share of views turned by 90, 180 or 270 degrees (or not, one time in four): while the turn is learned, and after.
QUARTER_TURNS, FEW_QUARTER_TURNS = 0.35, 0.1


def _work(worker: int, seed: int, images: Tensor, truth: Tensor, free: mp.Queue, full: mp.Queue, start: mp.Event) -> None:
    """Composes scenes for ever, from `start` on, into the shared slots whose numbers come from `free`."""
    start.wait()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    os.nice(10)  # compiling and launching come first
    rng = np.random.default_rng((seed, worker))
    for made in range(10**9):
        if made % SCENES_PER_BANK == 0:
            bank = CodeBank(int(rng.integers(2**31)), held_out=False, qr_count=70, marker_count=250)
        scene = make_training_scene(rng, bank)
        slot = free.get()
        images[slot] = torch.from_numpy(scene.image).permute(2, 0, 1)
        truth[slot] = pack_truth(scene.corners, scene.classes, scene.modules)
        full.put(slot)


def pack_truth(corners: np.ndarray, classes: np.ndarray, modules: np.ndarray) -> Tensor:
    """f32 [MAX_CODES, 10]: eight corner coordinates, class (-1: none), modules."""
    rows = torch.zeros(MAX_CODES, 10)
    rows[:, 8] = -1
    n = len(classes)
    rows[:n, :8] = torch.from_numpy(corners.reshape(n, 8))
    rows[:n, 8] = torch.from_numpy(classes).float()
    rows[:n, 9] = torch.from_numpy(modules)
    return rows


class ScenePool:
    """Scenes on the training device: filled by worker processes, the oldest replaced by the newest. `early` of the
    workers begin at once, the others when they are told to."""

    def __init__(self, workers: int, early: int, capacity: int, seed: int):
        slots = workers * SLOTS_PER_WORKER
        self._images = torch.empty(slots, 3, HEIGHT, WIDTH, dtype=torch.uint8).share_memory_()
        self._truth = torch.empty(slots, MAX_CODES, 10).share_memory_()
        context = mp.get_context("fork")
        self._free, self._full = context.Queue(), context.Queue()
        for slot in range(slots):
            self._free.put(slot)
        now, self._later = context.Event(), context.Event()
        now.set()
        # Fork before CUDA starts: a CUDA context does not survive a fork.
        self._workers = []
        for i in range(workers):
            shared = (self._images, self._truth, self._free, self._full, now if i < early else self._later)
            self._workers.append(context.Process(target=_work, args=(i, seed, *shared), daemon=True))
        for process in self._workers:
            process.start()
        self._capacity = capacity
        self._arrived: deque[tuple[Tensor, Tensor]] = deque(maxlen=1024)
        self.made = 0

    def start_all(self) -> None:
        self._later.set()

    def open(self, device: torch.device) -> None:
        """Reserves the pool on the device and starts to receive."""
        self._device = device
        self._pool = torch.zeros(self._capacity, 3, HEIGHT, WIDTH, dtype=torch.uint8, device=device)
        self._pool_truth = torch.zeros(self._capacity, MAX_CODES, 10, device=device)
        self._present = torch.zeros((), device=device)  # scenes to draw from; on the device, where CUDA graphs read it
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        # A stream of its own: on the training stream each copy would wait for the step in flight.
        stream = torch.cuda.Stream() if self._device.type == "cuda" else None
        while True:
            slot = self._full.get()
            with torch.cuda.stream(stream):
                pair = (self._images[slot].to(self._device, copy=True), self._truth[slot].to(self._device, copy=True))
            if stream is not None:
                stream.synchronize()
            self._arrived.append(pair)
            self._free.put(slot)

    def refresh(self) -> None:
        """Takes what has arrived into the pool, on the caller's stream."""
        while self._arrived:
            image, truth = self._arrived.popleft()
            position = self.made % self._capacity
            self._pool[position].copy_(image)
            self._pool_truth[position].copy_(truth)
            if image.is_cuda:
                image.record_stream(torch.cuda.current_stream())
                truth.record_stream(torch.cuda.current_stream())
            self.made += 1
        self._present.fill_(min(self.made, self._capacity))

    def wait_for(self, count: int) -> None:
        while self.made < count:
            self.refresh()
            time.sleep(0.02)

    def draw(self, dice: Dice, batch: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scenes u8 [B, 3, H, W], corners f32 [B, G, 4, 2], classes i64 [B, G], modules f32 [B, G]."""
        index = dice.integers(self._present, batch)
        truth = self._pool_truth[index]
        return self._pool[index], truth[..., :8].unflatten(-1, (4, 2)), truth[..., 8].long(), truth[..., 9]


def relative_rate(progress: float, turn_from: float, fine_peak: float) -> float:
    """Of learning: two falls of a cosine. The first is cut short at two thirds, the second runs out. There is only the second
    where the turn is learned from the beginning (`turn_from` 0), from `fine_peak` and after a warm-up for the optimisers' averages."""
    if turn_from == 0:
        return fine_peak * min(1.0, progress / FINE_WARM_UP_SHARE) * (0.01 + 0.99 * (1 + math.cos(math.pi * progress)) / 2)
    if progress < turn_from:
        warm = min(1.0, progress / WARM_UP_SHARE)
        return warm * (1 + math.cos(0.62 * math.pi * progress / turn_from)) / 2
    return 0.6 * (0.01 + 0.99 * (1 + math.cos(math.pi * (progress - turn_from) / (1 - turn_from))) / 2)


class Average:
    """Exponential moving average of weights and batch statistics."""

    def __init__(self, net: MarkerNet):
        self.net = copy.deepcopy(net).eval().requires_grad_(False)
        self._pairs = [(mine, theirs) for mine, theirs in zip(self.net.state_dict().values(), net.state_dict().values())
                       if mine.is_floating_point()]  # fmt: skip

    @torch.no_grad()
    def update(self, rate: Tensor) -> None:
        mine, theirs = (list(tensors) for tensors in zip(*self._pairs))
        step = torch._foreach_sub(theirs, mine)
        torch._foreach_mul_(step, rate)
        torch._foreach_add_(mine, step)


def hidden_weights(net: MarkerNet) -> list[Tensor]:
    """Of the convolutions inside the network, batch-normalised ones with a matrix to speak of: neither the first layer
    nor depthwise ones nor the heads' last."""
    blocks = [m for m in net.modules() if isinstance(m, ConvBN) and m is not net.stem and m.conv.groups == 1]
    return [m.conv.weight for m in blocks]


class ViewPool:
    """Views of one size on the training device, each learned from several times before a newer one takes its place:
    making a view costs about as much as learning from it."""

    def __init__(self, size: tuple[int, int], capacity: int, device: torch.device):
        width, height = size
        self.capacity = capacity
        self._image = torch.zeros(capacity, 3, height, width, dtype=torch.uint8, device=device)
        self._corners = torch.zeros(capacity, MAX_CODES, 4, 2, device=device)
        self._classes = torch.full((capacity, MAX_CODES), -1, device=device)
        self._wanted = torch.zeros(capacity, MAX_CODES, dtype=torch.bool, device=device)
        # On the device, where CUDA graphs read and write them.
        self._next = torch.zeros((), dtype=torch.int64, device=device)
        self._present = torch.zeros((), device=device)

    def put(self, batch: Batch) -> None:
        count = len(batch.image)
        at = (self._next + torch.arange(count, device=self._next.device)) % self.capacity
        self._image.index_copy_(0, at, batch.image.mul(255).round_().to(torch.uint8))  # exact: views are on 8-bit steps
        self._corners.index_copy_(0, at, batch.corners)
        self._classes.index_copy_(0, at, batch.classes)
        self._wanted.index_copy_(0, at, batch.wanted)
        self._next.add_(count)
        self._present.copy_(self._next.clamp(max=self.capacity))

    def draw(self, dice: Dice, count: int) -> Batch:
        index = dice.integers(self._present, count)
        image = self._image[index].float().div_(255)
        return Batch(image, self._corners[index], self._classes[index], self._wanted[index])


@dataclass
class Controls:
    """What changes from step to step, on the device, so that a CUDA graph reads the values of each replay."""

    lr: Tensor
    muon_lr: Tensor
    average_rate: Tensor
    turn: Tensor  # 0..1: how much the turn of codes counts
    kps_weight: Tensor  # how much keypoints count beside classes and boxes
    quarter_turns: Tensor  # share of views turned by quarters
    together: Tensor  # share of the keypoints' loss that is asked of the mean over a code's cells

    @staticmethod
    def on(device: torch.device) -> Controls:
        return Controls(*(torch.zeros((), device=device) for _ in range(7)))

    def set(self, step: int, progress: float, turn_from: float, fine_peak: float) -> None:
        rate = relative_rate(progress, turn_from, fine_peak)
        fine = turn_from == 0  # begun with weights that know all this
        turning, sharpening = progress >= turn_from, progress >= (FINE_SHARPEN_FROM if fine else max(SHARPEN_FROM, turn_from))
        turn = 0.3 if sharpening else float(turning)
        self.lr.fill_(LEARNING_RATE * rate)
        self.muon_lr.fill_(MUON_LEARNING_RATE * rate)
        self.average_rate.fill_(1 - min(0.999 if turning else 0.9995, (step + 1) / (step + 20)))
        self.turn.fill_(turn)
        self.kps_weight.fill_((0.4 + 0.2 * turn) * (2 if sharpening else 1))
        self.together.fill_(TOGETHER * (fine or progress >= TOGETHER_FROM))
        self.quarter_turns.fill_(FEW_QUARTER_TURNS if sharpening else QUARTER_TURNS * turning)


class Learner:
    """One training step, at either size. On a GPU both are captured as CUDA graphs, because launching their thousands of
    small kernels takes several times as long as running them; and compiled, which makes them fewer, unless --eager."""

    def __init__(self, args: argparse.Namespace, pool: ScenePool, device: torch.device):
        self._pool, self._order = pool, args.marker_order
        self._format = torch.channels_last if device.type == "cuda" else torch.contiguous_format
        self._autocast = lambda: torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.dtype == "bf16", cache_enabled=False)
        self._graphed = device.type == "cuda"
        self.net = MarkerNet()
        if args.start:
            load_onnx(self.net, *args.start)
        self.net.to(device, memory_format=self._format)
        self.controls = Controls.on(device)
        hidden = hidden_weights(self.net)
        self.muon = Muon(hidden, self.controls.muon_lr)
        others = [p for p in self.net.parameters() if all(p is not w for w in hidden)]
        decayed = [p for p in others if p.ndim > 1]
        plain = [p for p in others if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": 1e-3}, {"params": plain, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=self.controls.lr, betas=(0.9, 0.99), fused=True, capturable=self._graphed)
        self.average = Average(self.net)
        self._counts = {SMALL: args.batch, LARGE: max(1, args.batch // 4)}
        self._dice, self._tables = Dice(device, SEED), jpeg_tables(device)
        self._anchors = {size: make_anchors(size[1], size[0]).to(device) for size in (SMALL, LARGE)}
        self._views, self._losses = make_views, self._measure
        if self._graphed and not args.eager:
            self._views = torch.compile(make_views, dynamic=False)
            self._losses = torch.compile(self._measure, dynamic=False)
        self._view_pools = {size: ViewPool(size, args.views if size == SMALL else args.views // 4, device) for size in (SMALL, LARGE)}
        self._reuse, self._learned = args.reuse, {SMALL: 0, LARGE: 0}
        self._graphs: dict[tuple[Callable[..., None], tuple[int, int]], torch.cuda.CUDAGraph] = {}
        self._pending: deque[torch.cuda.Event] = deque()
        self.sums, self.skipped = torch.zeros(5, device=device), torch.zeros((), device=device)

    def state(self) -> dict[str, Any]:
        nets = {"net": self.net.state_dict(), "average": self.average.net.state_dict()}
        return {**nets, "optimiser": self.optimiser.state_dict(), "muon": self.muon.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        self.average.net.load_state_dict(state["average"])
        self.muon.load_state_dict(state["muon"])
        groups = self.optimiser.state_dict()["param_groups"]  # they name tensors of this run, so they stay
        self.optimiser.load_state_dict({**state["optimiser"], "param_groups": groups})
        for group in self.optimiser.param_groups:
            group["lr"] = self.controls.lr

    def _measure(self, batch: Batch, anchors: Tensor) -> Losses:
        with self._autocast():
            maps = self.net(batch.image.contiguous(memory_format=self._format))
        return detection_loss(*flatten(maps), batch, anchors, self._order, self.controls.turn, self.controls.kps_weight, self.controls.together)

    def _make(self, size: tuple[int, int]) -> None:
        scenes = self._pool.draw(self._dice, self._counts[size])
        batch = self._views(self._dice, self._tables, *scenes, *size, quarter_turns=self.controls.quarter_turns, teaching=True)
        self._view_pools[size].put(batch)

    def _learn(self, size: tuple[int, int]) -> None:
        losses = self._losses(self._view_pools[size].draw(self._dice, self._counts[size]), self._anchors[size])
        self.net.zero_grad(set_to_none=True)
        losses.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
        # One broken batch must not spoil the weights; its gradient counts as zero, without a wait for the GPU.
        for p in self.net.parameters():
            p.grad.nan_to_num_(0.0, 0.0, 0.0)
        self.optimiser.step()
        self.muon.step()
        self.average.update(self.controls.average_rate)
        self.skipped += ~torch.isfinite(norm)
        self.sums += torch.stack((losses.total.detach(), losses.cls, losses.box, losses.kps, losses.iou))

    def prepare(self) -> None:
        """Compiles and captures all there is, which takes minutes, so that every step after it takes as long."""
        for size in (SMALL, LARGE):
            for work in (self._make, self._learn):
                self._run(work, size)
                self._pool.refresh()
        self.sums.zero_()

    def fill(self) -> None:
        """Makes all views anew."""
        for size, views in self._view_pools.items():
            for _ in range(-(-views.capacity // self._counts[size])):
                self._run(self._make, size)
        self._finish(0)

    def step(self, size: tuple[int, int]) -> None:
        """Trains on one batch of views of this size."""
        if self._learned[size] % self._reuse == 0:
            self._run(self._make, size)
        self._learned[size] += 1
        self._run(self._learn, size)
        self._finish(AHEAD)

    def _finish(self, ahead: int) -> None:
        """Waits until at most `ahead` calls of this have work left on the device: a schedule by time must not be laid
        down for steps that run seconds later."""
        if self._dice.device.type != "cuda":
            return
        event = torch.cuda.Event(blocking=True)
        event.record()
        self._pending.append(event)
        while len(self._pending) > ahead:
            self._pending.popleft().synchronize()

    def _run(self, work: Callable[[tuple[int, int]], None], size: tuple[int, int]) -> None:
        if not self._graphed:
            return work(size)
        if graph := self._graphs.get((work, size)):
            return graph.replay()
        # Compilation, cuDNN's choice of algorithms and the allocator's warming up come before the capture.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                work(size)
        torch.cuda.current_stream().wait_stream(stream)
        self._graphs[work, size] = torch.cuda.CUDAGraph()
        # The thread that receives scenes allocates meanwhile, which only this mode allows.
        with torch.cuda.graph(self._graphs[work, size], capture_error_mode="thread_local"):
            work(size)

    @torch.no_grad()
    def probe(self, count: int) -> dict[str, float]:
        batch = self._view_pools[SMALL].draw(self._dice, count)
        with self._autocast():
            maps = self.average.net(batch.image.contiguous(memory_format=self._format))
        return probe(*flatten(maps), batch, self._anchors[SMALL], self._order)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, nargs="+", help="file of export.py whose weights to begin with, or several to begin with their mean")
    parser.add_argument("--peak", type=float, default=0.25, help="with --start: the highest learning rate, as a share of that of a whole run")
    parser.add_argument("--resume", type=Path, help="checkpoint.pt of an earlier piece of the same run")
    parser.add_argument("--minutes", type=float, default=24.0, help="length of the whole run in one piece, start and compilation included")
    parser.add_argument("--turn-from", type=float, default=0.3, help="share of the run after which the turn of codes is learned too")
    parser.add_argument("--stop-after", type=float, default=math.inf, help="seconds after which this piece ends")
    parser.add_argument("--batch", type=int, default=64, help="views of 640x360 a step; a quarter of that at 1280x720")
    parser.add_argument("--large-every", type=int, default=2, help="every how many steps one runs at 1280x720")
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--early-workers", type=int, default=4, help="that many make scenes during compilation, which takes longer beside all")
    parser.add_argument("--pool", type=int, default=6000, help="scenes kept on the device (2.8 MB each)")
    parser.add_argument("--views", type=int, default=8192, help="views of 640x360 kept on the device (0.7 MB each), and a quarter as many larger ones")
    parser.add_argument("--reuse", type=int, default=3, help="how often a view is learned from")
    parser.add_argument("--first-pool", type=int, default=900, help="scenes to wait for before the first step")
    parser.add_argument("--keep-every", type=float, default=math.inf, help="minutes after which the weights are kept as marker-at-SECONDS.pt, again and again")
    parser.add_argument("--marker-order", choices=("upright", "true"), default="upright")
    parser.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--eager", action="store_true", help="do not compile: slower steps, but minutes earlier")
    parser.add_argument("--log-every", type=int, default=500)
    args = parser.parse_args()
    if args.start:
        args.turn_from = 0.0
    return args


def main() -> None:
    args = parse_args()
    started = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    state = torch.load(args.resume, map_location="cpu", weights_only=True) if args.resume else None
    step, progress = (state["step"], state["progress"]) if state else (0, 0.0)
    pool = ScenePool(args.workers, args.early_workers, args.pool, SEED + step)

    device = torch.device(args.device)
    torch.manual_seed(SEED)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 3  # trying every algorithm takes longer than it saves
    torch.set_float32_matmul_precision("high")
    learner = Learner(args, pool, device)
    if state:
        learner.load(state)
    torch.manual_seed(SEED + step)
    pool.open(device)
    pool.wait_for(min(args.batch, args.first_pool))
    learner.prepare()
    print(f"ready to learn after {time.monotonic() - started:.1f} s, {pool.made} scenes", flush=True)
    pool.start_all()
    pool.wait_for(args.first_pool)
    learner.fill()

    # A later piece learns at the same pace, from the progress it begins with.
    begun, begun_with = time.monotonic(), progress
    length = args.minutes * 60 - (begun - started)
    if length <= 0:
        raise SystemExit(f"train.py: --minutes {args.minutes:g} were over before training began, {begun - started:.0f} s after the start; allow more")
    print(f"{pool.made} scenes after {begun - started:.1f} s; step {step}, {100 * progress:.1f} % of the run", flush=True)

    def write(what: Any, name: str) -> None:
        # A file torn by a time limit would lose the run: write beside, then rename.
        torch.save(what, args.out / f"{name}.tmp")
        (args.out / f"{name}.tmp").replace(args.out / name)

    def save() -> None:
        write(learner.average.net.state_dict(), "marker.pt")
        write({"step": step, "progress": progress, **learner.state()}, "checkpoint.pt")

    mark, marked_at, saved_at, kept_at = step, begun, begun, begun
    to_keep = [share for share in KEPT_AT if share > progress]
    while progress < 1 and time.monotonic() - started < args.stop_after:
        pool.refresh()
        learner.controls.set(step, progress, args.turn_from, args.peak)
        step += 1
        learner.step(LARGE if step % args.large_every == 0 else SMALL)
        progress = min(1.0, begun_with + (time.monotonic() - begun) / length)
        if to_keep and progress >= to_keep[0]:
            write(learner.average.net.state_dict(), f"marker-{100 * to_keep.pop(0):.0f}.pt")
        if time.monotonic() - kept_at >= 60 * args.keep_every:
            kept_at = time.monotonic()
            write(learner.average.net.state_dict(), f"marker-at-{kept_at - started:.0f}.pt")
        if step % args.log_every == 0:
            mean = (learner.sums / (step - mark)).tolist()  # waits for the device
            now = time.monotonic()
            text = " ".join(f"{n} {v:.3f}" for n, v in zip(("loss", "cls", "box", "kps", "iou"), mean))
            pace = f"step {step} {100 * progress:.1f} % {(step - mark) / (now - marked_at):.1f}/s"
            print(f"{now - started:6.1f} s {pace} {text} scenes {pool.made} skipped {int(learner.skipped)}", flush=True)
            if now - saved_at >= SAVE_EVERY:
                print("    probe " + " ".join(f"{k} {v:.4f}" for k, v in learner.probe(8 * args.batch).items()), flush=True)
                save()
                saved_at = time.monotonic()
            mark, marked_at = step, time.monotonic()
            learner.sums.zero_()
    save()
    print(f"stopped at step {step}, {100 * progress:.1f} % of the run, after {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
