"""Values of programs: the types of their elements, and arrays and numbers as bytes."""

from __future__ import annotations

import functools
import math
import operator
import re
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: The types of numpy by those of elements.
_NUMPY = {
    "i1": "bool",
    **{f"{sign}{bits}": f"int{bits}" for sign in ("i", "si") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "cf64": "complex64",
    "cf128": "complex128",
}

#: The types of ml_dtypes, and those of numpy that have their bits.
_NARROW = {
    "bf16": ("bfloat16", "uint16"),
    "f8E5M2": ("float8_e5m2", "uint8"),
    "f8E4M3FN": ("float8_e4m3fn", "uint8"),
    "f8E5M2FNUZ": ("float8_e5m2fnuz", "uint8"),
    "f8E4M3FNUZ": ("float8_e4m3fnuz", "uint8"),
    "f8E8M0FNU": ("float8_e8m0fnu", "uint8"),
}

#: The types of elements by those of numpy and ml_dtypes.
_ELEMENTS = {
    **{name: element for element, name in _NUMPY.items() if not element.startswith("si")},
    **{name: element for element, (name, _) in _NARROW.items()},
}

#: How numbers are packed, by their kind.
_NUMBERS = {"i32": ("<i", 32), "i64": ("<q", 64), "f32": ("<f", 0), "f64": ("<d", 0)}

#: The type of a value, such as ``2x4xf32``, and its bytes; ``None`` for null.
Passed = tuple[str, Any]


@functools.cache
def dtype_of(element: str) -> np.dtype[Any] | None:
    """The type of arrays of an element type. Without ml_dtypes, those of its types have their bits as
    unsigned integers. ``None`` for a type whose elements are not whole bytes."""
    import numpy as np

    if element in _NUMPY:
        return np.dtype(_NUMPY[element])
    if element not in _NARROW:
        return None
    name, bits = _NARROW[element]
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(bits)
    return np.dtype(getattr(ml_dtypes, name, bits))


def declared_types(declaration: str | None, count: int, *, of_results: bool) -> list[tuple[str, str | None]]:
    """The names and types of the inputs or results of a function, such as ``("input0", "4xf32")``. The type
    of anything but a tensor or number is ``None``, and so are all without a declaration."""
    unknown: list[tuple[str, str | None]] = [
        (f"{'output' if of_results else 'input'}{index}", None) for index in range(count)
    ]
    inputs, arrow, results = (declaration or "").partition(") -> (")
    if not arrow:
        return unknown
    text = results.rpartition(")")[0] if of_results else inputs.partition("(")[2]
    found = [_declared_type(part) for part in _split(text)]
    return found if len(found) == count else unknown


def _split(text: str) -> list[str]:
    """The parts between commas that are not in brackets."""
    parts, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "<{[(") - (character in ">}])")
        if character == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [part for part in [*parts, text[begin:]] if part.strip()]


def _declared_type(text: str) -> tuple[str, str | None]:
    name, _, kind = text.partition(":")
    found = re.match(r"\s*(?:tensor<((?:[0-9?]+x)*)([\w<>]+)>|([a-z]+[0-9]+)\s*(?:\{|$))", kind)
    if found is None:
        return name.strip().lstrip("%"), None
    shape, element, number = found.groups()
    if number is not None:
        return name.strip().lstrip("%"), number
    complex_of = re.fullmatch(r"complex<f([0-9]+)>", element)
    element = f"cf{2 * int(complex_of[1])}" if complex_of else element
    return name.strip().lstrip("%"), shape + element


def number_to_bytes(value: Any, kind: str) -> Passed:
    """A number of the VM."""
    form, bits = _NUMBERS[kind]
    if getattr(value, "ndim", 0) != 0 or isinstance(value, (list, tuple)):
        raise TypeError(f"expected a number ({kind}), found {type(value).__name__}")
    if bits == 0:
        return kind, struct.pack(form, value)
    # Also a boolean of numpy, which cannot be an index.
    number = operator.index(value.item() if hasattr(value, "item") else value)
    # Programs use them signed or unsigned.
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise OverflowError(f"{number} is not within the range of {kind}")
    return kind, (number & ((1 << bits) - 1)).to_bytes(bits // 8, "little")


def number_of_bytes(data: Any, kind: str) -> int | float:
    number: int | float = struct.unpack_from(_NUMBERS[kind][0], data)[0]
    return number


def array_to_bytes(value: Any, declared: str | None) -> Passed:
    """An array with its type. Lists and numbers are converted to the declared element type."""
    import numpy as np

    element = None if declared is None else declared.rpartition("x")[2]
    is_converted = isinstance(value, (list, tuple, bool, int, float, complex, np.generic))
    if is_converted and element is not None:
        array = _converted(value, element)
    else:
        array = np.asarray(value)
        own = _ELEMENTS.get(array.dtype.name)
        if own is None:
            raise TypeError(f"an array of {array.dtype} cannot be a tensor")
        element = element if element is not None and _has_same_bits(array.dtype, own, element) else own
    name = "x".join([*map(str, array.shape), element])
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return name, np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _has_same_bits(dtype: np.dtype[Any], own: str, element: str) -> bool:
    """Whether an array is taken as one of the declared type: the integers of MLIR have no sign, and those
    that have the bits of a narrow float are taken for these."""
    wanted = dtype_of(element)
    if wanted is None or wanted.itemsize != dtype.itemsize:
        return own == element
    if dtype.kind == "u" and element in _NARROW:
        return True
    return own == element or (dtype.kind in "iu" and wanted.kind in "iu")


def _converted(value: Any, element: str) -> npt.NDArray[Any]:
    import numpy as np

    dtype = dtype_of(element)
    found = np.asarray(value)
    if dtype is None:
        raise TypeError(f"elements of {element} are packed: a list cannot be one of them")
    if element in _NARROW and dtype.kind == "u":
        raise TypeError(f"a list of {element} needs ml_dtypes; an array of {dtype} may have its bits")
    # Conversions that lose a part of each number are errors.
    order = "biufc"
    kind = "f" if element in _NARROW else dtype.kind
    if found.dtype.kind not in order or (
        order.index(found.dtype.kind) > order.index(kind) and not (found.dtype.kind in "iu" and kind in "iu")
    ):
        if not (kind == "b" and found.dtype.kind in "iu" and np.isin(found, (0, 1)).all()):
            raise TypeError(f"numbers of {found.dtype} are not of {element}")
    if kind in "iu" and found.size:
        low, high = int(found.min()), int(found.max())
        if not element.startswith(("si", "ui")) and low >= 0 and high > np.iinfo(dtype).max:
            dtype = np.dtype(f"u{dtype.name}")
        if low < np.iinfo(dtype).min or high > np.iinfo(dtype).max:
            wrong = low if low < np.iinfo(dtype).min else high
            raise OverflowError(f"{wrong} is not within the range of {element}")
    return found.astype(dtype)


def array_of_bytes(name: str, data: Any) -> npt.NDArray[Any]:
    """The array of a type, over these bytes. Elements that are not whole bytes stay packed."""
    import numpy as np

    *shape, element = name.split("x")
    dtype = dtype_of(element)
    if dtype is None:
        return np.frombuffer(data, np.uint8)
    sizes = [int(size) for size in shape]
    return np.frombuffer(data, np.uint8, math.prod(sizes) * dtype.itemsize).view(dtype).reshape(sizes)
