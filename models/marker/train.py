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
import threading
import time
from collections import deque
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.multiprocessing as mp
from torch import Tensor

from codes import CodeBank
from loss import detection_loss, probe
from model import MarkerNet, flatten, make_anchors
from scene import HEIGHT, MAX_CODES, WIDTH, make_scene
from views import Batch, Dice, make_views

SEED = 20260101
SLOTS_PER_WORKER = 4
SCENES_PER_BANK = 150
QUARTER_TURNS = 0.35  # share of views turned by 90, 180 or 270 degrees while the turn is learned


def _work(worker: int, seed: int, images: Tensor, truth: Tensor, free: mp.Queue, full: mp.Queue) -> None:
    """Composes scenes for ever into the shared slots whose numbers come from `free`."""
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
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

    def wait_for(self, count: int) -> None:
        while self.made < count:
            self.refresh()
            time.sleep(0.02)

    def views(self, dice: Dice, batch: int, width: int, height: int, quarter_turns: bool = False) -> Batch:
        index = dice.integers(min(self.made, self._capacity), batch)
        truth = self._pool_truth[index]
        corners = truth[..., :8].unflatten(-1, (4, 2))
        classes, modules = truth[..., 8].long(), truth[..., 9]
        share = QUARTER_TURNS if quarter_turns else 0.0
        return make_views(dice, self._pool[index], corners, classes, modules, width, height, quarter_turns=share)


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

    @torch.no_grad()
    def update(self, net: MarkerNet, step: int, longest: float) -> None:
        decay = min(longest, (step + 1) / (step + 20))
        mine, theirs = self.net.state_dict(), net.state_dict()
        floats = [k for k, v in mine.items() if v.is_floating_point()]
        torch._foreach_lerp_([mine[k] for k in floats], [theirs[k] for k in floats], 1 - decay)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", type=Path, help="checkpoint.pt of an earlier piece of the same run")
    parser.add_argument("--steps", type=int, default=26000, help="length of the whole run")
    parser.add_argument("--turn-from", type=int, default=11761, help="step from which the turn of codes is learned too")
    parser.add_argument("--stop-after", type=float, default=math.inf, help="seconds after which this piece ends")
    parser.add_argument("--batch", type=int, default=64, help="views of 640x360 a step; a quarter of that at 1280x720")
    parser.add_argument("--large-every", type=int, default=6, help="each how many steps one runs at 1280x720")
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--pool", type=int, default=6000, help="scenes kept on the device (2.8 MB each)")
    parser.add_argument("--first-pool", type=int, default=900, help="scenes to wait for before the first step")
    parser.add_argument("--marker-order", choices=("upright", "true"), default="upright")
    parser.add_argument("--layout", choices=("nchw", "nhwc"), default="nhwc")
    parser.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log-every", type=int, default=200)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    started = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    state = torch.load(args.resume, map_location="cpu", weights_only=True) if args.resume else None
    first = state["step"] if state else 0
    pool = ScenePool(args.workers, args.pool, SEED + first)

    device = torch.device(args.device)
    torch.manual_seed(SEED)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 3  # trying every algorithm takes longer than it saves
    torch.set_float32_matmul_precision("high")
    layout = torch.channels_last if args.layout == "nhwc" else torch.contiguous_format
    net = MarkerNet().to(device, memory_format=layout)
    average = Average(net)
    decayed = [p for p in net.parameters() if p.ndim > 1]
    plain = [p for p in net.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 1e-3}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.99))  # lr is set at each step
    if state:
        net.load_state_dict(state["net"])
        average.net.load_state_dict(state["average"])
        optimiser.load_state_dict(state["optimiser"])
    dice = Dice(device, SEED + first)
    anchors = {size: make_anchors(size[1], size[0]).to(device) for size in ((640, 360), (1280, 720))}
    pool.open(device)
    pool.wait_for(args.first_pool)
    print(f"{pool.made} scenes after {time.monotonic() - started:.1f} s; step {first} of {args.steps}", flush=True)

    def save(step: int) -> None:
        torch.save(average.net.state_dict(), args.out / "marker.pt")
        # A checkpoint torn by a time limit would lose the run: write beside, then rename.
        torch.save({"step": step, "net": net.state_dict(), "average": average.net.state_dict(),
                    "optimiser": optimiser.state_dict()}, args.out / "checkpoint.tmp")  # fmt: skip
        (args.out / "checkpoint.tmp").rename(args.out / "checkpoint.pt")

    def outputs(network: MarkerNet, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        image = image.contiguous(memory_format=layout)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            return flatten(network(image))

    mark, mark_step, sums, skipped = time.monotonic(), first, torch.zeros(5, device=device), torch.zeros((), device=device)
    step = first
    while step < args.steps and time.monotonic() - started < args.stop_after:
        pool.refresh()
        large = step % args.large_every == args.large_every - 1
        size = (1280, 720) if large else (640, 360)
        batch = pool.views(dice, max(1, args.batch // 4) if large else args.batch, *size, quarter_turns=step >= args.turn_from)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, args.turn_from, args.steps)
        turn = step >= args.turn_from
        losses = detection_loss(*outputs(net, batch.image), batch, anchors[size], args.marker_order, turn)
        optimiser.zero_grad(set_to_none=True)
        losses.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        # One broken batch must not spoil the weights; its gradient counts as zero, without a wait for the GPU.
        fine = torch.isfinite(norm)
        for p in net.parameters():
            p.grad.nan_to_num_(0.0, 0.0, 0.0)
        skipped += ~fine
        optimiser.step()
        average.update(net, step, 0.999 if turn else 0.9995)
        sums += torch.stack((losses.total.detach(), losses.cls, losses.box, losses.kps, losses.iou))
        step += 1
        if step % args.log_every == 0:
            mean = (sums / args.log_every).tolist()
            rate = (step - mark_step) / (time.monotonic() - mark)
            names = ("loss", "cls", "box", "kps", "iou")
            text = " ".join(f"{n} {v:.3f}" for n, v in zip(names, mean))
            print(f"{time.monotonic() - started:6.1f} s step {step} {rate:.1f}/s {text} scenes {pool.made} skipped {int(skipped)}", flush=True)
            mark, mark_step, sums = time.monotonic(), step, torch.zeros(5, device=device)
        if step % (args.log_every * 5) == 0 or step == args.steps:
            with torch.no_grad():
                batch = pool.views(dice, 32, 640, 360)
                figures = probe(*outputs(average.net, batch.image), batch, anchors[(640, 360)], args.marker_order)
            print("    probe " + " ".join(f"{k} {v:.3f}" for k, v in figures.items()), flush=True)
            save(step)
    save(step)
    print(f"stopped at step {step} of {args.steps} after {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
