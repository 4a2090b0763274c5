#!/bin/bash
# Blanks the hash of one store path in files, keeping every length: remove-references-to -t PATH FILE...
hash=${2#/nix/store/}
shift 2
LC_ALL=C sed -i "s|${hash%%-*}|eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee|g" "$@"
