#pragma once

// ONNX files in as modules that train, and traced graphs out as ONNX files (docs/onnx.md).
#include "wick/onnx/module.h"
#include "wick/onnx/save.h"
