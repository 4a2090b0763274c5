# shellcheck shell=bash disable=SC2154
# Like nixpkgs' autoAddDriverRunpath: after the fixup, the libraries look for the driver where NixOS keeps it.
addDriverRunpath() {
  local library
  for library in "$out"/lib/*.so; do
    patchelf --set-rpath "/run/opengl-driver/lib:$(patchelf --print-rpath "$library")" "$library"
  done
}
postFixupHooks+=(addDriverRunpath)
