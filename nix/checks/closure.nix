# Fails if a CPU output needs a CUDA package at run time.
{
  pkgs,
  # The CPU package to look into.
  zrt,
}:
pkgs.runCommand "zrt-closure" { closure = pkgs.closureInfo { rootPaths = [ zrt ]; }; } ''
  if grep -iE 'cuda|cudnn|cublas|nvidia' "$closure/store-paths"; then
    echo "a CPU output needs the packages above" >&2
    exit 1
  fi
  touch "$out"
''
