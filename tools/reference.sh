#!/bin/bash
# Builds the reference of the public headers: open build/reference/html/index.html. Ends with 1
# where a public symbol has no comment (tools/reference/check.py), and with 77 where
# Debian's doxygen is not installed.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
if ! command -v doxygen >/dev/null; then
  echo "reference: doxygen is not installed: apt-get install doxygen" >&2
  exit 77
fi
mkdir -p build/reference
doxygen tools/reference/Doxyfile
python3 tools/reference/check.py build/reference/log
