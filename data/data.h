#pragma once

// Not here, being the readers' own: files.h.
#include "wick/data/cifar.h"
#include "wick/data/idx.h"
#include "wick/data/image_folder.h"
#include "wick/data/image_io.h"
#include "wick/data/image_set.h"
#include "wick/data/shapes10.h"
