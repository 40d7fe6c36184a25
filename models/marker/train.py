"""Trains the reference detector on scenes made on the fly: workers compose scenes on the CPU, the GPU turns
each into many views and learns from them.

  python3 models/marker/train.py --out out/marker

The run is cut into pieces at will: it writes checkpoint.pt as it goes and resumes from it (--resume).
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import torch.multiprocessing as mp
from torch import Tensor

from codes import CodeBank
from loss import Losses, detection_loss, probe
from model import MarkerNet, flatten, make_anchors
from scene import HEIGHT, MAX_CODES, WIDTH, make_scene
from views import Batch, Dice, jpeg_tables, make_views

SEED = 20260101
SLOTS_PER_WORKER = 4
SCENES_PER_BANK = 150
SMALL, LARGE = (640, 360), (1280, 720)  # (width, height) of views
WARM_UP = 3
SHARPEN_FROM = 0.8  # share of the run after which the turn is known and small errors count most again
QUARTER_TURNS = 0.35  # share of views turned by 90, 180 or 270 degrees while the turn is learned


def _work(worker: int, seed: int, images: Tensor, truth: Tensor, free: mp.Queue, full: mp.Queue) -> None:
    """Composes scenes for ever into the shared slots whose numbers come from `free`."""
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    os.nice(10)  # compiling and launching come first
    rng = np.random.default_rng((seed, worker))
    for made in range(10**9):
        if made % SCENES_PER_BANK == 0:
            bank = CodeBank(int(rng.integers(2**31)), held_out=False, qr_count=70, marker_count=250)
        scene = make_scene(rng, bank, held_out=False)
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
    """Scenes on the training device: filled by worker processes, the oldest replaced by the newest."""

    def __init__(self, workers: int, capacity: int, seed: int):
        slots = workers * SLOTS_PER_WORKER
        self._images = torch.empty(slots, 3, HEIGHT, WIDTH, dtype=torch.uint8).share_memory_()
        self._truth = torch.empty(slots, MAX_CODES, 10).share_memory_()
        context = mp.get_context("fork")
        self._free, self._full = context.Queue(), context.Queue()
        for slot in range(slots):
            self._free.put(slot)
        # Fork before CUDA starts: a CUDA context does not survive a fork.
        self._workers = [
            context.Process(target=_work, args=(i, seed, self._images, self._truth, self._free, self._full), daemon=True)
            for i in range(workers)
        ]
        for process in self._workers:
            process.start()
        self._capacity = capacity
        self._arrived: deque[tuple[Tensor, Tensor]] = deque(maxlen=256)
        self.made = 0

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


def learning_rate(step: int, turn_from: int, steps: int) -> float:
    """Two falls of a cosine: the first is cut short at two thirds, the second runs out."""
    if step < turn_from:
        warm = min(1.0, (step + 1) / 400)
        return 2.5e-3 * warm * (1 + math.cos(0.62 * math.pi * step / turn_from)) / 2
    return 1.5e-3 * (0.01 + 0.99 * (1 + math.cos(math.pi * (step - turn_from) / (steps - turn_from))) / 2)


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


@dataclass
class Controls:
    """What changes from step to step, on the device, so that a CUDA graph reads the values of each replay."""

    lr: Tensor
    average_rate: Tensor
    turn: Tensor  # 0..1: how much the turn of codes counts
    quarter_turns: Tensor  # share of views turned by quarters

    @staticmethod
    def on(device: torch.device) -> Controls:
        return Controls(*(torch.zeros((), device=device) for _ in range(4)))

    def set(self, step: int, turn_from: int, steps: int) -> None:
        turn = step >= turn_from
        self.lr.fill_(learning_rate(step, turn_from, steps))
        self.average_rate.fill_(1 - min(0.999 if turn else 0.9995, (step + 1) / (step + 20)))
        self.turn.fill_(turn * (1.0 if step < SHARPEN_FROM * steps else 0.3))
        self.quarter_turns.fill_(QUARTER_TURNS * turn)


class Learner:
    """One training step, at either size. On a GPU both are compiled and captured as CUDA graphs: eager, launching
    their thousands of small kernels takes several times as long as running them."""

    def __init__(self, args: argparse.Namespace, pool: ScenePool, device: torch.device):
        self._pool, self._order = pool, args.marker_order
        self._format = torch.channels_last if device.type == "cuda" else torch.contiguous_format
        self._autocast = lambda: torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.dtype == "bf16", cache_enabled=False)
        self._graphed = device.type == "cuda" and not args.eager
        self.net = MarkerNet().to(device, memory_format=self._format)
        self.average = Average(self.net)
        self.controls = Controls.on(device)
        decayed = [p for p in self.net.parameters() if p.ndim > 1]
        plain = [p for p in self.net.parameters() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": 1e-3}, {"params": plain, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=self.controls.lr, betas=(0.9, 0.99), fused=True, capturable=self._graphed)
        self._dice, self._tables = Dice(device, SEED), jpeg_tables(device)
        self._anchors = {size: make_anchors(size[1], size[0]).to(device) for size in (SMALL, LARGE)}
        self._views, self._losses = make_views, self._measure
        if self._graphed:
            self._views = torch.compile(make_views, dynamic=False)
            self._losses = torch.compile(self._measure, dynamic=False)
        self._graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        self.sums, self.skipped = torch.zeros(5, device=device), torch.zeros((), device=device)

    def state(self) -> dict[str, Any]:
        return {"net": self.net.state_dict(), "average": self.average.net.state_dict(), "optimiser": self.optimiser.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        self.average.net.load_state_dict(state["average"])
        groups = self.optimiser.state_dict()["param_groups"]  # they name tensors of this run, so they stay
        self.optimiser.load_state_dict({**state["optimiser"], "param_groups": groups})
        for group in self.optimiser.param_groups:
            group["lr"] = self.controls.lr

    def _measure(self, batch: Batch, anchors: Tensor) -> Losses:
        with self._autocast():
            maps = self.net(batch.image.contiguous(memory_format=self._format))
        return detection_loss(*flatten(maps), batch, anchors, self._order, self.controls.turn)

    def _step(self, size: tuple[int, int], count: int) -> None:
        scenes = self._pool.draw(self._dice, count)
        batch = self._views(self._dice, self._tables, *scenes, *size, quarter_turns=self.controls.quarter_turns)
        losses = self._losses(batch, self._anchors[size])
        self.optimiser.zero_grad(set_to_none=True)
        losses.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
        # One broken batch must not spoil the weights; its gradient counts as zero, without a wait for the GPU.
        for p in self.net.parameters():
            p.grad.nan_to_num_(0.0, 0.0, 0.0)
        self.optimiser.step()
        self.average.update(self.controls.average_rate)
        self.skipped += ~torch.isfinite(norm)
        self.sums += torch.stack((losses.total.detach(), losses.cls, losses.box, losses.kps, losses.iou))

    def step(self, size: tuple[int, int], count: int) -> int:
        """Trains on `count` views of this size; returns how many steps that made."""
        if not self._graphed:
            self._step(size, count)
            return 1
        if graph := self._graphs.get(size):
            graph.replay()
            return 1
        # Compilation, cuDNN's choice of algorithms and the allocator's warming up come before the capture.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._step(size, count)
        torch.cuda.current_stream().wait_stream(stream)
        self._graphs[size] = torch.cuda.CUDAGraph()
        # The thread that receives scenes allocates meanwhile, which only this mode allows.
        with torch.cuda.graph(self._graphs[size], capture_error_mode="thread_local"):
            self._step(size, count)
        return WARM_UP

    @torch.no_grad()
    def probe(self, count: int) -> dict[str, float]:
        batch = make_views(self._dice, self._tables, *self._pool.draw(self._dice, count), *SMALL, quarter_turns=self.controls.quarter_turns)
        with self._autocast():
            maps = self.average.net(batch.image.contiguous(memory_format=self._format))
        return probe(*flatten(maps), batch, self._anchors[SMALL], self._order)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", type=Path, help="checkpoint.pt of an earlier piece of the same run")
    parser.add_argument("--steps", type=int, default=56000, help="length of the whole run")
    parser.add_argument("--turn-from", type=float, default=0.3, help="share of the run after which the turn of codes is learned too")
    parser.add_argument("--stop-after", type=float, default=math.inf, help="seconds after which this piece ends")
    parser.add_argument("--batch", type=int, default=64, help="views of 640x360 a step; a quarter of that at 1280x720")
    parser.add_argument("--large-every", type=int, default=6, help="each how many steps one runs at 1280x720")
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--pool", type=int, default=6000, help="scenes kept on the device (2.8 MB each)")
    parser.add_argument("--first-pool", type=int, default=900, help="scenes to wait for before the first step")
    parser.add_argument("--marker-order", choices=("upright", "true"), default="upright")
    parser.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--eager", action="store_true", help="neither compile nor capture: slower, easier to debug")
    parser.add_argument("--log-every", type=int, default=500)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    started = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    state = torch.load(args.resume, map_location="cpu", weights_only=True) if args.resume else None
    step = state["step"] if state else 0
    pool = ScenePool(args.workers, args.pool, SEED + step)

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
    pool.wait_for(args.first_pool)
    print(f"{pool.made} scenes after {time.monotonic() - started:.1f} s; step {step} of {args.steps}", flush=True)

    def save() -> None:
        torch.save(learner.average.net.state_dict(), args.out / "marker.pt")
        # A checkpoint torn by a time limit would lose the run: write beside, then rename.
        torch.save({"step": step, **learner.state()}, args.out / "checkpoint.tmp")
        (args.out / "checkpoint.tmp").rename(args.out / "checkpoint.pt")

    turn_from = round(args.turn_from * args.steps)
    mark, marked_at, steps_done = step, time.monotonic(), 0
    while step < args.steps and time.monotonic() - started < args.stop_after:
        pool.refresh()
        learner.controls.set(step, turn_from, args.steps)
        large = steps_done % args.large_every == args.large_every - 1
        done = learner.step(LARGE, max(1, args.batch // 4)) if large else learner.step(SMALL, args.batch)
        step, steps_done = step + done, steps_done + 1
        if step // args.log_every != mark // args.log_every:
            mean = (learner.sums / (step - mark)).tolist()  # waits for the device
            now = time.monotonic()
            text = " ".join(f"{n} {v:.3f}" for n, v in zip(("loss", "cls", "box", "kps", "iou"), mean))
            rate = (step - mark) / (now - marked_at)
            print(f"{now - started:6.1f} s step {step} {rate:.1f}/s {text} scenes {pool.made} skipped {int(learner.skipped)}", flush=True)
            if step // (args.log_every * 6) != mark // (args.log_every * 6):
                print("    probe " + " ".join(f"{k} {v:.3f}" for k, v in learner.probe(64).items()), flush=True)
                save()
            mark, marked_at = step, time.monotonic()
            learner.sums.zero_()
    save()
    print(f"stopped at step {step} of {args.steps} after {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
