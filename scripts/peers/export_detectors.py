"""Exports today's detectors with random weights, as their packages do it, to measure and to compare engines.

  python3 scripts/peers/export_detectors.py FOLDER NAME...      NAME: yolo11n yolov8n yolo26n yolo12n ... (any of ultralytics),
                                                                efficientdet_lite0 (any of effdet), picodet_s, rtdetrv2_r18

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


def write(network: torch.nn.Module, size: tuple[int, int], path: Path) -> None:
    network.eval()
    randomise(network)
    torch.onnx.export(network, torch.zeros(1, 3, *size), str(path), opset_version=17, dynamo=False)


def rtdetr() -> torch.nn.Module:
    from transformers import RTDetrResNetConfig, RTDetrV2Config, RTDetrV2ForObjectDetection
    backbone = RTDetrResNetConfig(depths=[2, 2, 2, 2], layer_type="basic", hidden_sizes=[64, 128, 256, 512], embedding_size=64,
                                  out_features=["stage2", "stage3", "stage4"])
    network = RTDetrV2ForObjectDetection(RTDetrV2Config(
        backbone_config=backbone, use_pretrained_backbone=False, encoder_in_channels=[128, 256, 512], hidden_expansion=0.5,
        decoder_layers=3, anchor_image_size=[640, 640])).eval()

    class Outputs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, picture):
            found = self.network(pixel_values=picture)
            return found.logits, found.pred_boxes

    return Outputs()


def export(name: str, folder: Path) -> None:
    path = folder / f"{name}.onnx"
    if "efficientdet" in name:
        from effdet import create_model
        network = create_model(name, bench_task="", pretrained=False, pretrained_backbone=False)
        write(network, tuple(network.config.image_size), path)
    elif name.startswith("picodet_"):
        from libreyolo.models.picodet.nn import LibrePICODETModel
        write(LibrePICODETModel(name.removeprefix("picodet_")), (320, 320), path)
    elif name == "rtdetrv2_r18":
        write(rtdetr(), (640, 640), path)
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
