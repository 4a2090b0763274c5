#!/bin/bash
# Runs bubblewrap. Inside a chroot bubblewrap does not work: there this does the same by chroot, for the options --bind,
# --ro-bind, --proc, --dev and --tmpfs.
set -euo pipefail
! /usr/bin/bwrap --ro-bind / / /bin/true 2>/dev/null || exec /usr/bin/bwrap "$@"

root=$(mktemp -d)
script="set -e; root=$root"$'\n'
while :; do
  case $1 in
    --unshare-* | --clearenv) shift ;;
    --bind | --ro-bind)
      if [ -d "$2" ]; then mkdir -p "$root$3"; else install -D /dev/null "$root$3"; fi
      script+="mount --bind '$(realpath "$2")' '$root$3'"$'\n'
      shift 3
      ;;
    --proc | --dev)
      mkdir -p "$root$2"
      script+="mount --rbind '$2' '$root$2'"$'\n'
      shift 2
      ;;
    --tmpfs)
      mkdir -p "$root$2"
      shift 2
      ;;
    *) break ;;
  esac
done
exec env -i /usr/bin/unshare --mount --propagation unchanged /bin/bash -c "${script}exec chroot '$root' \"\$@\"" bwrap "$@"
