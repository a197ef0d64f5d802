#include <gtest/gtest.h>

#include "wick/core/base/shape.h"

namespace wick {
namespace {

TEST(Shape, Numel) { EXPECT_EQ((Shape{2, 3, 5}).numel(), 30); }

}  // namespace
}  // namespace wick
