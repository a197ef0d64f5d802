#pragma once

#include <memory>
#include <optional>

#include "wick/nn/activation_plan.h"
#include "wick/tools/wick/setup.h"
#include "wick/train/train.h"

namespace wick::tool {

/// Cross-entropy and "accuracy" of a batch of images and labels.
train::LossFunction classification_loss(std::shared_ptr<nn::Module> model, double label_smoothing);

/// How a step of `config` (resolved) computes. UsageError for what only a GPU can do.
train::StepOptions step_options(const TrainConfig& config, Device device);

/// What --schedule and the flags beside it ask for.
train::ScheduleOptions schedule_options(const TrainConfig& config);

/// The data of a run: how it is loaded, and mixed.
train::TrainData train_data(const TrainConfig& config, const data::TrainTest& data, Device device);

/// The most images of a step that a rank takes at a time, where `ranks` share the batch.
int64_t largest_piece(const TrainConfig& config, int64_t ranks = 1);

/// `count` samples like `sample`: of normal noise, or of zeros where numbers are whole.
Tensor noise_samples(const data::Field& sample, int64_t count, Device device);

/// Forward and backward of `count` samples of noise, as a run goes through a piece of a batch: to
/// see what that needs.
void pass_noise(const TrainConfig& config, nn::Module& model, const data::Field& sample,
                Device device, int64_t count);

/// Does what --checkpoint-activations asks for, where the batch is shared by `ranks`; returns what
/// was found if that is a budget. Error if no choice keeps to it.
std::optional<nn::ActivationFit> checkpoint_activations(const TrainConfig& config,
                                                        nn::Module& model,
                                                        const data::Field& sample, Device device,
                                                        int64_t ranks = 1);

}  // namespace wick::tool
