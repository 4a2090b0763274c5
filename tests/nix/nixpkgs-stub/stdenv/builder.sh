# shellcheck shell=bash
# The builder: one derivation's phases, with the tools of the machine.
set -euo pipefail
shopt -s nullglob

# shellcheck source=environment/setup
source "$stdenv/setup"
export HOME=$TMPDIR LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH=315532800 PYTHONDONTWRITEBYTECODE=1
cd "$TMPDIR"

runHook() {
  eval "${!1:-}"
}

# substitute IN OUT --subst-var NAME
substitute() {
  local name=$4
  sed "s|@$name@|${!name}|g" "$1" >"$2"
}

phase() {
  local name=$1
  shift
  echo "phase: $name"
  if [ -n "${!name:-}" ]; then
    eval "${!name}"
  else
    "$@"
  fi
}

unpack() {
  [ -n "${src:-}" ] || return 0
  if [ -d "$src" ]; then
    cp -r "$src" source
  else
    mkdir source
    tar -xf "$src" -C source --strip-components=1
  fi
  chmod -R u+w source
  cd source
}

if [ -n "${buildCommand:-}" ] || [ -n "${buildCommandPath:-}" ]; then
  eval "$buildCommand"
  exit
fi

phase unpackPhase unpack
runHook postPatch
[ -n "${dontBuild:-}" ] || phase buildPhase eval "echo 'nothing here compiles ONNX Runtime' >&2; exit 1"
phase installPhase true
runHook postFixup
[ -z "${doCheck:-}${doInstallCheck:-}" ] || phase installCheckPhase true
