"""Compiles CUDA C to PTX with NVRTC, NVIDIA's library: SOURCE OUTPUT FLAG...

The library is that of REHAL_NVRTC, of a Python package, or of the system, in this order. The exit status is
77 if there is none. The messages of the compiler go to standard output.
"""

import sys

# What is in the working directory is not trusted as a module or as a library.
sys.path[:] = [directory for directory in sys.path if directory]

import ctypes  # noqa: E402
import glob  # noqa: E402
import os  # noqa: E402

source, output, *flags = sys.argv[1:]


def libraries():
    named = os.environ.get("REHAL_NVRTC")
    if named:
        yield named
        return
    for directory in sys.path:
        pattern = os.path.join(directory, "nvidia", "*", "lib", "libnvrtc.so.*")
        yield from sorted(glob.glob(pattern), reverse=True)
    for version in ("", ".13", ".12", ".11.2"):
        yield "libnvrtc.so" + version


def load():
    for path in libraries():
        try:
            library = ctypes.CDLL(path)
            library.nvrtcCreateProgram
            return library
        except (OSError, AttributeError) as error:
            if "REHAL_NVRTC" in os.environ:
                print(error)
    sys.exit(77)


nvrtc = load()
for directory in sys.path:
    for path in sorted(glob.glob(os.path.join(directory, "nvidia", "*", "include"))):
        if os.path.exists(os.path.join(path, "cuda_fp16.h")):
            flags.append("--include-path=" + path)


def check(status, what):
    if status != 0:
        print(f"{what} failed with NVRTC's status {status}")
        sys.exit(1)


def text(size, get):
    length = ctypes.c_size_t()
    check(size(program, ctypes.byref(length)), size.__name__)
    buffer = ctypes.create_string_buffer(length.value)
    check(get(program, buffer), get.__name__)
    return buffer.value


program = ctypes.c_void_p()
with open(source, "rb") as file:
    code = file.read()
name = os.fsencode(source)
check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), code, name, 0, None, None), "nvrtcCreateProgram")
options = (ctypes.c_char_p * len(flags))(*[os.fsencode(flag) for flag in flags])
status = nvrtc.nvrtcCompileProgram(program, len(flags), options)
sys.stdout.buffer.write(text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog))
if status != 0:
    sys.exit(1)
with open(output, "wb") as file:
    file.write(text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX))
