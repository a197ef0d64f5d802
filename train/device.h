#pragma once

#include <string>

#include "wick/core/base/device.h"

namespace wick::train {

/// InvalidOption unless `name` is auto, cpu, cuda or cuda:N.
void check_device_name(const std::string& name);

/// The device that `name` means. auto is a GPU if this build can use one, else the CPU, and never a
/// simulated GPU; `why` then says in one sentence why no GPU is used. Error if the named GPU is not
/// there.
Device choose_device(const std::string& name, std::string* why = nullptr);

/// The same for the `local_rank`-th rank of a machine. Unless `name` has a number, each rank has a
/// GPU of its own as long as there are enough.
Device choose_device(const std::string& name, int local_rank, std::string* why = nullptr);

}  // namespace wick::train
