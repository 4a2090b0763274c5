# The linker's arguments besides the path of the library.
{
  # "static" or "shared", as in flags.nix.
  linkage,
  # Whether the target is macOS.
  darwin,
  # Whether the CoreML provider is compiled in.
  coreml ? false,
}:
if linkage == "shared" then
  [ ]
else if darwin then
  [
    "-lc++"
    "-framework"
    "Foundation"
  ]
  ++ (
    if coreml then
      [
        "-framework"
        "CoreML"
      ]
    else
      [ ]
  )
else
  [
    "-lstdc++"
    "-lm"
    "-lpthread"
    "-ldl"
  ]
