"""Exports today's detectors with random weights, as their packages do it, to measure and to compare engines.

  python3 scripts/peers/export_detectors.py FOLDER NAME...      NAME: yolo11n yolov8n yolo26n yolo12n ... (any of ultralytics),
                                                                efficientdet_lite0 (any of effdet), picodet_s, rtdetrv2_r18,
                                                                dfine_n, libreyolo:LibreLWDETR:t (any class of
                                                                libreyolo, by its own exporter), heads:yolov8n (YOLOv8
                                                                to 12, decoded, and not decoded in NAME_heads.onnx)

The running means and variances of batch norms are random too: else every score would be alike. Needs torch, onnx and, by name,
ultralytics, effdet, libreyolo or transformers (PyPI). What they make is for measurements and never committed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

os.environ["YOLO_OFFLINE"] = "true"
import torch  # noqa: E402


def randomise(network: torch.nn.Module) -> None:
    dice = torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.copy_(torch.randn(module.running_mean.shape, generator=dice) * 0.1)
            module.running_var.copy_(torch.rand(module.running_var.shape, generator=dice) + 0.5)


def enliven(network: torch.nn.Module) -> None:
    """Weights that hand on what they are given: as packages make them, nothing of the picture reaches the outputs."""
    dice = torch.Generator().manual_seed(2)
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            inputs = module.weight[0].numel()
            module.weight.copy_(torch.randn(module.weight.shape, generator=dice) * (1.6 / inputs) ** 0.5)
        elif isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.ones_(module.weight)
            torch.nn.init.zeros_(module.bias)


def write(network: torch.nn.Module, size: tuple[int, int], path: Path) -> None:
    network.eval()
    randomise(network)
    torch.onnx.export(network, torch.zeros(1, 3, *size), str(path), opset_version=17, dynamo=False)


class Detector(torch.nn.Module):
    """The two outputs that exporters of the DETR family keep: a picture's logits and boxes."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, picture):
        found = self.network(pixel_values=picture)
        return found.logits, found.pred_boxes


class Heads(torch.nn.Module):
    """A YOLO of ultralytics without its decoding: a map of bins and classes for each stride."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, picture):
        *layers, head = self.network.model
        made = []
        for layer in layers:
            if layer.f != -1:
                picture = made[layer.f] if isinstance(layer.f, int) else [picture if i == -1 else made[i] for i in layer.f]
            picture = layer(picture)
            made.append(picture)
        return tuple(torch.cat((box(made[i]), cls(made[i])), 1) for i, box, cls in zip(head.f, head.cv2, head.cv3))


def rtdetr() -> torch.nn.Module:
    from transformers import RTDetrResNetConfig, RTDetrV2Config, RTDetrV2ForObjectDetection
    backbone = RTDetrResNetConfig(depths=[2, 2, 2, 2], layer_type="basic", hidden_sizes=[64, 128, 256, 512], embedding_size=64,
                                  out_features=["stage2", "stage3", "stage4"])
    return Detector(RTDetrV2ForObjectDetection(RTDetrV2Config(
        backbone_config=backbone, use_pretrained_backbone=False, encoder_in_channels=[128, 256, 512], hidden_expansion=0.5,
        decoder_layers=3, anchor_image_size=[640, 640], num_labels=80)).eval())


def dfine() -> torch.nn.Module:
    """D-FINE-N, by the numbers of its authors' configuration."""
    from transformers import DFineConfig, DFineForObjectDetection, HGNetV2Config
    backbone = HGNetV2Config(
        depths=[1, 1, 2, 1], hidden_sizes=[64, 256, 512, 1024], stem_channels=[3, 16, 16], stage_in_channels=[16, 64, 256, 512],
        stage_mid_channels=[16, 32, 64, 128], stage_out_channels=[64, 256, 512, 1024], stage_num_blocks=[1, 1, 2, 1],
        stage_numb_of_layers=[3, 3, 3, 3], use_learnable_affine_block=True, out_features=["stage3", "stage4"])
    return Detector(DFineForObjectDetection(DFineConfig(
        backbone_config=backbone, encoder_in_channels=[512, 1024], encoder_hidden_dim=128, encoder_ffn_dim=512, d_model=128,
        decoder_ffn_dim=512, decoder_in_channels=[128, 128], decoder_layers=3, decoder_n_points=[6, 6], num_feature_levels=2,
        feat_strides=[16, 32], encode_proj_layers=[1], hidden_expansion=0.34, depth_mult=0.5, anchor_image_size=[640, 640],
        num_labels=80)).eval())


DETRS = {"rtdetrv2_r18": rtdetr, "dfine_n": dfine}


def export(name: str, folder: Path) -> None:
    path = folder / f"{name}.onnx"
    if "efficientdet" in name:
        from effdet import create_model
        network = create_model(name, bench_task="", pretrained=False, pretrained_backbone=False)
        write(network, tuple(network.config.image_size), path)
    elif name.startswith("picodet_"):
        from libreyolo.models.picodet.nn import LibrePICODETModel
        network = LibrePICODETModel(name.removeprefix("picodet_"))
        enliven(network)
        write(network, (320, 320), path)
    elif name.startswith("libreyolo:"):
        import libreyolo
        kind, size = (name.split(":") + [""])[1:3]
        maker = getattr(libreyolo, kind)
        model = maker(None, size=size or next(iter(maker.INPUT_SIZES)), device="cpu")
        enliven(model.model)
        randomise(model.model)
        model.export(format="onnx", output_path=str(folder / f"{name.replace(':', '_')}.onnx"))
    elif name in DETRS:
        network = DETRS[name]()
        enliven(network)
        write(network, (640, 640), path)
    elif name.startswith("heads:"):
        from ultralytics import YOLO
        name = name.removeprefix("heads:")
        network = YOLO(f"{name}.yaml")
        for layers in network.model.model[-1].cv3:
            layers[-1].bias += 8  # untrained classes begin near nothing
        randomise(network.model)
        shutil.move(network.export(format="onnx", imgsz=640, opset=17, simplify=False), folder / f"{name}.onnx")
        write(Heads(network.model), (640, 640), folder / f"{name}_heads.onnx")
    else:
        from ultralytics import YOLO
        network = YOLO(f"{name}.yaml")
        randomise(network.model)
        shutil.move(network.export(format="onnx", imgsz=640, opset=17, simplify=False), path)


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    torch.manual_seed(1)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        for name in sys.argv[2:]:
            export(name, folder)


if __name__ == "__main__":
    main()
