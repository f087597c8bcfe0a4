#!/bin/sh
# Builds dispatcher as it is released: deploy/build.sh FILE VERSION, for the system that $GOOS and $GOARCH name.
# The same sources, version and Go give the same bytes, in whatever directory and with or without git.
set -eu
cd "$(dirname "$0")/.."
CGO_ENABLED=0 exec "${GO:-go}" build -trimpath -buildvcs=false \
  -ldflags "-s -w -buildid= -X dispatcher/internal/version.release=$2" -o "$1" ./cmd/dispatcher
