"""What the peers in PyTorch share: a frame's way from host memory through a network and back, as `camd bench` measures it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

WARM_UP = 50


def percentiles(samples_us: list[float]) -> dict[str, float]:
    ordered = sorted(samples_us)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)

    return {"p50": round(statistics.median(ordered), 1), "p90": at(0.9), "p99": at(0.99), "max": round(ordered[-1], 1)}


def measure(frame: Callable[[], None], frames: int) -> list[float]:
    samples = []
    for i in range(frames + WARM_UP):
        start = time.perf_counter_ns()
        frame()
        if i >= WARM_UP:
            samples.append((time.perf_counter_ns() - start) / 1000)
    return samples


def device_time(work: Callable[[], object], frames: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    samples = []
    for _ in range(frames):
        begin.record()
        work()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1000)
    return round(statistics.median(samples), 1)


def captured(work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """The work as one CUDA graph, after it has run five times on a stream of its own."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            work()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


class Pipeline:
    """Static buffers and the work between them: a BGR u8 picture [H,W,3] in host memory, on the device, as the network's
    input [1,3,H,W] in f32 or f16 (times `scale`), the network's outputs, and these in host memory."""

    def __init__(self, net: Callable[[torch.Tensor], Sequence[torch.Tensor]], picture: torch.Tensor, *, half: bool, pinned: bool,
                 scale: float = 1) -> None:  # fmt: skip
        self.net = net
        self.half = half
        self.scale = scale
        self.picture = picture.pin_memory() if pinned else picture
        self.on_device = self.picture.cuda()
        self.prepared = self.prepare()
        self.host = [torch.empty(o.shape, dtype=o.dtype, pin_memory=pinned) for o in self.network()]

    def prepare(self) -> torch.Tensor:
        x = self.on_device.permute(2, 0, 1).unsqueeze(0)
        x = x.half() if self.half else x.float()
        if self.scale != 1:
            x = x * self.scale
        return x.contiguous(memory_format=torch.channels_last if self.half else torch.contiguous_format)

    def network(self) -> Sequence[torch.Tensor]:
        """The network alone, over a picture prepared before."""
        return self.net(self.prepared)

    def waiting(self) -> None:
        self.on_device.copy_(self.picture)
        torch.cuda.synchronize()
        for to, made in zip(self.host, self.net(self.prepare())):
            to.copy_(made)

    def enqueue(self) -> None:
        self.on_device.copy_(self.picture, non_blocking=True)
        for to, made in zip(self.host, self.net(self.prepare())):
            to.copy_(made, non_blocking=True)

    def one_wait(self) -> None:
        self.enqueue()
        torch.cuda.current_stream().synchronize()

    def row(self, strategy: str, frames: int) -> dict:
        """Measures one way to run it: "waiting", "one wait" or "graph"."""
        network: Callable[[], object] = self.network
        frame = self.waiting if strategy == "waiting" else self.one_wait
        if strategy == "graph":
            whole = captured(self.enqueue)
            network = captured(self.network).replay

            def frame() -> None:
                whole.replay()
                torch.cuda.current_stream().synchronize()

        e2e = percentiles(measure(frame, frames))
        return {"e2e_us": e2e, "fps": round(1e6 / e2e["p50"], 1), "h2d_bytes": self.picture.numel(),
                "d2h_bytes": sum(o.numel() * o.element_size() for o in self.host), "frames": frames,
                "network_us": {"p50": device_time(network, 100)}}  # fmt: skip
