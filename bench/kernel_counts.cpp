// How the kernels use memory, counted on the simulated GPU: needs the preset `count`. For each
// kernel that training runs: warps' accesses to device memory, the 32-byte sectors those touch
// against the least that would hold their bytes, passes over the banks of shared memory against
// those without conflicts, and how many of a warp's 32 lanes take part. It has no times: a
// simulated GPU has no speed. Arguments: [PART-OF-A-WORKLOAD'S-NAME].
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "wick/kernels/sim/count.h"
#include "wick/wick.h"

namespace {

using namespace wick;

struct Workload {
  const char* name;
  void (*run)(Device);
};

Tensor input(const Shape& shape, Device device) {
  return randn(shape, kFloat32, device).set_requires_grad();
}
Tensor images(const Shape& shape, Device device) {
  return randn(shape, kFloat32, device).contiguous(MemoryFormat::kChannelsLast).set_requires_grad();
}

template <class Layer>
void train_layer(Layer layer, const Tensor& x) {
  layer.to(x.device());
  layer(x).sum().backward();
}

template <class O>
void update(Device device) {
  const std::vector<Tensor> params = {input({64, 512}, device), input({512}, device)};
  O optimizer(params);
  for (const Tensor& param : params) param.set_grad(randn(param.shape(), kFloat32, device));
  optimizer.step();
}

void elementwise(Device d) { (input({64, 512}, d) * 2.0 + input({512}, d)).sum().backward(); }
void use_gelu(Device d) { gelu(input({64, 512}, d)).sum().backward(); }
void cast(Device d) { input({64, 512}, d).to(kBFloat16).to(kFloat32).sum().backward(); }
void transpose(Device d) { input({128, 96}, d).t().contiguous().sum().backward(); }
void reduce_rows(Device d) { input({256, 1024}, d).sum({1}).sum().backward(); }
void reduce_columns(Device d) { input({256, 1024}, d).sum({0}).sum().backward(); }
void use_softmax(Device d) {
  (softmax(input({128, 1024}, d), 1) * input({1024}, d)).sum().backward();
}
void layer_norm(Device d) { train_layer(nn::LayerNorm({768}), input({64, 768}, d)); }
void batch_norm(Device d) { train_layer(nn::BatchNorm2d(64), images({8, 64, 8, 8}, d)); }
void group_norm(Device d) { train_layer(nn::GroupNorm(8, 64), images({8, 64, 8, 8}, d)); }
void use_cross_entropy(Device d) {
  cross_entropy(input({128, 1000}, d), zeros({128}, kInt64, d)).backward();
}
void embedding(Device d) {
  train_layer(nn::Embedding(1000, 128), randint(0, 1000, {8, 64}, kInt64, d));
}
void use_dropout(Device d) { dropout(input({64, 512}, d), 0.1, true).sum().backward(); }
void max_pool(Device d) { max_pool2d(images({8, 64, 16, 16}, d), {2, 2}).sum().backward(); }
void use_sort(Device d) { input({16, 1000}, d).detach().sort(1); }
void use_cumsum(Device d) { cumsum(input({16, 4096}, d).detach(), 1); }

constexpr Workload kWorkloads[] = {{"elementwise", elementwise},
                                   {"gelu", use_gelu},
                                   {"cast", cast},
                                   {"transpose", transpose},
                                   {"reduce rows", reduce_rows},
                                   {"reduce columns", reduce_columns},
                                   {"softmax", use_softmax},
                                   {"layer norm", layer_norm},
                                   {"batch norm", batch_norm},
                                   {"group norm", group_norm},
                                   {"cross entropy", use_cross_entropy},
                                   {"embedding", embedding},
                                   {"dropout", use_dropout},
                                   {"max pool", max_pool},
                                   {"adamw", update<optim::AdamW>},
                                   {"lamb", update<optim::LAMB>},
                                   {"sort", use_sort},
                                   {"cumsum", use_cumsum}};

double ratio(int64_t a, int64_t b) {
  return b == 0 ? 1 : static_cast<double>(a) / static_cast<double>(b);
}

void print(const char* workload, const sim::CountedKernel& kernel) {
  const sim::AccessCounts& c = kernel.counts;
  std::printf("%-15s %-30s %8lld %10lld %10lld %7.2f %10lld %7.2f %6.1f\n", workload,
              kernel.name.c_str(), static_cast<long long>(c.launches),
              static_cast<long long>(c.global_accesses), static_cast<long long>(c.global_sectors),
              ratio(c.global_sectors, c.least_sectors), static_cast<long long>(c.shared_accesses),
              ratio(c.shared_passes, c.least_passes), ratio(c.lanes, c.accesses()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view part = argc > 1 ? argv[1] : "";
  const Device device = cuda_device(0);
  std::printf("device: simulated\n%-15s %-30s %8s %10s %10s %7s %10s %7s %6s\n", "workload",
              "kernel", "launches", "accesses", "sectors", "/ least", "shared", "/ least", "lanes");
  for (const Workload& workload : kWorkloads) {
    if (std::string_view(workload.name).find(part) == std::string_view::npos) continue;
    synchronize(device);
    sim::count_accesses(true);
    workload.run(device);
    synchronize(device);
    sim::count_accesses(false);
    for (const sim::CountedKernel& kernel : sim::counted_kernels()) print(workload.name, kernel);
  }
}
