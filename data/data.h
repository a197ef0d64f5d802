#pragma once

// Not here, being the readers' own: files.h, jpeg.h.
#include "wick/data/augment.h"
#include "wick/data/batch_mix.h"
#include "wick/data/batch_transform.h"
#include "wick/data/catalog.h"
#include "wick/data/cifar.h"
#include "wick/data/dataset.h"
#include "wick/data/idx.h"
#include "wick/data/image_folder.h"
#include "wick/data/image_io.h"
#include "wick/data/image_ops.h"
#include "wick/data/image_set.h"
#include "wick/data/image_source.h"
#include "wick/data/loader.h"
#include "wick/data/shapes10.h"
#include "wick/data/transforms.h"
