# shellcheck shell=bash
# zrt_enter builds zrt in place and makes it importable; the shells call it in the root of a checkout.

zrt_enter() {
  local native=zrt/_native stamp wanted provider
  if [ ! -f "$native/build.py" ]; then
    echo "enter this shell in a checkout of zrt: there is no $native/build.py here" >&2
    return 1
  fi

  # The module is built anew where a source is newer, it belongs to another library, or somebody else built it since.
  # Named like a module, so that file sets without modules leave it out too.
  stamp=$native/_ort.stamp.so
  wanted=$(python -VV)$ZRT_ORT_INCLUDE_DIR$ZRT_ORT_LINK_ARGS
  if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] ||
    [ -n "$(find "$native" -newer "$stamp" \( -name '*.[ch]' -o -name build.py -o -name '_ort.*.so' \) \
      -print -quit)" ]; then
    python "$native/build.py" && printf '%s' "$wanted" >"$stamp" || return 1
  fi

  # A static core looks for its providers in the folder of the module.
  find "$native" -name 'libonnxruntime_providers_*.so' -type l -delete
  for provider in ${ZRT_ORT_PROVIDERS//:/ }; do
    case $ZRT_ORT_LINK_ARGS in
      *libonnxruntime.a*) ln -s "$provider" "$native/" ;;
    esac
  done

  export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
}
