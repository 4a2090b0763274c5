#!/bin/sh
# Starts the bundle's own Python with the bundle's own loader and libc: nothing of the host but its GPU driver.
here=$(readlink -f "$0" 2>/dev/null) || here=$0
here=${here%/*}/..
libraries=$here/lib
if [ -e "$here/lib/libcudart.so.13" ] && driver=$("$here/bin/driver-folder"); then
  libraries=$libraries:$driver
fi
exec "$here/lib/ld.so" --inhibit-cache --library-path "$libraries" --argv0 "$here/bin/python3" \
  "$here/libexec/python3" -E -s "$@"
