#include "wick/dist/flight_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "wick/core/base/check.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::dist {
namespace {

FlightLog log_of(int64_t rank, int64_t size, int64_t asked, int64_t done) {
  FlightLog log{.rank = rank, .size = size};
  for (int64_t i = 1; i <= asked; ++i) {
    log.collectives.push_back({i, concat("all_reduce #", i), i <= done});
  }
  return log;
}

TEST(FlightLog, FindsWhoAskedForAnotherCollective) {
  std::vector<FlightLog> logs{log_of(0, 3, 2, 1), log_of(1, 3, 2, 1), log_of(2, 3, 2, 1)};
  logs[1].collectives[1].description = "broadcast #2";
  const FlightVerdict verdict = find_desync(logs);
  EXPECT_EQ(verdict.ranks, std::vector<int64_t>{1});
  EXPECT_EQ(verdict.why,
            "rank 1 asked for broadcast #2 where ranks 0 and 2 asked for all_reduce #2");
}

TEST(FlightLog, FindsWhoStayedAway) {
  const FlightVerdict late = find_desync({log_of(0, 2, 3, 2), log_of(1, 2, 2, 2)});
  EXPECT_EQ(late.ranks, std::vector<int64_t>{1});
  EXPECT_EQ(late.why, "rank 1 did not come to all_reduce #3, as rank 0 did");
  EXPECT_EQ(find_desync({log_of(0, 2, 3, 2)}).ranks, std::vector<int64_t>{1});
  EXPECT_TRUE(find_desync({log_of(0, 2, 3, 3), log_of(1, 2, 3, 3)}).ranks.empty());
}

TEST(FlightLog, NeedsARecord) {
  EXPECT_EQ(testing::error_of([] { find_desync({}); }),
            "find_desync: got no record, expected one for each rank");
}

TEST(FlightLog, ReadsAFolder) {
  const testing::TemporaryFolder folder;
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder.path(name)) << text;
  };
  EXPECT_NE(testing::error_of([&] { read_flight_logs(folder.path()); }).find("holds no flight log"),
            std::string::npos);
  write("flight-1.json", R"({"rank": 1, "size": 2, "failure": "a bad image", "collectives": [
      {"sequence": 4, "op": "all_reduce", "description": "all_reduce #4", "state": "done"},
      {"sequence": 1, "op": "send", "description": "send", "state": "done"},
      {"sequence": 5, "op": "barrier", "description": "barrier #5", "state": "running"}]})");
  write("flight-0.json", "{}");
  const FlightLogs found = read_flight_logs(folder.path());
  ASSERT_EQ(found.logs.size(), 1U);
  EXPECT_EQ(found.rejected.size(), 1U);
  EXPECT_EQ(found.logs[0].failure, "a bad image");
  EXPECT_EQ(found.logs[0].last_asked(), 5);
  EXPECT_EQ(found.logs[0].last_done(), 4);
}

}  // namespace
}  // namespace wick::dist
