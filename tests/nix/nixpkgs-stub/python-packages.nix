# The Python packages that the machine has to have, by the names of nixpkgs, which are Debian's behind "python3-".
# `modules` are what each has among the installed ones and `needs` the others that it wants, where it is run with the
# package and not only tested with it.
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
  hatchling = { };
  hypothesis = { };
  matplotlib = { };
  onnx = { };
  pytest = { };
  pytest-benchmark = { };
  pytest-xdist = { };
  scipy = { };
  setuptools = { };
  tomli-w = { };
}
