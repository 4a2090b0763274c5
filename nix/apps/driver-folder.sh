#!/bin/sh
# Prints the folder that holds the host's NVIDIA driver and nothing that could stand in for another library:
# driver-folder.sh [FOLDER...]; without folders, those that distributions use. Status 1 if there is no driver.
set -eu

if [ $# -eq 0 ]; then
  set -- /run/opengl-driver/lib /usr/lib/wsl/lib /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib
fi
for folder in "$@"; do
  [ -e "$folder/libcuda.so.1" ] || continue
  case $folder in
    # These hold the driver alone.
    /run/opengl-driver/lib | /usr/lib/wsl/lib)
      echo "$folder"
      exit 0
      ;;
  esac
  # The host's own library folder would bring its libc along: links to the driver's files do without.
  cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
  links=$cache/zrt/driver
  # A home that is missing or read-only: each start then leaves a folder of its own.
  if [ -z "$cache" ] || ! mkdir -p "$links" 2>/dev/null || [ ! -w "$links" ]; then
    links=$(mktemp -d)
  fi
  # Other processes load from the same links: right ones stay as they are.
  for file in "$folder"/libcuda.so* "$folder"/libnvidia-*.so*; do
    [ ! -e "$file" ] || [ "$links/${file##*/}" -ef "$file" ] || ln -sf "$file" "$links/"
  done
  echo "$links"
  exit 0
done
exit 1
