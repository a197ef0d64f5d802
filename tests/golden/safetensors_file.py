"""Reads and writes safetensors files of PyTorch's tensors, for Pythons that have torch alone."""
import json
import struct

import torch

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
          "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8,
          "BOOL": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def save_safetensors(tensors, path):
    header, offset, parts = {}, 0, []
    for name, tensor in tensors.items():
        flat = torch.empty(tensor.numel(), dtype=tensor.dtype)
        flat.copy_(tensor.reshape(-1))  # strides of an axis of size 1 may be anything
        data = flat.view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def load_safetensors(path):
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8) \
            if end > begin else torch.empty(0, dtype=torch.uint8)
        tensors[name] = flat.view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors
