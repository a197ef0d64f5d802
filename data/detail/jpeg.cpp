#include "wick/data/detail/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which needs FILE
#include <cstdlib>

#include <jpeglib.h>
//
#include <jerror.h>

#include "wick/core/base/check.h"
#include "wick/data/detail/decode_time.h"

namespace wick::data {

// What went wrong, and where to go on. The library is C: it must be left by a jump, over frames
// that hold nothing to destroy.
struct JpegFailure {
  jpeg_error_mgr manager;
  std::jmp_buf place;
  char text[JMSG_LENGTH_MAX];
  DecodeTime time;
};

namespace {

constexpr int kMostScans = 100;
// Each scan is a pass over all pixels: this bounds the passes over large images.
constexpr int64_t kMostScannedPixels = int64_t{1} << 30;
// What a progressive JPEG's coefficients may take.
constexpr long kMostMemory = 512L << 20;

[[noreturn]] void jump(j_common_ptr jpeg) {
  std::longjmp(reinterpret_cast<JpegFailure*>(jpeg->err)->place, 1);
}

[[noreturn]] void on_error(j_common_ptr jpeg) {
  jpeg->err->format_message(jpeg, reinterpret_cast<JpegFailure*>(jpeg->err)->text);
  jump(jpeg);
}

// Warnings are about damage, but for the bytes that some cameras leave between segments.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && jpeg->err->msg_code != JWRN_EXTRANEOUS_DATA) on_error(jpeg);
}

void set_up(JpegFailure& failure) {
  jpeg_std_error(&failure.manager);
  failure.manager.error_exit = on_error;
  failure.manager.emit_message = on_message;
  failure.text[0] = '\0';
}

// Runs `call`; false if the library failed in it, which has then left `call` by a jump.
template <class Call>
bool succeeds(JpegFailure& failure, const Call& call) {
  if (setjmp(failure.place) != 0) return false;
  call();
  return true;
}

// Before every few rows of a scan or of the image.
void on_progress(j_common_ptr jpeg) {
  const auto* image = reinterpret_cast<j_decompress_ptr>(jpeg);
  auto* failure = reinterpret_cast<JpegFailure*>(jpeg->err);
  if (failure->time.is_over_after(int64_t{DCTSIZE} * image->image_width)) {
    std::snprintf(failure->text, JMSG_LENGTH_MAX, "it takes too long: expected at most %g s",
                  failure->time.most());
    jump(jpeg);
  }
  const int64_t pixels = int64_t{image->image_width} * image->image_height;
  const int most = static_cast<int>(
      std::clamp<int64_t>(kMostScannedPixels / std::max<int64_t>(pixels, 1), 1, kMostScans));
  if (image->input_scan_number <= most) return;
  std::snprintf(failure->text, JMSG_LENGTH_MAX, "too many JPEG scans: expected at most %d", most);
  jump(jpeg);
}

// CMYK as photographs have it: Adobe stores ink inverted, 255 for none.
void inverted_cmyk_to_rgb(const uint8_t* cmyk, int64_t pixels, uint8_t* rgb) {
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t c = 0; c < 3; ++c) {
      rgb[3 * p + c] = static_cast<uint8_t>((cmyk[4 * p + c] * cmyk[4 * p + 3] + 127) / 255);
    }
  }
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct jpeg{};
  JpegFailure failure;
  jpeg_progress_mgr progress{};
  const std::string& name;

  explicit State(const std::string& file) : name(file) {
    set_up(failure);
    jpeg.err = &failure.manager;
    progress.progress_monitor = on_progress;
  }
  ~State() { jpeg_destroy_decompress(&jpeg); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  template <class Call>
  void run(const Call& call) {
    if (!succeeds(failure, call)) detail::fail(name, ": damaged JPEG: ", failure.text);
  }
};

JpegDecoder::JpegDecoder(std::span<const uint8_t> bytes, const std::string& name)
    : state_(std::make_unique<State>(name)) {
  jpeg_decompress_struct& jpeg = state_->jpeg;
  state_->run([&] {
    jpeg_create_decompress(&jpeg);
    jpeg.progress = &state_->progress;
    jpeg.mem->max_memory_to_use = kMostMemory;
    jpeg_mem_src(&jpeg, bytes.data(), static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&jpeg, TRUE);
  });
}

JpegDecoder::~JpegDecoder() = default;

ImageSize JpegDecoder::size() const {
  return {int64_t{state_->jpeg.image_height}, int64_t{state_->jpeg.image_width}};
}

ImageSize JpegDecoder::size(int reduction) const {
  return {(size().height + reduction - 1) / reduction, (size().width + reduction - 1) / reduction};
}

Rect JpegDecoder::decode(int reduction, const Rect& part, Image& out) {
  jpeg_decompress_struct& jpeg = state_->jpeg;
  const bool inks = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  const auto whole_width = static_cast<JDIMENSION>(size(reduction).width);
  auto left = static_cast<JDIMENSION>(part.left);
  auto width = static_cast<JDIMENSION>(part.size.width);
  state_->run([&] {
    jpeg.scale_num = 1;
    jpeg.scale_denom = static_cast<unsigned>(reduction);
    jpeg.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    jpeg.do_block_smoothing = FALSE;  // only for images whose last scans are missing
    jpeg_start_decompress(&jpeg);
    if (width < whole_width) {
      // Where colour has fewer columns, those at the cut are made as at an edge: cut further out.
      constexpr JDIMENSION kMargin = 4;
      const JDIMENSION right = std::min(left + width + kMargin, whole_width);
      left = left < kMargin ? 0 : left - kMargin;
      width = right - left;
      jpeg_crop_scanline(&jpeg, &left, &width);
    }
    if (part.top > 0) jpeg_skip_scanlines(&jpeg, static_cast<JDIMENSION>(part.top));
  });
  const Rect made{part.top, left, {part.size.height, width}};
  const int64_t row_bytes = made.size.width * 3;
  out.height = made.size.height;
  out.width = made.size.width;
  out.channels = 3;
  out.pixels.resize(static_cast<size_t>(made.size.height * row_bytes));
  std::vector<uint8_t> cmyk(inks ? static_cast<size_t>(made.size.width * 4) : 0);
  state_->run([&] {
    for (int64_t y = 0; y < made.size.height;) {
      constexpr int64_t kMostRows = 8;
      uint8_t* rows[kMostRows];
      const int64_t count = inks ? 1 : std::min(kMostRows, made.size.height - y);
      for (int64_t i = 0; i < count; ++i) rows[i] = out.pixels.data() + (y + i) * row_bytes;
      uint8_t* const rgb = rows[0];
      if (inks) rows[0] = cmyk.data();
      const JDIMENSION got = jpeg_read_scanlines(&jpeg, rows, static_cast<JDIMENSION>(count));
      if (inks) inverted_cmyk_to_rgb(cmyk.data(), made.size.width, rgb);
      y += got;
    }
    if (jpeg.output_scanline == jpeg.output_height) jpeg_finish_decompress(&jpeg);
  });
  return made;
}

std::vector<uint8_t> encode_jpeg(const Image& image, int quality) {
  WICK_CHECK(image.channels == 3, "encode_jpeg: wrong number of channels: got ", image.channels,
             ", expected 3");
  jpeg_compress_struct jpeg{};
  JpegFailure failure;
  set_up(failure);
  jpeg.err = &failure.manager;
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  const bool done = succeeds(failure, [&] {
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &memory, &bytes);
    jpeg.image_width = static_cast<JDIMENSION>(image.width);
    jpeg.image_height = static_cast<JDIMENSION>(image.height);
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int64_t y = 0; y < image.height; ++y) {
      // The library's interface is not const, but it only reads.
      auto* row = const_cast<uint8_t*>(image.pixels.data() + y * image.width * 3);
      jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
  });
  jpeg_destroy_compress(&jpeg);
  const std::vector<uint8_t> result(memory, memory + (done ? bytes : 0));
  std::free(memory);
  WICK_CHECK(done, "encode_jpeg: ", failure.text);
  return result;
}

}  // namespace wick::data
