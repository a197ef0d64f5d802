#include "wick/core/base/detail/registry.h"

#include <gtest/gtest.h>

#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

struct Fruit {
  std::string name;
  int weight;
};

TEST(Registry, FindsWhatWasAddedAndKeepsItInPlace) {
  Registry<Fruit> fruits("fruit", {{"apple", 150}});
  const Fruit* const apple = &fruits.find("apple");
  for (int i = 0; i < 100; ++i) fruits.add({concat("berry", i), i});
  EXPECT_EQ(&fruits.find("apple"), apple);
  EXPECT_EQ(fruits.find("berry42").weight, 42);
  EXPECT_EQ(fruits.names().size(), 101u);
  EXPECT_EQ(fruits.names()[1], "berry0");
}

TEST(Registry, MayListNamesInTheirOwnOrder) {
  Registry<Fruit> fruits("fruit", {{"pear", 180}}, RegistryOrder::kByName);
  fruits.add({"apple", 150});
  EXPECT_EQ(fruits.names(), (std::vector<std::string>{"apple", "pear"}));
  EXPECT_EQ(error_of([&] { fruits.find("plum"); }),
            "fruit: unknown name: got \"plum\", expected one of apple, pear");
}

TEST(Registry, NamesWhatIsWrong) {
  Registry<Fruit> fruits("fruit", {{"apple", 150}, {"pear", 180}});
  EXPECT_EQ(error_of([&] { fruits.find("plum"); }),
            "fruit: unknown name: got \"plum\", expected one of apple, pear");
  EXPECT_EQ(error_of([&] {
              fruits.add({"pear", 1});
            }),
            "fruit: register: got the name pear, which is taken, expected another");
  EXPECT_EQ(error_of([&] {
              fruits.add({"", 1});
            }),
            "fruit: register: got an empty name, expected one");
  EXPECT_EQ(fruits.find("pear").weight, 180);
}

}  // namespace
}  // namespace wick::testing
