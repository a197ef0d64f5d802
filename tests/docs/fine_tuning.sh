#!/bin/sh
# Runs the program of docs/tutorials/fine_tuning.md on the weights of a ResNet-18 after one step:
#   fine_tuning.sh PATH-OF-WICK PROGRAM
set -eu
"$1" train --json --model resnet18 --image-size 128 --batch-size 4 --max-steps 1 --eval-every 0 \
  --threads 1 --run-dir run >&2
exec "$2" run/weights.safetensors
