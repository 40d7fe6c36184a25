"""What the network is taught: which anchors answer for which code, and the three losses."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from codes import MARKER
from detector import NEAR
from codes import CLASSES
from model import decode
from views import Batch, side_lengths

_CANDIDATES = 12  # anchors a code can have at most
_SHARE_OF_BEST = 0.7  # a candidate's IoU must reach this share of the best one's
_IGNORE_IOU = 0.15
# Corner errors count by their logarithm, in units of this share of the side: keeps pulling where the error
# is small already, and where the turn of a code cannot be seen it settles on one of the four instead of
# their mean, which would fold the corners into the centre.
_CORNER_UNIT = 0.01
# The logarithm alone hardly pulls at a corner that is a whole side off, so the turn of QR codes is never
# learned from it; the linear part does that, once the corners are sharp.
_LOGARITHM_SHARE, _LINEAR_SHARE = 0.5, 12.0
# A marker whose two candidates for first corner differ by less than this share of its side (8 degrees of
# turn) may take either.
TIE = 0.2


def boxes_of(corners: Tensor) -> Tensor:
    """[..., 4, 2] to x0 y0 x1 y1."""
    return torch.cat((corners.amin(dim=-2), corners.amax(dim=-2)), dim=-1)


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    """IoU of boxes whose leading dimensions broadcast."""

    def area(extent: Tensor) -> Tensor:  # the derivative of prod() waits for the device, which no CUDA graph can hold
        return extent[..., 0] * extent[..., 1]

    overlap = area((torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0))
    area_a, area_b = area(a[..., 2:] - a[..., :2]), area(b[..., 2:] - b[..., :2])
    return overlap / (area_a + area_b - overlap).clamp(min=1e-6)


def upright_order(corners: Tensor) -> tuple[Tensor, Tensor]:
    """The same quadrilaterals [..., 4, 2] begun at the corner nearest to the picture's top left (least x + y),
    and begun at the second nearest where the two tie, else the first again."""
    rank = corners.sum(dim=-1)
    least, order = rank.sort(dim=-1)
    tied = (least[..., 1] - least[..., 0]) < TIE * side_lengths(corners)
    steps = torch.arange(4, device=corners.device)

    def begun_at(first: Tensor) -> Tensor:
        index = (first[..., None] + steps) % 4
        return corners.gather(-2, index[..., None].expand(*index.shape, 2))

    return begun_at(order[..., 0]), begun_at(torch.where(tied, order[..., 1], order[..., 0]))


def taught_corners(corners: Tensor, classes: Tensor, marker_order: str) -> tuple[Tensor, Tensor]:
    """Corner order that is asked for, and the one accepted as well. QR codes carry their own top left;
    markers do so only through their dictionary ("true"), or are read as they stand in the picture ("upright")."""
    if marker_order == "true":
        return corners, corners
    first, second = upright_order(corners)
    is_marker = (classes == MARKER)[..., None, None]
    return torch.where(is_marker, first, corners), torch.where(is_marker, second, corners)


@dataclass
class Assignment:
    index: Tensor  # i64 [B, G, K], candidate anchors of each code, best first
    valid: Tensor  # bool [B, G, K], whether the candidate answers for that code (then for no other)
    ignored: Tensor  # bool [B, N], no class loss


@torch.no_grad()
def assign(batch: Batch, anchors: Tensor) -> Assignment:
    """Of fixed shapes whatever the batch holds, so that nothing waits for the device and a CUDA graph can hold it."""
    half = anchors[:, 2:] / 2
    anchor_boxes = torch.cat((anchors[:, :2] - half, anchors[:, :2] + half), dim=1)
    boxes = boxes_of(batch.corners)
    iou = box_iou(boxes[:, :, None], anchor_boxes[None, None])  # [B, G, N]
    present = batch.classes >= 0
    wanted_iou = iou * batch.wanted[..., None]
    top, index = wanted_iou.topk(_CANDIDATES, dim=2)
    good = (top >= _SHARE_OF_BEST * top[..., :1]) & (top > 0.05)
    chosen = torch.zeros_like(iou).scatter_(2, index, top * good)
    best, code = chosen.max(dim=1)
    of = torch.arange(boxes.shape[1], device=boxes.device)[None, :, None]
    valid = good & (code[:, None].expand(-1, boxes.shape[1], -1).gather(2, index) == of)
    unwanted = (present & ~batch.wanted)[..., None]
    x, y = anchors[:, 0], anchors[:, 1]
    inside = (x > boxes[..., :1]) & (x < boxes[..., 2:3]) & (y > boxes[..., 1:2]) & (y < boxes[..., 3:4])
    # An anchor several times a code's size shares its centre but has no business with it; `inside` alone
    # would silence the large anchors around every tiny code.
    ignored = (unwanted & ((iou > _IGNORE_IOU) | (inside & (iou > 0.02)))).any(dim=1) & (best <= 0)
    return Assignment(index, valid, ignored)


@dataclass
class Losses:
    total: Tensor
    cls: Tensor
    box: Tensor
    kps: Tensor
    iou: Tensor  # mean IoU of the positive anchors' boxes


def detection_loss(cls: Tensor, box: Tensor, kps: Tensor, batch: Batch, anchors: Tensor, marker_order: str,
                   turn: Tensor, kps_weight: Tensor, together: Tensor) -> Losses:  # fmt: skip
    """Losses of flattened f32 outputs (class scores as logits). `turn`, f32 scalar 0..1: how much the turn of codes
    counts against the sharpness of their corners; `kps_weight`, f32 scalar: how much both count in the total;
    `together`, f32 scalar 0..1: the share of it that is asked of the mean over a code's cells, which is what decoding
    reports, and not of each cell for itself."""
    match = assign(batch, anchors)
    b, g, k = match.index.shape
    rows = match.index.reshape(b, g * k)
    valid = match.valid.reshape(b, g * k)
    count = valid.sum().clamp(min=1)

    def of_candidates(x: Tensor) -> Tensor:
        return x.gather(1, rows[..., None].expand(-1, -1, x.shape[2]))

    boxes, points = decode(of_candidates(box), of_candidates(kps), anchors[rows])
    corners = batch.corners.repeat_interleave(k, dim=1)  # [B, G*K, 4, 2]
    classes = batch.classes.repeat_interleave(k, dim=1)
    target = boxes_of(corners)
    iou = box_iou(boxes, target)
    box_loss = torch.where(valid, 1 - _diou(boxes, target, iou), 0.0).sum() / count

    def keypoint_cost(points: Tensor, corners: Tensor, classes: Tensor) -> Tensor:
        """Of keypoints [B, M, 5, 2] against corners [B, M, 4, 2], in the better of the orders that are accepted."""
        side = side_lengths(corners).clamp(min=1)
        centre = corners.mean(dim=2, keepdim=True)
        costs = []
        for way in taught_corners(corners, classes, marker_order):
            error = (points - torch.cat((way, centre), dim=2)).square().sum(dim=-1).add(1e-6).sqrt() / side[..., None]
            sharp = torch.log1p(error / _CORNER_UNIT)
            costs.append((sharp * (1 + (_LOGARITHM_SHARE - 1) * turn) + error * (_LINEAR_SHARE * turn)).sum(dim=-1))
        return torch.minimum(*costs)

    each = torch.where(valid, keypoint_cost(points, corners, classes), 0.0).sum() / count
    own_score = of_candidates(cls).gather(2, classes.clamp(min=0)[..., None])[..., 0].sigmoid().detach()
    mean = _mean_keypoints(points, own_score.square() * valid, anchors[rows][..., :2], k)
    answered = match.valid.sum(dim=2)  # cells that answer for a code: it counts as often here as in `each`
    of_means = torch.where(answered > 0, keypoint_cost(mean, batch.corners, batch.classes) * answered, 0.0).sum() / count
    kps_loss = each + (of_means - each) * together

    # Varifocal loss (Zhang et al., 2021): the score also learns how well its box sits, so that suppression
    # keeps the best of several.
    quality = torch.where(valid, 0.4 + 0.6 * iou.detach().clamp(0, 1), 0.0)
    wanted = torch.zeros_like(cls).flatten(1)
    wanted = wanted.scatter_add(1, rows * len(CLASSES) + classes.clamp(min=0), quality).view_as(cls)
    score = cls.sigmoid().detach()
    weight = torch.where(wanted > 0, wanted, 0.75 * score.square())
    weight = weight * (~match.ignored)[..., None]
    cls_loss = (F.binary_cross_entropy_with_logits(cls, wanted, reduction="none") * weight).sum() / count

    total = 2.0 * cls_loss + 2.0 * box_loss + kps_weight * kps_loss
    mean_iou = torch.where(valid, iou.detach(), 0.0).sum() / count
    return Losses(total, cls_loss.detach(), box_loss.detach(), kps_loss.detach(), mean_iou)


def _mean_keypoints(points: Tensor, weight: Tensor, centres: Tensor, k: int) -> Tensor:
    """What decoding makes of the k candidates of each code: of points [B, G*K, P, 2] the means [B, G, P, 2], by weight
    [B, G*K] and by how near to the point the candidate's anchor centre [B, G*K, 2] lies."""
    points, weight, centres = (x.unflatten(1, (-1, k)) for x in (points, weight, centres))
    with torch.no_grad():
        best = points.gather(2, weight.argmax(dim=2)[..., None, None, None].expand(-1, -1, 1, *points.shape[3:]))
        low, high = best.amin(dim=3, keepdim=True), best.amax(dim=3, keepdim=True)
        area = (high - low).prod(dim=-1).clamp(min=1)
        distance = (centres[..., None, :] - best).square().sum(dim=-1)
        near = torch.exp(-distance / (2 * NEAR**2 * area)).clamp(min=1e-6)
        weight = weight[..., None] * near + 1e-9
        weight = (weight / weight.sum(dim=2, keepdim=True))[..., None]
    return (points * weight).sum(dim=2)


def _diou(a: Tensor, b: Tensor, iou: Tensor) -> Tensor:
    """Distance-IoU (Zheng et al., 2020): pulls boxes together that do not overlap yet."""
    hull = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    apart = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
    return iou - apart.square().sum(dim=-1) / hull.square().sum(dim=-1).clamp(min=1e-6)


@torch.no_grad()
def probe(cls: Tensor, box: Tensor, kps: Tensor, batch: Batch, anchors: Tensor, marker_order: str) -> dict[str, float]:
    """Quick figures of one batch: of each wanted code's best-scored anchor, is it found, how far are its corners,
    is the first one right?"""
    match = assign(batch, anchors)
    rows: dict[str, list[Tensor]] = {}
    score = cls.sigmoid()
    for class_id, name in enumerate(CLASSES):
        found, errors, turned = [], [], []
        for i, g in (batch.wanted & (batch.classes == class_id)).nonzero().tolist():
            mine = match.index[i, g][match.valid[i, g]]
            if len(mine) == 0:
                continue
            best = mine[score[i, mine, class_id].argmax()]
            _, points = decode(box[i, best][None], kps[i, best][None], anchors[best][None])
            ways = torch.stack(taught_corners(batch.corners[i, g], batch.classes[i, g], marker_order))
            side = side_lengths(ways[0])
            error = torch.stack([(points[0, :4] - w).norm(dim=-1).mean() for w in ways]).min() / side
            nearest = (points[0, :1] - ways[0]).norm(dim=-1).argmin()
            allowed = [int((ways[0] - w[0]).norm(dim=-1).argmin()) for w in ways]
            found.append(score[i, best, class_id] > 0.5)
            errors.append(error)
            turned.append(torch.tensor(int(nearest) in allowed))
        if found:
            rows[f"{name}_found"] = torch.stack(found).float().mean().item()
            rows[f"{name}_corner"] = torch.stack(errors).median().item()
            rows[f"{name}_turn"] = torch.stack(turned).float().mean().item()
    return rows
