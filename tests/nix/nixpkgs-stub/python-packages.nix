# The Python packages that the machine must have, by their names in nixpkgs; Debian's names add "python3-" in front.
# `modules` are the package's files among the machine's Python modules. `needs` are the packages that it imports at run
# time; packages for tests alone have none.
{
  cffi = {
    modules = [
      "cffi"
      "_cffi_backend"
    ];
    needs = [ "pycparser" ];
  };
  markdown-it-py.modules = [
    "markdown_it"
    "mdurl"
  ];
  ml-dtypes = {
    modules = [ "ml_dtypes" ];
    needs = [ "numpy" ];
  };
  numpy.modules = [ "numpy" ];
  pycparser.modules = [ "pycparser" ];
  pygments.modules = [ "pygments" ];
  rich = {
    modules = [ "rich" ];
    needs = [
      "markdown-it-py"
      "pygments"
    ];
  };

  build = { };
  flatbuffers = { };
  hatchling = { };
  hypothesis = { };
  matplotlib = { };
  onnx = { };
  pip = { };
  pytest = { };
  pytest-benchmark = { };
  pytest-xdist = { };
  scipy = { };
  setuptools = { };
  tomli-w = { };
}
