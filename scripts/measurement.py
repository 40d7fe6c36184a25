"""The form of the files in docs/measurements: what was measured, in which unit, where, when, by which command, and rows."""

import json
from pathlib import Path

KEYS = ("what", "unit", "machine", "recorded", "command")


def text(document: dict) -> str:
    """A file's text: the keys, an optional "note", and a line for each row."""
    lines = [f"  {json.dumps(key)}: {json.dumps(document[key], ensure_ascii=False)}," for key in (*KEYS, "note") if key in document]
    rows = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in document["rows"])
    return "\n".join(["{", *lines, '  "rows": [', rows, "  ]", "}"]) + "\n"


def write(path: Path, document: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(document), encoding="utf-8")


def bench_rows(rows: list[dict], percentiles=("p50", "p99"), extra: dict | None = None) -> list[dict]:
    """Rows of `camd bench --json` as those of gpu-strategies.json (all keys) or gpu-paced.json (no rates)."""
    stages = {"host_to_host": "e2e_us", "h2d": "h2d_us", "preprocess": "preprocess_us", "network": "infer_us", "d2h": "d2h_us"}
    made = []
    for row in rows:
        out = {**(extra or {}), "strategy": row["strategy"]}
        out.update({ours: [round(row[theirs][p]) for p in percentiles] for ours, theirs in stages.items()})
        if "p999" not in percentiles:
            out.update(frames_per_second=round(row["fps"]), bytes_up=row["h2d_bytes"], bytes_down=row["d2h_bytes"])
        made.append(out)
    return made


# Rows of scripts/peers/torch_pipeline.py by their names in the plots.
TORCH = {
    "compiled-f16": "PyTorch f16, compiled, one CUDA graph",
    "graph-f16": "PyTorch f16, channels last, one CUDA graph",
    "graph-f32": "PyTorch f32, one CUDA graph",
    "eager-f32-pinned": "PyTorch f32, eager, page-locked memory",
    "eager-f32-waiting": "PyTorch f32, eager, pageable memory",
}


def peer_rows(camd: list[dict], torch: list[dict]) -> list[dict]:
    """gpu-peers.json from `camd bench` (BGR, f16 outputs) and torch_pipeline.py: camd's two best ways, then PyTorch's rows."""
    def pair(row: dict) -> list[int]:
        return [round(row["e2e_us"]["p50"]), round(row["e2e_us"]["p99"])]

    ours = {row["strategy"]: row for row in camd}
    rows = [{"name": f"camd, network in f16, transfer {name}", "program": "camd", "host_to_host": pair(ours[strategy])}
            for name, strategy in (("direct", "graph-direct"), ("pinned", "graph"))]
    theirs = {row["strategy"]: row for row in torch}
    return rows + [{"name": label, "program": "PyTorch", "host_to_host": pair(theirs[name])}
                   for name, label in TORCH.items() if name in theirs]
