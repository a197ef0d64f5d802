#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace wick::study {

/// What a worker does: a training loop as the articles write them, every habit of which can be
/// chosen. The defaults are the fast ones; a technique's two sides differ in a field or two.
struct Settings {
  std::string work = "train";  // train, evaluate, load, wrap, embed (see Workload)
  std::string device = "cpu";
  int64_t threads = 1;
  int64_t seed = 0;

  std::string model = "article";  // article (a ResNet-20), mlp, or one of nn::models()
  bool bias = false;              // article: convolutions have biases, before their norm
  bool norm = true;               // article: batch normalisation
  bool fused = true;              // article: norm, addition and ReLU in one pass
  bool channels_last = true;      // memory: how the batch is stored; else row-major
  bool checkpoint = false;        // activations are made again in backward
  bool recompute_norm = true;     // so are normalised ones, even without

  std::string source = "memory";  // memory (one batch of noise), data, files, packed, photos
  std::string data = "shapes10";
  std::string data_dir;
  int64_t batch = 64;
  int64_t image = 32;
  int64_t workers = 1;  // -1: auto
  bool shuffle = true;
  bool persistent = true;
  bool collate = false;              // samples come one by one and are stacked
  bool whole_jpeg = false;           // photos: all of an image is decoded, in full size
  std::string augment = "basic";     // none, basic
  std::string normalize = "loader";  // loader, step (by tensor operations in the step), none
  bool pinned = true;                // GPU: batches lie in pinned memory
  bool ahead = true;                 // GPU: copied on a stream of their own, bytes
  bool copy_blob = false;            // wrap: the caller's memory is copied

  std::string amp = "off";
  bool benchmark = false;
  bool cuda_graph = false;      // GPU: steps are replayed
  std::string compile = "off";  // off, fuse, full: steps run as graphs
  bool fused_loss = true;
  double label_smoothing = 0;
  bool second_forward = false;  // another forward pass in every step, as for a profiler
  bool detect_anomaly = false;  // every gradient is looked through for NaN
  bool memory_history = false;  // the allocator records what it does
  bool read_loss = false;       // the host reads the loss of every step
  bool empty_cache = false;     // cached memory is given back after every step
  bool no_grad = true;          // evaluate: nothing is recorded
  bool sparse = true;           // embed: gradients are of the rows that were read
  int64_t accumulate = 1;       // pieces that a step's images are taken in
  int64_t ranks = 1;            // copies of the model that train in parallel, in threads

  std::string optimizer = "adamw";  // adamw, adam, sgd, lamb
  bool fused_optimizer = true;
  bool set_to_none = true;
  std::string clip = "none";  // none, fused, separate
  double ema = 0;             // 0: none
  double lr = 0.005;
  double weight_decay = 0.01;
  std::string schedule = "constant";  // constant, onecycle, cosine
  std::string scratch;                // folder for files that the worker makes and deletes
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    Settings, work, device, threads, seed, model, bias, norm, fused, channels_last, checkpoint,
    recompute_norm, source, data, data_dir, batch, image, workers, shuffle, persistent, collate,
    whole_jpeg, augment, normalize, pinned, ahead, copy_blob, amp, benchmark, cuda_graph, compile,
    fused_loss, label_smoothing, second_forward, detect_anomaly, memory_history, read_loss,
    empty_cache, no_grad, sparse, accumulate, ranks, optimizer, fused_optimizer, set_to_none, clip,
    ema, lr, weight_decay, schedule, scratch)

}  // namespace wick::study
