"""Runs whose every checkpoint is kept: what a run goes on from, at each of its steps."""
import json
import os
import pathlib
import shutil
import subprocess

from jobs import sha256

STEPS = 40
MIXES = {"all": [], "all, two ranks": ["--ranks", "2"], "all, --benchmark": ["--benchmark"],
         "all, two ranks, --benchmark": ["--ranks", "2", "--benchmark"]}
ALL = ["--model", "lenet", "--epochs", "4", "--batch-size", "200", "--amp", "fp16", "--ema", "0.9",
       "--accumulate", "2", "--schedule", "plateau", "--mixup", "0.2",
       "--checkpoint-every", "1", "--threads", "1", "--workers", "0", "--json"]


def keep(folder, step, aside):
    """A copy of the run as it was when `step` was saved, which takes a moment: files are linked."""
    copy = aside / str(step)
    saved = pathlib.Path("checkpoints") / f"step-{step}"
    try:
        (copy / saved).mkdir(parents=True)
        for path in (folder / saved).iterdir():
            os.link(path, copy / saved / path.name)
        os.link(folder / saved / "manifest.json", copy / "whole")
        (copy / "whole").unlink()
    except FileNotFoundError:  # removed: two newer ones are written
        shutil.rmtree(copy)
        return None
    for path in folder.iterdir():
        if path.is_file() and path.name != "launcher.lock":
            shutil.copy(path, copy / path.name)
    return copy


def record(campaign, name, words):
    """Its copies by step, and the bytes in which the run ends."""
    folder, aside = campaign.folder / "steps" / name, campaign.folder / "aside" / name
    copies = {}
    process = subprocess.Popen(
        [campaign.wick, "train", "--data", "mnist", "--data-dir", str(campaign.folder), *ALL,
         *words, "--run-dir", str(folder)], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        event = json.loads(line)
        if event.get("event") == "checkpoint":
            copies[event["step"]] = keep(folder, event["step"], aside)
    if process.wait() != 0:
        raise RuntimeError(f"{name}: exit code {process.returncode}")
    return {step: copy for step, copy in copies.items() if copy}, folder / "weights.safetensors"


def list_steps(campaign, count):
    """Of mixes that give `count` steps, and of each step: what it is, its folder, the words to go
    on with, the bytes wanted."""
    found = []
    needed = min(len(MIXES), count // STEPS + 1)
    for name, words in campaign.random.sample(sorted(MIXES.items()), needed):
        copies, weights = record(campaign, name, words)
        missed = set(range(STEPS)) - set(copies)
        if missed:
            print(f"every-step: {name}: steps that were removed before they could be copied: "
                  f"{sorted(missed)}")
        ranks = words[:2] if "--ranks" in words else []
        found += [(f"{name}: goes on from step {step}", copies[step], ranks, sha256(weights))
                  for step in copies]
    return found
