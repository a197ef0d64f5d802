#include "wick/optim/schedule_state.h"

namespace wick::optim {

void write_description(StateDict& state, const std::string& kind, const ScheduleOptions& options) {
  state["kind"] = tensor(std::vector<uint8_t>(kind.begin(), kind.end()));
  std::vector<double> values;
  for (const auto& option : options) values.push_back(option.second);
  state["options"] = tensor(values);
}

void check_description(const StateDict& state, const std::string& kind,
                       const ScheduleOptions& options) {
  if (const auto found = state.find("kind"); found != state.end()) {
    const std::vector<uint8_t> bytes = found->second.to_vector<uint8_t>();
    const std::string saved(bytes.begin(), bytes.end());
    WICK_CHECK(saved == kind, kind, ": load_state_dict: kind: got the state of ", saved,
               ", expected that of ", kind);
  }
  if (const auto found = state.find("options"); found != state.end()) {
    const std::vector<double> saved = found->second.to_vector<double>();
    WICK_CHECK(saved.size() == options.size(), kind, ": load_state_dict: options: got ",
               saved.size(), ", expected ", options.size());
    for (size_t i = 0; i < saved.size(); ++i) {
      WICK_CHECK(saved[i] == options[i].second, kind, ": load_state_dict: ", options[i].first,
                 ": got the state of a schedule with ", saved[i], ", expected ", options[i].second);
    }
  }
}

}  // namespace wick::optim
