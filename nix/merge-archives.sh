#!/usr/bin/env bash
# Makes one archive out of the static ones that a build of ONNX Runtime leaves: merge-archives.sh OUTPUT BUILD_FOLDER
set -euo pipefail

if [ $# -ne 2 ]; then
  echo "usage: merge-archives.sh OUTPUT BUILD_FOLDER" >&2
  exit 2
fi
output=$1
folder=$2

# Every build of the core has these; without one of them the extension would fail to link or to load.
required=(
  onnxruntime_{session,optimizer,providers,lora,framework,graph,util,mlas,common,flatbuffers}
  onnx onnx_proto protobuf-lite re2 cpuinfo flatbuffers absl_base
)

# The full protobuf and protoc serve the build alone; the core carries the lite runtime, which the full one repeats.
mapfile -d '' archives < <(
  find "$folder" -name 'lib*.a' ! -name libprotobuf.a ! -name libprotoc.a -print0 | LC_ALL=C sort -z
)

# One word a line, with a line end on both sides. A pipe into grep -q would fail where grep leaves first (pipefail).
present=$'\n'$(printf '%s\n' "${archives[@]##*/}")$'\n'
missing=()
for name in "${required[@]}"; do
  [[ $present == *$'\n'"lib$name.a"$'\n'* ]] || missing+=("lib$name.a")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "merge-archives: $folder lacks ${missing[*]}" >&2
  exit 1
fi

rm -f "$output"
if [ "$(uname -s)" = Darwin ]; then
  libtool -static -no_warning_for_no_symbols -o "$output" "${archives[@]}"
else
  # An MRI script keeps members of equal names apart, which extracting them would not; it wants plain file names.
  links=$(mktemp -d)
  trap 'rm -rf "$links"' EXIT
  {
    echo "CREATE $links/merged.a"
    for i in "${!archives[@]}"; do
      ln -s "$(realpath "${archives[i]}")" "$links/$i.a"
      echo "ADDLIB $links/$i.a"
    done
    echo SAVE
    echo END
  } | "${AR:-ar}" -M
  "${RANLIB:-ranlib}" -D "$links/merged.a"
  mv "$links/merged.a" "$output"
fi
echo "merge-archives: ${#archives[@]} archives in $output" >&2
