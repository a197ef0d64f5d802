// Matrix products by oneDNN for compare.py, which sends a command a line: `run COUNT` answers with
// the seconds of COUNT products. Argument: product_MxNxK{nn,nt,tn}[_bf16]. OMP_NUM_THREADS says how
// many threads compute. No part of Wick uses oneDNN. This program is built where Debian's
// libdnnl-dev is installed.
#include <dnnl.hpp>

#include <chrono>
#include <iostream>
#include <random>
#include <regex>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace {

using Tag = dnnl::memory::format_tag;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// A matrix of numbers around 0; `turned`: the columns are contiguous.
dnnl::memory matrix(int64_t rows, int64_t columns, bool turned, dnnl::memory::data_type dtype) {
  dnnl::stream stream(cpu());
  const Tag tag = turned ? Tag::ba : Tag::ab;
  dnnl::memory x({{rows, columns}, dnnl::memory::data_type::f32, tag}, cpu());
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  float* const elements = static_cast<float*>(x.get_data_handle());
  for (int64_t i = 0; i < rows * columns; ++i) elements[i] = normal(generator);
  dnnl::memory y({{rows, columns}, dtype, tag}, cpu());
  dnnl::reorder(x, y).execute(stream, x, y);
  stream.wait();
  return y;
}

class Product {
 public:
  explicit Product(const std::string& workload) : stream_(cpu()) {
    std::smatch part;
    if (!std::regex_match(workload, part,
                          std::regex("product_([0-9]+)x([0-9]+)x([0-9]+)([nt])([nt])(_bf16)?"))) {
      throw std::invalid_argument("onednn_peer: unknown workload: got \"" + workload + "\"");
    }
    const int64_t m = std::stoll(part[1]), n = std::stoll(part[2]), k = std::stoll(part[3]);
    const auto dtype =
        part[6].matched ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
    const dnnl::memory a = matrix(m, k, part[4] == "t", dtype);
    const dnnl::memory b = matrix(k, n, part[5] == "t", dtype);
    const dnnl::memory y({{m, n}, dtype, Tag::ab}, cpu());
    const dnnl::matmul::desc described(a.get_desc(), b.get_desc(), y.get_desc());
    product_ = dnnl::matmul({described, cpu()});
    operands_ = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}};
  }

  double seconds_of(int64_t count) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < count; ++i) product_.execute(stream_, operands_);
    stream_.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  dnnl::stream stream_;
  dnnl::matmul product_;
  std::unordered_map<int, dnnl::memory> operands_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::invalid_argument("onednn_peer: expected WORKLOAD");
  Product product(argv[1]);
  product.seconds_of(1);
  const dnnl_version_t& version = *dnnl::version();
  std::cout << "ready " << version.major << "." << version.minor << "." << version.patch
            << std::endl;
  std::string command;
  while (std::cin >> command) {
    int64_t count = 0;
    if (command != "run" || !(std::cin >> count)) {
      throw std::invalid_argument("onednn_peer: unknown command: got \"" + command + "\"");
    }
    std::cout << product.seconds_of(count) << std::endl;
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
