"""torchvision_interop.py {resnet18,encoder} FOLDER: loads FOLDER/weights.safetensors into PyTorch's
module of that name, strictly, and compares what it makes of x in FOLDER/data.safetensors with y.
Exit status: 0 equal, 1 not, 77 no torch."""
import json
import struct
import sys

try:
    import torch
    import torchvision
except ImportError:
    sys.exit(77)

DTYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}


def load(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(bytearray(data[slice(*entry["data_offsets"])]),
                                   dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}


what, folder = sys.argv[1:]
if what == "resnet18":
    model = torchvision.models.resnet18()
else:
    model = torch.nn.TransformerEncoderLayer(16, 4, 40, activation="gelu", batch_first=True)
model.load_state_dict(load(folder + "/weights.safetensors"), strict=True)
data = load(folder + "/data.safetensors")
with torch.no_grad():
    y = model.eval()(data["x"])
error = float((y - data["y"]).abs().max())
print(f"{what}: largest difference {error:.2e}, largest value {float(y.abs().max()):.2e}")
sys.exit(0 if error <= 1e-4 * max(1, float(y.abs().max())) else 1)
