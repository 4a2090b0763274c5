"""Says in one line each what keeps CUDA from running here; silent, with status 0, where nothing does.

cuda-probe.py LIBCUDA --driver 580 --driver-api 13000 --architectures "75;80;120-virtual"
"""

import argparse
import ctypes
import re
import sys

NO_DEVICE = 100
COMPUTE_CAPABILITY_MAJOR = 75
COMPUTE_CAPABILITY_MINOR = 76


def runs_on(architecture: str, capability: int) -> bool:
    """Whether code compiled for `architecture` runs on a GPU of that capability (as 89 for 8.9)."""
    number, kind, form = re.fullmatch(r"(\d+)([af]?)(-virtual|-real)?", architecture).groups()
    compiled = int(number)
    if kind == "a":
        return compiled == capability
    # Plain PTX runs on everything later; real code, and PTX for a family, within its own major version.
    return compiled <= capability and ((form == "-virtual" and not kind) or compiled // 10 == capability // 10)


def problems(library: str, driver: str, driver_api: int, architectures: list[str]) -> list[str]:
    """One line for each thing that is missing."""
    try:
        cuda = ctypes.CDLL(library)
    except OSError as error:
        return [f"no driver: {library} cannot be loaded ({error})"]
    version = ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value < driver_api:
        have, want = (f"{api // 1000}.{api % 1000 // 10}" for api in (version.value, driver_api))
        return [f"driver too old: it knows CUDA {have}, this build needs {want} (driver {driver} or later)"]
    status = cuda.cuInit(0)
    if status not in (0, NO_DEVICE):
        return [f"driver fails: cuInit returns {status}"]
    count = ctypes.c_int()
    if status == NO_DEVICE or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return ["no GPU: the driver sees none"]
    return [
        f"GPU {index} has architecture {capability}, which is not compiled in ({';'.join(architectures)}): "
        f'build with cudaArchitectures = [ "{capability}" ]'
        for index, capability in enumerate(capabilities(cuda, count.value))
        if not any(runs_on(architecture, capability) for architecture in architectures)
    ]


def capabilities(cuda: ctypes.CDLL, count: int) -> list[int]:
    """The compute capability of each GPU."""
    found = []
    for index in range(count):
        device = ctypes.c_int()
        cuda.cuDeviceGet(ctypes.byref(device), index)
        numbers = []
        for attribute in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR):
            value = ctypes.c_int()
            cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            numbers.append(value.value)
        found.append(numbers[0] * 10 + numbers[1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser("cuda-probe")
    parser.add_argument("library", help="the driver's libcuda.so.1")
    parser.add_argument("--driver", required=True, help="the oldest driver that will do, as people name it")
    parser.add_argument("--driver-api", type=int, required=True, help="the same as cuDriverGetVersion counts")
    parser.add_argument("--architectures", required=True, help="what the build was compiled for")
    arguments = parser.parse_args()
    lines = problems(arguments.library, arguments.driver, arguments.driver_api, arguments.architectures.split(";"))
    for line in lines:
        print(f"bench-cuda: {line}", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
