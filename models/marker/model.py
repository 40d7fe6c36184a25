"""The reference detector: MobileNetV1-0.25, a three-level feature pyramid, context heads.

RetinaFace's shape (Deng et al., "RetinaFace: Single-stage Dense Face Localisation in the Wild", 2019)
with two classes (qr, marker) and five keypoints: four corners and the centre. One input, nine outputs.

Tensors
  input   f32 [B, 3, H, W], BGR, 0..1
  outputs per stride S in (8, 16, 32), with h = ceil(H / S), w = ceil(W / S), A anchors a cell, C classes:
    cls_S [B, A*C, h, w] probability (logit while training), channel a*C + c
    box_S [B, A*4, h, w] channel a*4 + k       (dx, dy, dw, dh)
    kps_S [B, A*10, h, w] channel a*10 + 2k    (x), + 1 (y), keypoint k
Decoding (anchor centre ax, ay, side s; all in network pixels), SSD's variances 0.1 and 0.2:
  cx = ax + dx*0.1*s   cy = ay + dy*0.1*s   w = s*exp(dw*0.2)   h = s*exp(dh*0.2)
  keypoint = (ax + x*0.1*s, ay + y*0.1*s)
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from codes import CLASSES

STRIDES = (8, 16, 32)
# Square sides in network pixels, one tuple a stride. As fine a stride as its view allows: the corners of a code are
# found to about a seventh of a cell, so a code twice as many cells wide is twice as well placed.
ANCHORS = ((24, 56), (128, 256), (448, 768))
ANCHOR_OFFSET = 0.5
VARIANCES = (0.1, 0.2)
KEYPOINTS = 5
ANCHORS_PER_CELL = len(ANCHORS[0])
OUTPUT_NAMES = tuple(f"{kind}_{stride}" for stride in STRIDES for kind in ("cls", "box", "kps"))

# (output channels, stride) of the 13 depthwise-separable blocks at width 0.25; taps end each stage.
BACKBONE_STAGES = (
    ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1)),  # stride 8
    ((128, 2), (128, 1), (128, 1), (128, 1), (128, 1), (128, 1)),  # stride 16
    ((256, 2), (256, 1)),  # stride 32
)
PYRAMID_CHANNELS = 64


class ConvBN(nn.Module):
    """Convolution without bias, batch normalisation, and ReLU where asked for.

    A frozen block is the one convolution that it is in inference, also while it learns: its statistics stay as they are."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = True, dilation: int = 1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2 * dilation, dilation, groups, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.relu = relu
        self.frozen = False

    def forward(self, x: Tensor) -> Tensor:
        if self.frozen:
            conv = self.conv  # its statistics change nothing, see unfold(): folding is one product
            x = F.conv2d(x, conv.weight * self.bn.weight[:, None, None, None], self.bn.bias, conv.stride, conv.padding, conv.dilation, conv.groups)
        else:
            x = self.bn(self.conv(x))
        return F.relu(x) if self.relu else x

    def folded(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the one convolution that equals this block in inference."""
        gain = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        return self.conv.weight * gain[:, None, None, None], self.bn.bias - self.bn.running_mean * gain

    @torch.no_grad()
    def unfold(self, weight: Tensor, bias: Tensor) -> None:
        """Takes over a folded convolution: kernels of norm 1, their norms as gains, statistics that change nothing."""
        gain = weight.flatten(1).norm(dim=1).clamp(min=1e-12)
        self.conv.weight.copy_(weight / gain[:, None, None, None])
        self.bn.running_mean.zero_()
        self.bn.running_var.fill_(1 - self.bn.eps)
        self.bn.weight.copy_(gain)
        self.bn.bias.copy_(bias)


class Separable(nn.Module):
    """Depthwise 3x3, then pointwise 1x1."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.depthwise = ConvBN(inputs, inputs, 3, stride, groups=inputs)
        self.pointwise = ConvBN(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.pointwise(self.depthwise(x))


class Context(nn.Module):
    """SSH's context module: 3x3, 5x5 and 7x7 views (stacked 3x3) side by side. Dilated, the two wider ones see 7x7 and
    19x19 cells."""

    def __init__(self, channels: int, wide: bool):
        super().__init__()
        half, quarter = channels // 2, channels // 4
        near, far = (2, 4) if wide else (1, 1)
        self.view3 = ConvBN(channels, half, 3, relu=False)
        self.reduce = ConvBN(channels, quarter, 3)
        self.view5 = ConvBN(quarter, quarter, 3, relu=False, dilation=near)
        self.deepen = ConvBN(quarter, quarter, 3, dilation=far)
        self.view7 = ConvBN(quarter, quarter, 3, relu=False, dilation=far)

    def forward(self, x: Tensor) -> Tensor:
        reduced = self.reduce(x)
        return F.relu(torch.cat((self.view3(x), self.view5(reduced), self.view7(self.deepen(reduced))), dim=1))


class Heads(nn.Module):
    """The three 1x1 heads of one level."""

    def __init__(self, channels: int):
        super().__init__()
        self.cls = nn.Conv2d(channels, ANCHORS_PER_CELL * len(CLASSES), 1)
        self.box = nn.Conv2d(channels, ANCHORS_PER_CELL * 4, 1)
        self.kps = nn.Conv2d(channels, ANCHORS_PER_CELL * KEYPOINTS * 2, 1)


class MarkerNet(nn.Module):
    """The whole network. `forward` gives nine tensors in OUTPUT_NAMES' order, class scores as logits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvBN(3, 8, 3, stride=2)
        channels, stages, taps = 8, [], []
        for blocks in BACKBONE_STAGES:
            layers = []
            for outputs, stride in blocks:
                layers.append(Separable(channels, outputs, stride))
                channels = outputs
            stages.append(nn.Sequential(*layers))
            taps.append(channels)
        self.stages = nn.ModuleList(stages)
        self.laterals = nn.ModuleList(ConvBN(c, PYRAMID_CHANNELS, 1) for c in taps)
        self.merges = nn.ModuleList(ConvBN(PYRAMID_CHANNELS, PYRAMID_CHANNELS, 3) for _ in range(len(taps) - 1))
        # A code that fills a picture of 1280x720 is wider than the 507 pixels that a cell of the last level sees of it
        # with plain kernels. With these it sees 891, at no more work.
        self.contexts = nn.ModuleList(Context(PYRAMID_CHANNELS, wide=i == len(taps) - 1) for i in range(len(taps)))
        self.heads = nn.ModuleList(Heads(PYRAMID_CHANNELS) for _ in taps)
        # Which corner is which depends on the symbol's turn: a choice among four, times a place. One more layer with a
        # ReLU between context and heads can make it; linear heads alone have to hold all four in their features.
        self.mixes = nn.ModuleList(ConvBN(PYRAMID_CHANNELS, PYRAMID_CHANNELS, 1) for _ in taps)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        for head in self.heads:
            for conv in (head.cls, head.box, head.kps):
                nn.init.normal_(conv.weight, std=0.01)
                nn.init.zeros_(conv.bias)
            # Start from a prior of 1 % so that the many empty cells do not drown the first steps.
            nn.init.constant_(head.cls.bias, -math.log(99.0))

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.stem(x)
        taps = []
        for stage in self.stages:
            x = stage(x)
            taps.append(x)
        levels = [lateral(tap) for lateral, tap in zip(self.laterals, taps)]
        for i in (1, 0):
            size = levels[i].shape[-2:]
            levels[i] = self.merges[i](levels[i] + F.interpolate(levels[i + 1], size=size, mode="nearest"))
        outputs = []
        for level, context, mix, head in zip(levels, self.contexts, self.mixes, self.heads):
            features = mix(context(level))
            outputs += [head.cls(features), head.box(features), head.kps(features)]
        return outputs


def level_sizes(height: int, width: int) -> list[tuple[int, int]]:
    """(h, w) of each level: every stride-2 convolution rounds up."""
    return [(-(-height // s), -(-width // s)) for s in STRIDES]


def make_anchors(height: int, width: int) -> Tensor:
    """f32 [N, 3]: centre x, centre y, side; in the order in which `flatten` lays out the cells."""
    rows = []
    for (h, w), stride, sides in zip(level_sizes(height, width), STRIDES, ANCHORS):
        y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        centre = torch.stack((x, y), dim=-1).reshape(-1, 1, 2).float().add(ANCHOR_OFFSET).mul(stride)
        side = torch.tensor(sides, dtype=torch.float32).reshape(1, -1, 1).expand(h * w, -1, 1)
        rows.append(torch.cat((centre.expand(-1, len(sides), -1), side), dim=-1).reshape(-1, 3))
    return torch.cat(rows)


def flatten(outputs: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Nine maps to cls [B, N, C], box [B, N, 4], kps [B, N, 10]; N runs over level, row, column, anchor."""

    def flat(maps: list[Tensor]) -> Tensor:
        parts = []
        for m in maps:
            batch, channels = m.shape[:2]
            parts.append(m.permute(0, 2, 3, 1).reshape(batch, -1, channels // ANCHORS_PER_CELL))
        return torch.cat(parts, dim=1).float()

    return flat(outputs[0::3]), flat(outputs[1::3]), flat(outputs[2::3])


def decode(box: Tensor, kps: Tensor, anchors: Tensor) -> tuple[Tensor, Tensor]:
    """Boxes [..., N, 4] as x0 y0 x1 y1 and keypoints [..., N, 5, 2], in network pixels."""
    centre, side = anchors[..., :2], anchors[..., 2:]
    middle = centre + box[..., :2] * (VARIANCES[0] * side)
    # exp of an untrained or diverging head must not become inf and poison the loss.
    half = side * torch.exp((box[..., 2:] * VARIANCES[1]).clamp(-4, 4)) / 2
    points = kps.unflatten(-1, (KEYPOINTS, 2)) * (VARIANCES[0] * side)[..., None, :] + centre[..., None, :]
    return torch.cat((middle - half, middle + half), dim=-1), points
