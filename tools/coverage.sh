#!/bin/bash
# Prints the share of lines that tests run, by folder (Debian's gcovr).
#   tools/coverage.sh [TEST-PROGRAM...]     core data train … ; all C++ tests if none is named
set -euo pipefail
cd "$(dirname "$0")/.."
command -v gcovr >/dev/null || { echo 'coverage: install gcovr' >&2; exit 1; }
[ $# -gt 0 ] ||
  set -- core core_graph core_ops core_profile data dist nn optim tools train train_profile
cmake --preset coverage
cmake --build --preset coverage --target "${@/%/_test}"
find build/coverage -name '*.gcda' -delete
for test; do build/coverage/bin/"${test}_test" --gtest_brief=1; done
for folder in core data dist nn optim train tools/common; do
  printf '%-14s' "$folder"
  gcovr --root . --object-directory build/coverage --exclude-directories '.*CompilerId' \
    --filter "$folder/" --exclude 'core/cuda/' \
    --print-summary | sed -n 's/^lines: //p'
done
