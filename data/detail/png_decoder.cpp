#include "wick/data/detail/png_decoder.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "wick/core/base/check.h"
#include "wick/data/detail/decode_time.h"

namespace wick::data {

// What went wrong, and where to go on. The library is C: it must be left by a jump, over frames
// that hold nothing to destroy.
struct PngFailure {
  std::jmp_buf place;
  char text[200];
};

struct PngInput {
  std::span<const uint8_t> left;
};

namespace {

constexpr png_alloc_size_t kMostChunkBytes = 8 << 20;  // once unpacked; pixels are no chunk
constexpr png_uint_32 kMostChunks = 128;               // of those that are kept

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto* failure = static_cast<PngFailure*>(png_get_error_ptr(png));
  std::snprintf(failure->text, sizeof failure->text, "%s", text);
  std::longjmp(failure->place, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, size_t count) {
  auto* input = static_cast<PngInput*>(png_get_io_ptr(png));
  if (count > input->left.size()) png_error(png, "it is cut off");
  std::memcpy(to, input->left.data(), count);
  input->left = input->left.subspan(count);
}

// The library makes room for a chunk before it reads it: no chunk may promise more than is there.
void check_chunks(std::span<const uint8_t> bytes, const std::string& name) {
  constexpr size_t kAround = 12;  // length, type, checksum
  size_t at = 8;                  // past the signature
  while (bytes.size() - at >= kAround) {
    uint32_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | bytes[at + i];
    WICK_CHECK(length <= bytes.size() - at - kAround, name, ": damaged PNG: the chunk at byte ", at,
               " is cut off: it promises ", length, " bytes");
    const bool last = std::memcmp(&bytes[at + 4], "IEND", 4) == 0;
    at += kAround + length;
    if (last) return;
  }
}

}  // namespace

struct PngDecoder::State {
  png_structp png = nullptr;
  png_infop info = nullptr;
  PngFailure failure;
  PngInput input;
  const std::string& name;
  DecodeTime time;

  State(std::span<const uint8_t> bytes, const std::string& file) : input{bytes}, name(file) {}
  ~State() { png_destroy_read_struct(&png, &info, nullptr); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Runs `call`, which the library may leave by a jump.
  template <class Call>
  void run(const Call& call) {
    if (setjmp(failure.place) != 0) detail::fail(name, ": damaged PNG: ", failure.text);
    call();
  }
};

PngDecoder::PngDecoder(std::span<const uint8_t> bytes, const std::string& name)
    : state_(std::make_unique<State>(bytes, name)) {
  check_chunks(bytes, name);
  State& state = *state_;
  state.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state.failure, on_error, on_warning);
  if (state.png != nullptr) state.info = png_create_info_struct(state.png);
  WICK_CHECK(state.info != nullptr, name, ": the PNG decoder could not start");
  state.run([&] {
    // Nothing but pixels, palette and header is wanted: text and profiles are not even unpacked.
    png_set_keep_unknown_chunks(state.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_chunk_malloc_max(state.png, kMostChunkBytes);
    png_set_chunk_cache_max(state.png, kMostChunks);
    png_set_read_fn(state.png, &state.input, on_read);
    png_read_info(state.png, state.info);
  });
}

PngDecoder::~PngDecoder() = default;

ImageSize PngDecoder::size() const {
  return {int64_t{png_get_image_height(state_->png, state_->info)},
          int64_t{png_get_image_width(state_->png, state_->info)}};
}

void PngDecoder::decode(Image& image) {
  State& state = *state_;
  const auto width = static_cast<size_t>(size().width), height = static_cast<size_t>(size().height);
  image.height = size().height;
  image.width = size().width;
  image.channels = 3;
  image.pixels.resize(height * width * 3);
  uint8_t* const pixels = image.pixels.data();
  state.run([&] {
    png_set_scale_16(state.png);
    png_set_expand(state.png);
    png_set_gray_to_rgb(state.png);
    png_set_strip_alpha(state.png);
    const int passes = png_set_interlace_handling(state.png);
    png_read_update_info(state.png, state.info);
    if (png_get_rowbytes(state.png, state.info) != width * 3) png_error(state.png, "odd rows");
    for (int pass = 0; pass < passes; ++pass) {
      for (size_t y = 0; y < height; ++y) {
        if (state.time.is_over_after(static_cast<int64_t>(width))) {
          char text[80];
          std::snprintf(text, sizeof text, "it takes too long: expected at most %g s",
                        state.time.most());
          png_error(state.png, text);
        }
        png_read_row(state.png, pixels + y * width * 3, nullptr);
      }
    }
    png_read_end(state.png, nullptr);
  });
}

}  // namespace wick::data
