#!/bin/bash
# Builds the pages of the tree into a site that loads nothing from the network: open
# build/site/html/index.html, or, for its search, serve it on this machine alone:
#   tools/site.sh
#   python3 -m http.server --bind 127.0.0.1 -d build/site/html
# The first run installs MkDocs with Material from PyPI into build/site/venv, at the versions of
# site/requirements.txt; it needs python3-venv. Ends with 1 where a link is dead, and with 77 where
# PyPI cannot be reached.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
root=$here/..
site=$root/build/site
wanted=$here/site/requirements.txt
mkdir -p "$site"

if ! cmp -s "$wanted" "$site/venv/requirements.txt"; then
  rm -rf "$site/venv"
  python3 -m venv "$site/venv" &&
    "$site/venv/bin/pip" install -q --disable-pip-version-check -r "$wanted" || {
    echo "site: MkDocs could not be installed: is python3-venv there, and PyPI reachable?" >&2
    exit 77
  }
  cp "$wanted" "$site/venv/requirements.txt"
fi
python3 "$here/site/pages.py" stage "$site/pages"
NO_MKDOCS_2_WARNING=1 "$site/venv/bin/mkdocs" build --strict --clean -f "$root/mkdocs.yml" \
  >"$site/log" 2>&1 || {
  cat "$site/log" >&2
  exit 1
}
python3 "$here/site/pages.py" check "$site/html"
