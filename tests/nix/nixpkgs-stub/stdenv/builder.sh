# shellcheck shell=bash disable=SC2154
# The builder: runs the phases of one derivation with the tools of the machine.
set -euo pipefail
shopt -s nullglob

# shellcheck source=/dev/null
source "$stdenv/setup"
export HOME=$TMPDIR LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH=315532800 PYTHONDONTWRITEBYTECODE=1
cd "$TMPDIR"

postFixupHooks=()
for input in ${nativeBuildInputs:-}; do
  # shellcheck source=/dev/null
  [ ! -e "$input/nix-support/setup-hook" ] || source "$input/nix-support/setup-hook"
done

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

# Wraps the compilers like nixpkgs: with the default hardening flags that the derivation does not disable, and with
# the headers and libraries of its inputs.
harden() {
  local -A hardening=(
    [format]='-Wformat -Wformat-security -Werror=format-security'
    [fortify3]='-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3'
    [pic]=-fPIC
    [stackclashprotection]=-fstack-clash-protection
    [stackprotector]='-fstack-protector-strong --param ssp-buffer-size=4'
    [strictflexarrays1]=-fstrict-flex-arrays=1
    [strictoverflow]=-fno-strict-overflow
    [zerocallusedregs]=-fzero-call-used-regs=used-gpr
  )
  local name flags=
  for name in "${!hardening[@]}"; do
    case " ${hardeningDisable:-} " in
      *" $name "* | *" all "*) ;;
      *) flags+=" ${hardening[$name]}" ;;
    esac
  done
  for name in $libraries; do
    [ ! -d "$name/include" ] || flags+=" -isystem $name/include"
    [ ! -d "$name/lib" ] || flags+=" -L$name/lib -Wl,-rpath,$name/lib"
  done
  mkdir "$TMPDIR/compilers"
  for name in gcc g++; do
    # Where the machine has several compilers, prefer the major version that nixpkgs uses.
    printf '#!/bin/bash\nexec %s%s "$@"\n' "$(command -v $name-15 || command -v $name)" "$flags" \
      >"$TMPDIR/compilers/$name"
  done
  chmod +x "$TMPDIR"/compilers/*
  PATH=$TMPDIR/compilers:$PATH
}

# Does the same as the hooks of nixpkgs' cmake and ninja.
configure() {
  [ -n "${cmakeFlags:-}" ] || return 0
  runHook preConfigure
  harden
  find . \( -name '*.cmake' -o -name '*.cmake.in' -o -name CMakeLists.txt \) -type f \
    -exec sed -i 's^/usr\([ /]\|$\)^/var/empty\1^g; s^/opt\([ /]\|$\)^/var/empty\1^g' {} +
  # shellcheck disable=SC2086
  CMAKE_PREFIX_PATH=$(printf '%s:' $libraries)
  export CMAKE_PREFIX_PATH
  mkdir -p build
  cd build
  # shellcheck disable=SC2086
  cmake "$cmakeDir" -GNinja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
    -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++ \
    -DCMAKE_AR="$(command -v ar)" -DCMAKE_RANLIB="$(command -v ranlib)" -DCMAKE_STRIP="$(command -v strip)" \
    -DCMAKE_FIND_FRAMEWORK=LAST -DCMAKE_POLICY_DEFAULT_CMP0025=NEW -DCMAKE_INSTALL_PREFIX="$out" \
    -DCMAKE_INSTALL_{NAME_DIR,LIBDIR}="$out/lib" -DCMAKE_INSTALL_BINDIR="$out/bin" \
    -DCMAKE_INSTALL_SBINDIR="$out/sbin" -DCMAKE_INSTALL_INCLUDEDIR="$out/include" \
    -DCMAKE_INSTALL_LIBEXECDIR="$out/libexec" -DCMAKE_INSTALL_LOCALEDIR="$out/share/locale" \
    -DCMAKE_INSTALL_MANDIR="$out/share/man" -DCMAKE_INSTALL_INFODIR="$out/share/info" \
    -DCMAKE_INSTALL_DOCDIR="$out/share/doc/$pname" -DCMAKE_EXPORT_NO_PACKAGE_REGISTRY=ON \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DCMAKE_FIND_USE_SYSTEM_PACKAGE_REGISTRY=OFF $cmakeFlags
}

build() {
  [ -n "${cmakeFlags:-}" ] || return 0
  runHook preBuild
  TERM=dumb ninja -j "$NIX_BUILD_CORES"
  runHook postBuild
}

install_() {
  [ -n "${cmakeFlags:-}" ] || return 0
  runHook preInstall
  TERM=dumb ninja install
  runHook postInstall
}

# Libraries keep no run path that they do not need.
fixup() {
  [ -n "${cmakeFlags:-}" ] || return 0
  local library
  for library in "$out"/lib/*.so; do
    patchelf --shrink-rpath --allowed-rpath-prefixes /nix/store "$library"
  done
}

if [ -n "${buildCommand:-}" ] || [ -n "${buildCommandPath:-}" ]; then
  eval "$buildCommand"
  exit
fi

phase unpackPhase unpack
runHook postPatch
[ -n "${dontConfigure:-}" ] || phase configurePhase configure
[ -n "${dontBuild:-}" ] || phase buildPhase build
phase installPhase install_
fixup
runHook postFixup
for hook in "${postFixupHooks[@]}"; do
  "$hook"
done
[ -z "${doCheck:-}${doInstallCheck:-}" ] || phase installCheckPhase true
