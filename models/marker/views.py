"""Views: what a camera makes of a scene. Cuts, turns, lights, blurs, adds noise and compresses whole batches.

Plain PyTorch on whichever device the scenes lie; every random number comes from one generator, so a seed
gives the same batch again. Pixel coordinates are those of OpenCV (first pixel's centre at 0, 0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# A code is asked for only where a camera could show it; the rest is neither wanted nor forbidden.
MIN_SIDE_PX = 16.0
MIN_MODULE_PX = 0.6
MIN_VISIBLE = 0.75
PAD_GREY = 114 / 255


@dataclass
class Batch:
    image: Tensor  # f32 [B, 3, H, W], BGR 0..1, on 8-bit steps
    corners: Tensor  # f32 [B, G, 4, 2] in network pixels
    classes: Tensor  # i64 [B, G], -1 where there is no code
    wanted: Tensor  # bool [B, G], false where a code is too small or too far outside to be asked for


class Dice:
    """Random numbers on one device, from PyTorch's own generator: the only kind that torch.compile fuses and CUDA
    graphs replay with new numbers each time."""

    def __init__(self, device: torch.device, seed: int):
        self.device = device
        torch.manual_seed(seed)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(shape, device=self.device) * (high - low) + low

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, device=self.device)

    def chance(self, p: float | Tensor, *shape: int) -> Tensor:
        return self.uniform(0, 1, *shape) < p

    def integers(self, high: int | Tensor, *shape: int) -> Tensor:
        """i64, 0 to high - 1; `high` may be a tensor, so that it can change between replays of a CUDA graph."""
        return (torch.rand(shape, device=self.device) * high).clamp(max=high - 1).long()


def _pair(like: Tensor, x: float, y: float) -> Tensor:
    """f32 [2], filled on the device: a constant copied there would wait for it, and cannot be in a CUDA graph."""
    return torch.stack((torch.full((), float(x), device=like.device), torch.full((), float(y), device=like.device)))


def _maps(dice: Dice, corners: Tensor, classes: Tensor, scene: tuple[int, int], out: tuple[int, int],
          quarter_turns: float | Tensor, teaching: bool) -> Tensor:  # fmt: skip
    """f32 [B, 2, 3]: affine maps from output pixels to scene pixels."""
    batch = len(corners)
    scene_h, scene_w = scene
    out_h, out_w = out
    fit = out_w / scene_w  # the scale at which the whole scene shows
    scale = fit * torch.exp(dice.uniform(math.log(0.84), math.log(3.0), batch))
    # A large view shows the scene's small codes as they are, or not at all.
    scale = torch.where(dice.chance(0.5 if teaching and fit >= 1 else 0.3, batch), torch.full_like(scale, fit), scale)
    angle = torch.where(dice.chance(0.4, batch), dice.normal(batch) * 0.12, torch.zeros_like(scale))
    angle = angle + torch.where(dice.chance(quarter_turns, batch), dice.integers(4, batch) * (math.pi / 2), 0.0)
    stretch = torch.where(dice.chance(0.3, batch), torch.exp(dice.normal(batch) * 0.08), torch.ones_like(scale))
    # Look at some code more often than not, else anywhere; but not far beyond the scene's edge.
    count = (classes >= 0).sum(dim=1)
    pick = (dice.uniform(0, 1, batch) * count).long().clamp(max=classes.shape[1] - 1)
    picked = corners[torch.arange(batch, device=corners.device), pick]
    target = picked.mean(dim=1)
    if teaching:  # now and then so near that the code fills a good part of the view, large ones more often
        box = (picked.amax(dim=1) - picked.amin(dim=1)).clamp(min=1)
        aimed = dice.chance(0.25 + 0.5 * (box[:, 1] > 0.35 * scene_h), batch) & (count > 0)
        share = torch.where(dice.chance(0.5, batch), dice.uniform(0.8, 0.98, batch), dice.uniform(0.3, 0.9, batch))
        wish = (share * out_h / box[:, 1]).minimum(0.98 * out_w / box[:, 0])
        scale = torch.where(aimed, wish.clamp(0.84 * fit, 4.5 * fit), scale)
    half = torch.stack((out_w / scale / 2, out_h / scale / 2), dim=1)
    extent = _pair(corners, scene_w, scene_h)
    anywhere = dice.uniform(0, 1, batch, 2) * extent
    target = target + (dice.uniform(-1, 1, batch, 2) * half * 0.9)
    use = (dice.chance(0.65, batch) & (count > 0))[:, None]
    centre = torch.where(use, target, anywhere)
    if teaching:
        room = (half - box / 2).clamp(min=0)
        centre = torch.where(aimed[:, None], picked.mean(dim=1) + dice.uniform(-1, 1, batch, 2) * room, centre)
    low = torch.minimum(half, extent / 2)
    centre = torch.minimum(torch.maximum(centre, low), extent - low)
    inverse = 1 / scale
    cos, sin = torch.cos(angle) * inverse, torch.sin(angle) * inverse
    linear = torch.stack((torch.stack((cos * stretch, -sin), -1), torch.stack((sin * stretch, cos), -1)), dim=1)
    middle = _pair(corners, (out_w - 1) / 2, (out_h - 1) / 2)
    shift = centre - 0.5 - (linear @ middle)
    return torch.cat((linear, shift[:, :, None]), dim=2)


def _sample(scenes: Tensor, maps: Tensor, out: tuple[int, int], fine: int = 1) -> Tensor:
    """Bilinear samples of u8 scenes [B, 3, H, W]; outside is letterbox grey. A pixel is the mean of fine x fine samples."""
    if fine > 1:
        shift = maps[:, :, 2:] + maps[:, :, :2].sum(dim=2, keepdim=True) * (0.5 / fine - 0.5)
        maps = torch.cat((maps[:, :, :2] / fine, shift), dim=2)
        return F.avg_pool2d(_sample(scenes, maps, (out[0] * fine, out[1] * fine)), fine)
    scene_h, scene_w = scenes.shape[-2:]
    out_h, out_w = out
    y, x = torch.meshgrid(
        torch.arange(out_h, device=maps.device, dtype=torch.float32),
        torch.arange(out_w, device=maps.device, dtype=torch.float32),
        indexing="ij",
    )
    points = torch.stack((x, y, torch.ones_like(x)), dim=-1).reshape(1, -1, 3) @ maps.transpose(1, 2)
    size = _pair(maps, scene_w, scene_h)
    grid = ((points + 0.5) / size * 2 - 1).reshape(-1, out_h, out_w, 2)
    image = F.grid_sample(scenes.float() - 255 * PAD_GREY, grid, padding_mode="zeros", align_corners=False)
    return image.div_(255).add_(PAD_GREY)


def _light(dice: Dice, image: Tensor) -> Tensor:
    """Uneven light, glare, exposure, colour cast, contrast, gamma."""
    b, _, h, w = image.shape
    field = F.interpolate(dice.normal(b, 1, 3, 4), size=(h, w), mode="bicubic", align_corners=True)
    image = image * torch.exp(field * dice.uniform(0, 0.3, b, 1, 1, 1))
    y, x = torch.meshgrid(torch.arange(h, device=image.device), torch.arange(w, device=image.device), indexing="ij")
    for _ in range(2):
        cx, cy = dice.uniform(0, w, b, 1, 1), dice.uniform(0, h, b, 1, 1)
        radius = torch.exp(dice.uniform(math.log(0.02), math.log(0.3), b, 1, 1)) * w
        spot = torch.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * radius**2)) * dice.uniform(0.1, 0.9, b, 1, 1)
        image = image + (spot * dice.chance(0.12, b, 1, 1))[:, None]
    gain = torch.exp(dice.normal(b, 1, 1, 1) * 0.3 - 0.1)
    cast = torch.exp(dice.normal(b, 3, 1, 1) * dice.uniform(0, 0.22, b, 1, 1, 1))
    image = (image * gain * cast).clamp_(0, 1)
    image = image ** torch.exp(dice.normal(b, 1, 1, 1) * 0.3)
    flat = torch.where(dice.chance(0.35, b, 1, 1, 1), dice.uniform(0.3, 1.0, b, 1, 1, 1), torch.ones(1, device=image.device))
    image = image * flat + dice.uniform(0, 1, b, 1, 1, 1) * (1 - flat) * 0.7
    grey = image.mean(dim=1, keepdim=True)
    pale = dice.uniform(0, 1.3, b, 1, 1, 1)
    pale = torch.where(dice.chance(0.15, b, 1, 1, 1), torch.zeros_like(pale), pale)
    return grey + (image - grey) * pale


def _blur(dice: Dice, image: Tensor, reach: int) -> tuple[Tensor, Tensor]:
    """Defocus and motion, one kernel a picture; and how much, f32 [B], in pixels."""
    b, c, h, w = image.shape
    size = 2 * reach + 1
    axis = torch.arange(-reach, reach + 1, device=image.device, dtype=torch.float32)
    y, x = axis[:, None], axis[None]
    angle = dice.uniform(0, math.pi, b, 1, 1)
    along = x * torch.cos(angle) + y * torch.sin(angle)
    across = -x * torch.sin(angle) + y * torch.cos(angle)
    sigma = dice.uniform(0.25, 1.0, b, 1, 1) ** 2 * reach * 0.32
    moving = dice.chance(0.3, b, 1, 1)
    length = torch.where(moving, dice.uniform(0.5, 1.0, b, 1, 1) * reach * 0.55, sigma).maximum(sigma)
    kernel = torch.exp(-0.5 * ((along / length) ** 2 + (across / sigma.clamp(min=0.3)) ** 2))
    kernel = kernel / kernel.sum(dim=(1, 2), keepdim=True)
    padded = F.pad(image, [reach] * 4, mode="replicate").reshape(1, b * c, h + 2 * reach, w + 2 * reach)
    weight = kernel.repeat_interleave(c, dim=0).reshape(b * c, 1, size, size)
    return F.conv2d(padded, weight, groups=b * c).reshape(b, c, h, w), ((sigma + length) / 2)[:, 0, 0]


def _sharpen_and_noise(dice: Dice, image: Tensor) -> Tensor:
    b, c, h, w = image.shape
    soft = F.avg_pool2d(F.pad(image, [1] * 4, mode="replicate"), 3, stride=1)
    amount = torch.where(dice.chance(0.3, b, 1, 1, 1), dice.uniform(0, 1.8, b, 1, 1, 1), torch.zeros(1, device=image.device))
    image = image + (image - soft) * amount
    level = dice.uniform(0, 1, b, 1, 1, 1) ** 3 * 0.07
    grain = dice.normal(b, 1, h, w) * 0.8 + dice.normal(b, c, h, w) * 0.5
    blotch = F.interpolate(dice.normal(b, c, h // 3, w // 3), size=(h, w), mode="bilinear", align_corners=False)
    return image + level * (grain + blotch * 0.5) * (0.4 + image.clamp(0, 1).sqrt())


JpegTables = tuple[Tensor, Tensor, Tensor]


def jpeg_tables(device: torch.device) -> JpegTables:
    """DCT-II matrix and the luminance and chrominance tables of ITU-T T.81, annex K.1."""
    k = torch.arange(8, dtype=torch.float32)
    dct = torch.cos((2 * k[None] + 1) * k[:, None] * math.pi / 16) / 2
    dct[0] /= math.sqrt(2)
    luma = torch.tensor([
        16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
        14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
        49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
    ]).float().reshape(8, 8)  # fmt: skip
    chroma = torch.full((8, 8), 99.0)
    chroma[:4, :4] = torch.tensor([17, 18, 24, 47, 18, 21, 26, 66, 24, 26, 56, 99, 47, 66, 99, 99]).float().reshape(4, 4)
    return dct.to(device), luma.to(device), chroma.to(device)


def _quantise(plane: Tensor, table: Tensor, dct: Tensor) -> Tensor:
    """Rounds the 8x8 spectra of planes [B, H, W] (0..255, sides divisible by 8) by tables [B, 8, 8]."""
    b, h, w = plane.shape
    blocks = plane.reshape(b, h // 8, 8, w // 8, 8).permute(0, 1, 3, 2, 4) - 128
    step = table[:, None, None]
    spectrum = torch.round(dct @ blocks @ dct.T / step) * step
    return (dct.T @ spectrum @ dct).permute(0, 1, 3, 2, 4).reshape(b, h, w) + 128


def _jpeg(dice: Dice, tables: JpegTables, image: Tensor) -> Tensor:
    """JPEG's loss at qualities 20 to 95; also stands in for video coding."""
    b, _, h, w = image.shape
    dct, luma, chroma = tables
    quality = dice.uniform(20, 95, b, 1, 1)
    factor = torch.where(quality < 50, 50 / quality, 2 - quality / 50)
    blue, green, red = (image * 255).unbind(dim=1)
    y = 0.299 * red + 0.587 * green + 0.114 * blue
    y2 = _quantise(y, (luma * factor).clamp(min=1), dct)
    differences = []
    for channel, gain in ((blue, 0.564), (red, 0.713)):
        half = F.avg_pool2d(((channel - y) * gain + 128)[:, None], 2)[:, 0]
        ph, pw = -half.shape[1] % 8, -half.shape[2] % 8
        half = F.pad(half[:, None], [0, pw, 0, ph], mode="replicate")[:, 0]
        half = _quantise(half, (chroma * factor).clamp(min=1), dct)[:, : h // 2, : w // 2]
        differences.append(F.interpolate(half[:, None], size=(h, w), mode="nearest")[:, 0] - 128)
    cb, cr = differences
    return torch.stack((y2 + 1.773 * cb, y2 - 0.344 * cb - 0.714 * cr, y2 + 1.403 * cr), dim=1) / 255


def _bars(dice: Dice, image: Tensor) -> tuple[Tensor, Tensor]:
    """Letterbox bars of 4:3 and square cameras on a tenth of the pictures; also the visible x range."""
    b, _, _, w = image.shape
    share = torch.where(dice.chance(0.5, b), torch.full((b,), 0.125, device=image.device), torch.full((b,), 0.21875, device=image.device))
    bar = torch.where(dice.chance(0.1, b), share * w, torch.zeros(b, device=image.device))
    x = torch.arange(w, device=image.device)
    hidden = (x[None] < bar[:, None]) | (x[None] >= w - bar[:, None])
    image = torch.where(hidden[:, None, None], torch.full((1,), PAD_GREY, device=image.device), image)
    return image, torch.stack((bar, w - bar), dim=1)


def _grid(corners: Tensor) -> Tensor:
    """8x8 points of each quadrilateral, [..., 4, 2] to [..., 8, 8, 2]."""
    t = (torch.arange(8, device=corners.device) + 0.5) / 8
    top = corners[..., 0, None, :] + (corners[..., 1, None, :] - corners[..., 0, None, :]) * t[:, None]
    bottom = corners[..., 3, None, :] + (corners[..., 2, None, :] - corners[..., 3, None, :]) * t[:, None]
    return top[..., None, :] + (bottom - top)[..., None, :] * t[:, None]


def _visible_share(drawn: Tensor, moved: Tensor, scene: tuple[int, int], x_range: Tensor, height: int) -> Tensor:
    """Share of each quadrilateral that the view shows: inside the view, as it has `moved` there, and inside the scene, where
    it was `drawn`. Beyond the scene's edge nothing was drawn."""
    x, y = _grid(drawn).unbind(dim=-1)
    inside = (x > -0.5) & (x < scene[1] - 0.5) & (y > -0.5) & (y < scene[0] - 0.5)
    x, y = _grid(moved).unbind(dim=-1)
    low, high = x_range[:, 0, None, None, None], x_range[:, 1, None, None, None]
    inside &= (x >= low) & (x < high) & (y >= 0) & (y < height)
    return inside.float().mean(dim=(-1, -2))


def _inverse(m: Tensor) -> Tensor:
    """Of 2x2 matrices [..., 2, 2]; the library's solver waits for the device."""
    (a, b), (c, d) = (row.unbind(-1) for row in m.unbind(-2))
    adjugate = torch.stack((torch.stack((d, -b), -1), torch.stack((-c, a), -1)), dim=-2)
    return adjugate / (a * d - b * c)[..., None, None]


def side_lengths(corners: Tensor) -> Tensor:
    """Mean length of a quadrilateral's four sides, [..., 4, 2] to [...]."""
    return (corners - corners.roll(1, dims=-2)).norm(dim=-1).mean(dim=-1)


@torch.no_grad()
def make_views(
    dice: Dice, tables: JpegTables, scenes: Tensor, corners: Tensor, classes: Tensor, modules: Tensor, width: int, height: int,
    min_side: float = MIN_SIDE_PX, min_module: float = MIN_MODULE_PX, quarter_turns: float | Tensor = 0.0, teaching: bool = False,
) -> Batch:  # fmt: skip
    """One view of each u8 scene [B, 3, H, W] with corners [B, G, 4, 2], classes and modules [B, G]. For training: some
    views look at one code from near, every other one that shrinks its scene is made of means of pixels, and codes that
    blur has wiped out are not wanted."""
    out = (height, width)
    maps = _maps(dice, corners, classes, tuple(scenes.shape[-2:]), out, quarter_turns, teaching)
    if teaching and height < scenes.shape[-2] and len(scenes) % 2 == 0:
        image = torch.stack((_sample(scenes[0::2], maps[0::2], out, 2), _sample(scenes[1::2], maps[1::2], out)), dim=1).flatten(0, 1)
    else:
        image = _sample(scenes, maps, out)
    linear, shift = maps[:, :, :2], maps[:, :, 2]
    moved = (corners - shift[:, None, None]) @ _inverse(linear)[:, None].transpose(-1, -2)

    reach = max(5, round(5 * height / 360))
    image = _light(dice, image)
    # The batch's order is random already, so fixed shares of it spare the cost of throwing dice and results
    # away: 62 % are blurred, 56 % compressed, 19 % both.
    batch = len(image)
    blurred, coded = round(0.62 * batch), round(0.44 * batch)
    softness = torch.zeros(batch, device=image.device)
    if blurred:
        soft, softness[:blurred] = _blur(dice, image[:blurred], reach)
        image = torch.cat((soft, image[blurred:]))
    image = _sharpen_and_noise(dice, image).clamp_(0, 1)
    # Large views only: the last of the compressed ones come from a camera of half the size.
    enlarged = batch - round(0.2 * batch) if teaching and height >= scenes.shape[-2] else batch
    if enlarged < batch:
        small = F.interpolate(_jpeg(dice, tables, F.avg_pool2d(image[enlarged:], 2)), scale_factor=2, mode="bilinear", align_corners=False)
        softness[enlarged:] += 3
    if coded < batch:
        image = torch.cat((image[:coded], _jpeg(dice, tables, image[coded:enlarged])))
    if enlarged < batch:
        image = torch.cat((image, small))
    image, x_range = _bars(dice, image)
    image = image.clamp_(0, 1).mul_(255).round_().div_(255)

    sides = side_lengths(moved)
    module = sides / modules.clamp(min=1)
    big_enough = (sides >= min_side) & (module >= min_module)
    if teaching:  # a finder pattern has seven modules; with more blur than that neither it nor the frame is left
        big_enough &= (sides >= 6 * softness[:, None]) & (7 * module >= 2.2 * softness[:, None])
    seen = _visible_share(corners, moved, tuple(scenes.shape[-2:]), x_range, height)
    wanted = big_enough & (seen >= MIN_VISIBLE) & (classes >= 0)
    # What has left the picture for good must not shield its place from the loss.
    classes = torch.where(seen > 0.02, classes, torch.full_like(classes, -1))
    return Batch(image, moved, classes, wanted)
