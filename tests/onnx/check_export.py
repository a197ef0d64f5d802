#!/usr/bin/env python3
"""Checks the models of a folder with ONNX's checker, and runs them with onnxruntime:
check_export.py FOLDER. Beside NAME.onnx lies NAME.safetensors with the input and the result that
Wick computed. Code 77 where a package is missing.
"""
import json
import pathlib
import struct
import sys

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError:
    sys.exit(77)

DTYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "BOOL": "?"}
MOST = 1e-5  # of difference, against the largest element or 1


def tensors_of(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[8 + size:][slice(*entry["data_offsets"])],
                                   DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}


def difference(path):
    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options,
                                           providers=["CPUExecutionProvider"])
    known = tensors_of(path.with_suffix(".safetensors"))
    (got,) = session.run(["output0"], {"input0": known["input0"]})
    want = known["output0"]
    if got.shape != want.shape:
        return float("inf")
    return float(abs(got - want).max() / max(1, abs(want).max()))


def main():
    failed = 0
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.onnx"))
    worst = 0.0
    for path in paths:
        try:
            off = difference(path)
        except Exception as error:  # of the checker and of onnxruntime, which have many
            print(f"{path.stem}: {error}")
            failed += 1
            continue
        worst = max(worst, off)
        if not off <= MOST:
            print(f"{path.stem}: off by {off:.2e}, expected at most {MOST:.0e}")
            failed += 1
    print(f"{len(paths)} models, {failed} failed, largest difference {worst:.1e}")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
