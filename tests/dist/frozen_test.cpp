#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/dist/data_parallel.h"
#include "wick/nn/nn.h"
#include "wick/tests/dist/ranks.h"

namespace wick::dist {
namespace {

// As the discriminator of a GAN is, while its generator trains.
TEST(DataParallel, AveragesGradientsOfParametersThatWereFrozenForAWhile) {
  on_ranks(2, [](const Group& group) {
    const auto layer = std::make_shared<nn::Linear>(1, 1);
    DistributedDataParallel model(std::static_pointer_cast<nn::Module>(layer), group);
    const Tensor x = full({1, 1}, group->rank() + 1);
    for (int pass = 0; pass < 3; ++pass) {
      model.zero_grad();
      model(x).sum().backward();
      EXPECT_EQ(layer->weight.grad().item(), 1.5) << pass;
      model.requires_grad_(false);
      EXPECT_FALSE(layer->forward(x).requires_grad());
      model.requires_grad_();
    }
  });
}

}  // namespace
}  // namespace wick::dist
