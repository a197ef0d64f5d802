#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "wick/core/graph/executor.h"
#include "wick/core/graph/passes.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/kernels/cuda/kernel_cache.h"
#include "wick/kernels/cuda/runtime_compiler.h"
#include "wick/kernels/sim/nvrtc.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/scoped_variable.h"
#include "wick/tests/harness/temporary_folder.h"

// How kernels are compiled at run time, and kept on the disk.
namespace wick::testing {
namespace {

namespace fs = std::filesystem;

class RuntimeCompiler : public ::testing::Test {
 protected:
  // A source that no other test has compiled in this process.
  static std::string source() {
    static int count = 0;
    return concat("#include \"wick/kernels/cuda/common/chain.h\"\nnamespace wick::cuda {\n",
                  "struct Arguments { int* to; };\n",
                  "extern \"C\" __global__ void set(const Arguments a) { *a.to = ", ++count,
                  "; }\nWICK_EXPORT_KERNEL(set, Arguments)\n}\n");
  }
  const cuda::CompiledKernel* compile(const std::string& text) {
    why_not.clear();
    return cuda::compile_kernel(kGpu, "set", text, why_not);
  }
  // How often it compiles for the machine code of `text`.
  static int64_t compilations(const std::string& text) {
    const int64_t before = sim::compilations();
    EXPECT_FALSE(cuda::machine_code(kGpu, text).empty());
    return sim::compilations() - before;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder.path())) all.push_back(entry.path());
    return all;
  }

  TemporaryFolder folder;
  ScopedVariable cache{"WICK_KERNEL_CACHE", folder.path().c_str()};
  std::string why_not;
};

TEST_F(RuntimeCompiler, LaunchesWhatItCompiles) {
  const std::string text = source();
  const cuda::CompiledKernel* const kernel = compile(text);
  ASSERT_NE(kernel, nullptr) << why_not;
  EXPECT_EQ(compile(text), kernel) << "kept for the process";
  const Tensor x = zeros({1}, kInt32, kGpu);
  void* to = x.raw_data();
  cuda::launch_compiled("set", *kernel, 1, 1, &to);
  EXPECT_EQ(x.to(kCpu).item<int32_t>(), 1);
}

TEST_F(RuntimeCompiler, SaysWhatCannotBeCompiled) {
  EXPECT_EQ(compile("this is no source"), nullptr);
  EXPECT_EQ(why_not.find("cuda: NVRTC cannot compile a kernel: NVRTC_ERROR_COMPILATION: "), 0U)
      << why_not;
  EXPECT_TRUE(files().empty());
  sim::fail_call(1, cudaErrorUnknown, "nvrtcCreateProgram");
  EXPECT_EQ(compile(source()), nullptr);
  EXPECT_EQ(why_not, "cuda: nvrtcCreateProgram failed: NVRTC_ERROR_INTERNAL_ERROR");
}

TEST_F(RuntimeCompiler, FailuresOfTheDriverAreErrors) {
  for (const char* const call : {"cuModuleLoadData", "cuModuleGetFunction"}) {
    const std::string text = source();
    sim::fail_call(1, cudaErrorMemoryAllocation, call);
    EXPECT_THROW(compile(text), OutOfMemory) << call;
    EXPECT_NE(compile(text), nullptr) << "a second try: " << call;
  }
}

TEST_F(RuntimeCompiler, KeepsMachineCodeOnTheDisk) {
  const std::string key = cuda::kernel_key("all that it follows from");
  EXPECT_EQ(key.size(), 64U);
  EXPECT_EQ(cuda::read_kernel(key), "");
  const std::string code("code\0\n\xff", 7);
  cuda::keep_kernel(key, code);
  EXPECT_EQ(cuda::read_kernel(key), code);
  EXPECT_EQ(files().size(), 1U) << "nothing unfinished";
  EXPECT_EQ(cuda::read_kernel(cuda::kernel_key("something else")), "");
}

// Every byte that is changed and every length to which a file is cut shows.
TEST_F(RuntimeCompiler, NoticesDamagedFiles) {
  const std::string key = cuda::kernel_key("x"), path = folder.path(key);
  cuda::keep_kernel(key, "machine code");
  std::string bytes(fs::file_size(path), ' ');
  std::ifstream(path, std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_EQ(cuda::read_kernel(key), "") << i;
    std::ofstream(path, std::ios::binary) << bytes.substr(0, i);
    EXPECT_EQ(cuda::read_kernel(key), "") << i;
  }
  fs::rename(path, folder.path(cuda::kernel_key("y")));
  EXPECT_EQ(cuda::read_kernel(cuda::kernel_key("y")), "") << "of another key";
  cuda::keep_kernel(key, "machine code");
  EXPECT_EQ(cuda::read_kernel(key), "machine code");
}

TEST_F(RuntimeCompiler, ReadsWhatIsKeptAndReplacesWhatIsDamaged) {
  const std::string text = source(), code = cuda::machine_code(kGpu, text);
  ASSERT_EQ(files().size(), 1U);
  const std::string path = files()[0];
  EXPECT_EQ(compilations(text), 0) << "read from the disk";
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_EQ(compilations(text), 1) << "damaged";
  EXPECT_EQ(files().size(), 1U);
  EXPECT_EQ(compilations(text), 0) << "replaced";
  EXPECT_EQ(compilations(text + "\n"), 1) << "another source";
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(RuntimeCompiler, NeedsNoFolder) {
  std::ofstream(folder.path("file")) << "no folder";
  for (const std::string& path : {std::string(), folder.path("file"), std::string("/proc/none")}) {
    const ScopedVariable elsewhere("WICK_KERNEL_CACHE", path.c_str());
    EXPECT_EQ(compilations(source()), 1) << path;
  }
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(RuntimeCompiler, WithoutOneTheOpsRunOneByOne) {
  const ScopedVariable none("WICK_SIM_COMPILER", "/nowhere/c++");
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor a = x[0].exp() * 3;
    return {a - x[0].sin(), a};
  };
  const Tensors x = {randn({100}, kFloat32, kGpu)};
  graph::Graph graph = graph::trace(f, x);
  EXPECT_EQ(graph::fuse_elementwise(graph), 3);
  graph::Executor executor(graph);
  for (int i = 0; i < 2; ++i) expect_equal(executor.run(x), f(x));
  EXPECT_EQ(executor.num_fused(), 0);
  EXPECT_NE(executor.why_unfused().find("/nowhere/c++: No such file or directory"),
            std::string::npos)
      << executor.why_unfused();
}

}  // namespace
}  // namespace wick::testing
