#pragma once

#include <cstdio>  // before jpeglib.h, which needs FILE
#include <cstdlib>

#include <jpeglib.h>

#include "wick/tests/data/data_testing.h"

namespace wick::data {

/// How a test's JPEG is written.
struct JpegForm {
  J_COLOR_SPACE pixels = JCS_RGB;  // what is given
  J_COLOR_SPACE stored = JCS_YCbCr;
  int across = 1, down = 1;  // columns and rows of pixels to one of colour
  bool progressive = false;
  bool many_scans = false;  // a scan for each frequency of each channel
  int restart_rows = 0;
};

/// The JPEG of quality 95 of `pixels`, whose channels are as `form.pixels` says.
inline Bytes jpeg_of(const Bytes& pixels, int height, int width, const JpegForm& form = {}) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.in_color_space = form.pixels;
  jpeg.input_components = static_cast<int>(pixels.size()) / height / width;
  jpeg_set_defaults(&jpeg);
  jpeg_set_colorspace(&jpeg, form.stored);
  jpeg_set_quality(&jpeg, 95, TRUE);
  jpeg.comp_info[0].h_samp_factor = form.across;
  jpeg.comp_info[0].v_samp_factor = form.down;
  jpeg.restart_in_rows = form.restart_rows;
  if (form.progressive) jpeg_simple_progression(&jpeg);
  std::vector<jpeg_scan_info> scans;
  if (form.many_scans) {
    scans.push_back({3, {0, 1, 2, 0}, 0, 0, 0, 0});
    for (int i = 0; i < 3 * 63; ++i) scans.push_back({1, {i % 3}, 1 + i / 3, 1 + i / 3, 0, 0});
    jpeg.scan_info = scans.data();
    jpeg.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&jpeg, TRUE);
  Bytes row(static_cast<size_t>(width * jpeg.input_components));
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    std::copy_n(pixels.begin() + static_cast<std::ptrdiff_t>(y * row.size()), row.size(),
                row.begin());
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&jpeg, rows, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  const Bytes bytes(memory, memory + size);
  std::free(memory);
  return bytes;
}

/// The frame header's size set to `height` x `width`, whatever the pixels.
inline Bytes with_jpeg_size(Bytes bytes, uint32_t height, uint32_t width) {
  for (size_t i = 0; i + 8 < bytes.size(); ++i) {
    if (bytes[i] == 0xff && (bytes[i + 1] == 0xc0 || bytes[i + 1] == 0xc2)) {
      bytes[i + 5] = static_cast<uint8_t>(height >> 8), bytes[i + 6] = static_cast<uint8_t>(height);
      bytes[i + 7] = static_cast<uint8_t>(width >> 8), bytes[i + 8] = static_cast<uint8_t>(width);
      return bytes;
    }
  }
  ADD_FAILURE() << "no frame header";
  return bytes;
}

}  // namespace wick::data
