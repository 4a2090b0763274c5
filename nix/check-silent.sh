#!/usr/bin/env bash
# Fails if a library could report to anybody: check-silent.sh LIBRARY...
# Reads its imported symbols and, unless it is an archive, whose parts may not be linked in, the addresses in its data.
set -euo pipefail

if [ $# -eq 0 ]; then
  echo "usage: check-silent.sh LIBRARY..." >&2
  exit 2
fi

calls='(socket|connect|send(to|m?msg)?|recv(from|m?msg)?|getaddrinfo|gethostby.*|res_n?query|curl_.*|SSL_.*)'
# Hosts that the descriptions of operators and messages of errors refer the reader to.
documentation='
  arxiv.org
  devblogs.nvidia.com
  docs.nvidia.com
  docs.scipy.org
  en.wikipedia.org
  github.com
  huggingface.co
  ieeexplore.ieee.org
  numpy.org
  papers.nips.cc
  pytorch.org
  tinyurl.com
  www.microsoft.com
  www.opencompute.org
  www.tensorflow.org
'

wrong=0
checked=0
for library in "$@"; do
  table=--dynamic
  case $library in
    *.a | *.dylib) table= ;;
    *.so*) ;;
    *) continue ;;
  esac
  checked=$((checked + 1))
  # shellcheck disable=SC2086
  symbols=$(nm $table --undefined-only --format=posix "$library")
  found=$(sed 's/[ @].*//' <<<"$symbols" | { grep -xE "_?$calls" || true; } | sort -u | paste -sd ' ')
  if [ -n "$found" ]; then
    echo "check-silent: $library calls $found" >&2
    wrong=1
  fi
  case $library in *.a) continue ;; esac
  addresses=$(grep -aoE '[a-z]+://[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+' "$library") || [ $? -eq 1 ]
  hosts=$(sed 's|.*://||' <<<"$addresses" | sort -u)
  for host in $hosts; do
    if ! grep -qxF "  $host" <<<"$documentation"; then
      echo "check-silent: $library contains the address of $host" >&2
      wrong=1
    fi
  done
done
if [ "$checked" -eq 0 ]; then
  echo "check-silent: there is no library among: $*" >&2
  exit 1
fi
exit "$wrong"
