#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/data/catalog.h"
#include "wick/data/loader.h"
#include "wick/nn/module.h"
#include "wick/optim/optim.h"
#include "wick/tools/wick/config.h"

namespace wick::tool {

/// `config` with every open choice made to suit its model and data. UsageError if the warm-up lasts
/// as long as all epochs.
TrainConfig resolve(TrainConfig config);

/// The device that --device means: `auto` is a GPU if there is one this build can use, else the CPU
/// (`why` then says in one sentence why not a GPU), never a simulated one.
Device choose_device(const std::string& name, std::string* why = nullptr);

/// The same for the `local_rank`-th rank of a machine: unless `name` says which, each has a GPU of
/// its own as long as there are enough.
Device choose_device(const std::string& name, int local_rank, std::string* why = nullptr);

/// The data that `config` names, augmented as it says, with its limits for images from now on.
data::TrainTest open_train_data(const TrainConfig& config);

/// UsageError where `config` asks for what `data` or `model` has no use of.
void check_uses(const TrainConfig& config, const data::TrainTest& data, nn::Module& model);

/// The model that `config` names, for the images and classes of `data`.
std::shared_ptr<nn::Module> make_model(const TrainConfig& config, const data::TrainTest& data);

/// That model with weights that follow from the seed, as does everything drawn after it, on
/// `device`.
std::shared_ptr<nn::Module> make_seeded_model(const TrainConfig& config,
                                              const data::TrainTest& data, Device device);

/// What --workers, --data-timeout and --on-bad-sample ask for.
data::DataLoaderOptions loader_options(const TrainConfig& config, Device device);

/// That for training: shuffled by the seed; an incomplete batch only if there is no other.
data::DataLoaderOptions train_loader_options(const TrainConfig& config, const data::TrainTest& data,
                                             Device device);

/// Does what --benchmark, --deterministic and --tf32 ask for, for the whole program.
void set_arithmetic(const TrainConfig& config);

/// The dtype that --amp asks for; none for off.
std::optional<Dtype> autocast_dtype(const TrainConfig& config);

/// The numbers of --schedule-epochs: 30, or 30,60,80. A UsageError for anything else.
std::vector<double> schedule_epochs(const TrainConfig& config);

/// Whether an element's update by the optimizer depends on no other element.
bool is_elementwise(const std::string& optimizer);

/// The optimizer that `config` names, for all parameters of `model`.
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                 const nn::Module& model);

}  // namespace wick::tool
