#include "wick/data/shapes10.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "wick/core/base/philox.h"

namespace wick::data {

namespace {

constexpr int kSide = 32, kChannels = 3;
constexpr int64_t kTrainImages = 10000, kTestImages = 2000;
constexpr uint64_t kSeed = 0x736861706573;  // "shapes"
constexpr int kUnit = 1024;                 // a shape's radius in its own coordinates
constexpr int kSubpixels = 4;               // per pixel and axis
constexpr int kPixel = 64;                  // a pixel's side in canvas coordinates

using Color = std::array<int, kChannels>;

// Whether a point in a shape's own coordinates lies inside; `y` grows downwards.
constexpr bool in_disc(int x, int y, int radius) { return x * x + y * y <= radius * radius; }

struct Circle {
  bool operator()(int x, int y) const { return in_disc(x, y, 950); }
};
struct Ring {
  bool operator()(int x, int y) const { return in_disc(x, y, 1020) && !in_disc(x, y, 540); }
};
struct Square {
  bool operator()(int x, int y) const { return std::abs(x) <= 820 && std::abs(y) <= 820; }
};
struct Triangle {
  bool operator()(int x, int y) const {
    return y <= 540 && 887 * std::abs(x) - 512 * y <= 540 * 1024;
  }
};
struct Star {  // a pentagram: inside at least four of the five lines
  bool operator()(int x, int y) const {
    const int a = 974 * x - 316 * y, b = -974 * x - 316 * y;
    const int c = 602 * x + 828 * y, d = -602 * x + 828 * y, e = -1024 * y;
    constexpr int kLimit = 390 * 1024;
    return (a <= kLimit) + (b <= kLimit) + (c <= kLimit) + (d <= kLimit) + (e <= kLimit) >= 4;
  }
};
struct Cross {
  bool operator()(int x, int y) const {
    x = std::abs(x), y = std::abs(y);
    return std::max(x, y) <= 1000 && std::min(x, y) <= 320;
  }
};
struct Crescent {
  bool operator()(int x, int y) const { return in_disc(x, y, 1040) && !in_disc(x - 480, y, 800); }
};
struct Heart {  // a square on its corner with a disc on each upper side
  bool operator()(int x, int y) const {
    x = std::abs(x);
    return x + std::abs(y) <= 850 || in_disc(x - 425, y + 425, 600);
  }
};
struct Arrow {
  bool operator()(int x, int y) const {
    x = std::abs(x);
    const bool head = y >= -1060 && y <= 60 && 3 * x <= 2 * (y + 1060);
    return head || (x <= 260 && y >= 0 && y <= 1000);
  }
};
struct Hourglass {
  bool operator()(int x, int y) const {
    y = std::abs(y);
    return y <= 920 && 8 * std::abs(x) <= 7 * std::max(y, 100);
  }
};
struct Bar {
  bool operator()(int x, int y) const { return std::abs(x) <= 1024 && std::abs(y) <= 300; }
};

// Where a shape lies: its centre and half-axes in canvas coordinates, and its turn as a unit
// vector of length 4096.
struct Pose {
  int x, y, radius_x, radius_y, cosine, sine;
};

// A random turn of up to 2 atan(`limit` / 64) either way: the point (k² - t², 2kt) / (k² + t²) lies
// on the unit circle, so no sine is needed.
void turn(PhiloxStream& random, Pose& pose, int limit) {
  constexpr int kHalf = 64;
  const int t = random.between(-limit, limit), norm = kHalf * kHalf + t * t;
  pose.cosine = (kHalf * kHalf - t * t) * 4096 / norm;
  pose.sine = 2 * kHalf * t * 4096 / norm;
}

// Any turn at all.
void turn(PhiloxStream& random, Pose& pose) {
  turn(random, pose, 64);
  if (random.below(2) == 0) pose.cosine = -pose.cosine, pose.sine = -pose.sine;
}

// Smoothly varying colour: a base and a coarse grid of deviations, interpolated.
class Texture {
 public:
  Texture(PhiloxStream& random, const Color& base, int deviation) {
    for (auto& row : grid_) {
      for (auto& color : row) {
        for (size_t c = 0; c < kChannels; ++c) {
          color[c] = base[c] + random.between(-deviation, deviation);
        }
      }
    }
  }
  int at(int x, int y, size_t channel) const {
    const auto i = static_cast<size_t>(y / kCell), j = static_cast<size_t>(x / kCell);
    const int v = y % kCell, u = x % kCell;
    const int top = grid_[i][j][channel] * (kCell - u) + grid_[i][j + 1][channel] * u;
    const int below = grid_[i + 1][j][channel] * (kCell - u) + grid_[i + 1][j + 1][channel] * u;
    return (top * (kCell - v) + below * v) / (kCell * kCell);
  }

 private:
  static constexpr int kCell = 8;
  std::array<std::array<Color, kSide / kCell + 1>, kSide / kCell + 1> grid_;
};

class Canvas {
 public:
  explicit Canvas(const Texture& ground) {
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        for (size_t c = 0; c < kChannels; ++c) pixel(x, y)[c] = ground.at(x, y, c);
      }
    }
  }

  // Paints the points that `inside` accepts, edges smoothed by counting subpixels.
  template <class Inside>
  void paint(const Inside& inside, const Pose& pose, const Texture& fill) {
    const int reach = std::max(pose.radius_x, pose.radius_y) * 3 / 2;
    const int x0 = std::max(0, (pose.x - reach) / kPixel);
    const int x1 = std::min(kSide - 1, (pose.x + reach) / kPixel);
    const int y0 = std::max(0, (pose.y - reach) / kPixel);
    const int y1 = std::min(kSide - 1, (pose.y + reach) / kPixel);
    const int scale_x = kUnit * 256 / pose.radius_x, scale_y = kUnit * 256 / pose.radius_y;
    for (int y = y0; y <= y1; ++y) {
      for (int x = x0; x <= x1; ++x) {
        int covered = 0;
        for (int k = 0; k < kSubpixels * kSubpixels; ++k) {
          constexpr int kStep = kPixel / kSubpixels;
          const int dx = x * kPixel + k % kSubpixels * kStep + kStep / 2 - pose.x;
          const int dy = y * kPixel + k / kSubpixels * kStep + kStep / 2 - pose.y;
          const int u = (pose.cosine * dx + pose.sine * dy) / 4096;
          const int v = (pose.cosine * dy - pose.sine * dx) / 4096;
          covered += inside(u * scale_x / 256, v * scale_y / 256);
        }
        if (covered > 0) mix_pixel(x, y, covered, fill);
      }
    }
  }

  // Changes contrast (in 64ths) and brightness, adds noise and writes bytes.
  void develop(PhiloxStream& random, int contrast, int brightness, int noise, uint8_t* rgb) const {
    const auto levels = static_cast<uint32_t>(2 * noise + 1);
    for (const Color& color : pixels_) {
      uint32_t word = random.next();
      for (const int value : color) {
        const int grain = static_cast<int>(((word & 0x3ffu) * levels) >> 10) - noise;
        word >>= 10;
        const int level = (value - 128) * contrast / 64 + 128 + brightness + grain;
        *rgb++ = static_cast<uint8_t>(std::clamp(level, 0, 255));
      }
    }
  }

 private:
  Color& pixel(int x, int y) { return pixels_[static_cast<size_t>(y * kSide + x)]; }
  void mix_pixel(int x, int y, int covered, const Texture& fill) {
    constexpr int kAll = kSubpixels * kSubpixels;
    for (size_t c = 0; c < kChannels; ++c) {
      int& value = pixel(x, y)[c];
      value = (value * (kAll - covered) + fill.at(x, y, c) * covered) / kAll;
    }
  }

  std::array<Color, kSide * kSide> pixels_;
};

Color any_color(PhiloxStream& random) {
  return {random.between(20, 235), random.between(20, 235), random.between(20, 235)};
}

// A colour that can be told from `other`.
Color contrasting_color(PhiloxStream& random, const Color& other) {
  while (true) {
    const Color color = any_color(random);
    int distance = 0;
    for (size_t c = 0; c < kChannels; ++c) distance += std::abs(color[c] - other[c]);
    if (distance >= 210) return color;
  }
}

void paint_class(Canvas& canvas, int64_t label, const Pose& pose, const Texture& fill) {
  switch (label) {
    case 0: return canvas.paint(Circle{}, pose, fill);
    case 1: return canvas.paint(Ring{}, pose, fill);
    case 2: return canvas.paint(Square{}, pose, fill);
    case 3: return canvas.paint(Triangle{}, pose, fill);
    case 4: return canvas.paint(Star{}, pose, fill);
    case 5: return canvas.paint(Cross{}, pose, fill);
    case 6: return canvas.paint(Crescent{}, pose, fill);
    case 7: return canvas.paint(Heart{}, pose, fill);
    case 8: return canvas.paint(Arrow{}, pose, fill);
    default: return canvas.paint(Hourglass{}, pose, fill);
  }
}

// Small scraps anywhere on the ground, under the shape.
void paint_clutter(PhiloxStream& random, Canvas& canvas) {
  for (int count = random.between(3, 7); count > 0; --count) {
    const int radius = random.between(3 * kPixel / 2, 3 * kPixel);
    Pose pose{
        random.between(0, kSide * kPixel), random.between(0, kSide * kPixel), radius, radius, 0, 0};
    turn(random, pose);
    const Texture fill(random, any_color(random), 0);
    switch (random.below(3)) {
      case 0: canvas.paint(Circle{}, pose, fill); break;
      case 1: canvas.paint(Triangle{}, pose, fill); break;
      default: canvas.paint(Bar{}, pose, fill); break;
    }
  }
}

// A bar or a disc over the rim of the shape.
void paint_occluder(PhiloxStream& random, Canvas& canvas, const Pose& shape) {
  Pose pose = shape;
  turn(random, pose);  // the direction in which the occluder lies
  const int distance = shape.radius_x * random.between(50, 100) / 100;
  pose.x += pose.cosine * distance / 4096;
  pose.y += pose.sine * distance / 4096;
  turn(random, pose);
  const Texture fill(random, any_color(random), 20);
  const bool bar = random.below(2) == 0;
  const int percent = bar ? random.between(50, 80) : random.between(25, 45);
  pose.radius_x = pose.radius_y = shape.radius_x * percent / 100;
  if (bar) {
    canvas.paint(Bar{}, pose, fill);
  } else {
    canvas.paint(Circle{}, pose, fill);
  }
}

}  // namespace

void draw_shape(int64_t index, uint8_t* rgb) {
  PhiloxStream random(kSeed, static_cast<uint64_t>(index));
  const Color ground = any_color(random);
  Canvas canvas(Texture(random, ground, 40));
  paint_clutter(random, canvas);

  const int radius = random.between(8 * kPixel, 12 * kPixel);
  const int stretch = random.between(-12, 12);  // percent
  const int center = kSide * kPixel / 2, shift = 4 * kPixel;
  Pose pose{center + random.between(-shift, shift),
            center + random.between(-shift, shift),
            radius * (100 + stretch) / 100,
            radius * (100 - stretch) / 100,
            0,
            0};
  turn(random, pose, 14);
  const Texture fill(random, contrasting_color(random, ground), 25);
  paint_class(canvas, index % 10, pose, fill);
  if (random.below(2) == 0) paint_occluder(random, canvas, pose);

  const int contrast = random.between(48, 72), brightness = random.between(-25, 25);
  canvas.develop(random, contrast, brightness, random.between(2, 12), rgb);
}

ImageSet shapes10(Split split) {
  const int64_t first = split == Split::kTrain ? 0 : kTrainImages;
  const int64_t count = split == Split::kTrain ? kTrainImages : kTestImages;
  ImageSet set;
  set.height = set.width = kSide;
  set.channels = kChannels;
  set.class_names = {"circle", "ring",     "square", "triangle", "star",
                     "cross",  "crescent", "heart",  "arrow",    "hourglass"};
  set.pixels.resize(static_cast<size_t>(count * set.bytes_per_image()));
  set.labels.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    draw_shape(first + i, set.pixels.data() + i * set.bytes_per_image());
    set.labels[static_cast<size_t>(i)] = static_cast<uint8_t>((first + i) % 10);
  }
  return set;
}

}  // namespace wick::data
