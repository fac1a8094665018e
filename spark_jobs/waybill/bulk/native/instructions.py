"""What the instructions of `waybill.bulk.raw_memory` are to a compiler, and arrays from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from waybill.bulk.native.functions import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NUMBER, _INT = ir.IntType(64), ir.IntType(32)

_CLASS = object.__basicsize__ - 8
"""Where an object names its class."""

_DATA, _DIMENSIONS, _SIZES, _STRIDES, _ELEMENT, _FLAGS = (
    object.__basicsize__ + place for place in (0, 8, 16, 24, 40, 48)
)
"""Where an array has the pointer to its data, the number of its dimensions, the pointers to their
sizes and to the strides, its type of elements (`PyArray_Descr`), and its flags."""

_CODE, _ORDER = object.__basicsize__ + 9, object.__basicsize__ + 10
"""Where a type of elements has its character, and that of the order of its bytes."""


def _pointer(context, builder, kind, array, at):
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [at])


@intrinsic
def copy(_typing, target, at, source, start, size):
    """Copy `size` bytes of `source` from `start` on to `target` at `at`."""

    def generate(context, builder, signature, arguments):
        target, at, source, start, size = arguments
        kinds = signature.args
        to = _pointer(context, builder, kinds[0], target, at)
        origin = _pointer(context, builder, kinds[2], source, start)
        cgutils.raw_memcpy(builder, to, origin, size, ir.Constant(size.type, 1))
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def word(_typing, data, at):
    """The eight bytes from `at` on as one number, the first byte the lowest."""

    def generate(context, builder, signature, arguments):
        data, at = arguments
        place = _pointer(context, builder, signature.args[0], data, at)
        number = ir.IntType(64)
        return builder.load(builder.bitcast(place, number.as_pointer()), align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def first_marked(_typing, marks):
    """Which of eight bytes is the first with its highest bit set, where there is one."""

    def generate(_context, builder, _signature, arguments):
        zeros = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.lshr(zeros, ir.Constant(zeros.type, 3))

    return types.int64(types.uint64), generate


@intrinsic
def put_word(_typing, data, at, number):
    """Write what `word` reads."""

    def generate(context, builder, signature, arguments):
        data, at, number = arguments
        place = _pointer(context, builder, signature.args[0], data, at)
        builder.store(number, builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


@intrinsic
def prefetch(_typing, data, at):
    """Have the bytes at `at` brought near, which may be anywhere; nothing is read yet."""

    def generate(context, builder, signature, arguments):
        data, at = arguments
        place = _pointer(context, builder, signature.args[0], data, at)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        for_reading, often, of_data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(call, [place, for_reading, often, of_data])
        return context.get_dummy_value()

    return types.void(data, types.int64), generate


def fits(kinds: Sequence[Any]) -> Callable[..., Any]:
    """An instruction that tells whether arguments are of some types.

    They are where the class of arrays is, and then the arguments: arrays as where their objects
    begin, whose layout is that of `PyArrayObject_fields`, which NumPy's C interface keeps.

    Args:
        kinds: types of the arguments, as `Source` has them.
    """

    @intrinsic
    def fit(_typing, given):
        def generate(_context, builder, _signature, arguments):
            good = ir.Constant(ir.IntType(1), 1)
            ndarray = builder.extract_value(arguments[0], 0)
            for number, kind in enumerate(kinds, 1):
                if isinstance(kind, tuple):
                    address = builder.extract_value(arguments[0], number)
                    good = builder.and_(good, _is_array(builder, kind, address, ndarray))
            return good

        return types.boolean(given), generate

    typed: Callable[..., Any] = fit
    return typed


def arguments_of(kinds: Sequence[Any]) -> Callable[..., Any]:
    """An instruction that makes arguments of what `fits` takes.

    Args:
        kinds: types of the arguments.
    """

    @intrinsic
    def made(_typing, given):
        result = types.Tuple(kinds)

        def generate(context, builder, _signature, arguments):
            values = []
            for number, kind in enumerate(kinds, 1):
                value = builder.extract_value(arguments[0], number)
                if isinstance(kind, types.Array):
                    value = _array(context, builder, kind, value)
                values.append(value)
            return context.make_tuple(builder, result, values)

        return result(given), generate

    typed: Callable[..., Any] = made
    return typed


def _read(builder: Any, address: Any, at: int, kind: Any) -> Any:
    """What stands so many bytes behind an address."""
    place = builder.add(address, ir.Constant(_NUMBER, at))
    return builder.load(builder.inttoptr(place, kind.as_pointer()))


def _is_array(builder: Any, kind: Any, address: Any, ndarray: Any) -> Any:
    """Whether an object is an array of some type; its fields are read only if it is an array."""

    def same(value: Any, wanted: int) -> Any:
        return builder.icmp_unsigned("==", value, ir.Constant(value.type, wanted))

    is_array = builder.icmp_unsigned("==", _read(builder, address, _CLASS, _NUMBER), ndarray)
    before = builder.block
    with builder.if_then(is_array):
        element = _read(builder, address, _ELEMENT, _NUMBER)
        order, code = (_read(builder, element, at, ir.IntType(8)) for at in (_ORDER, _CODE))
        flags = builder.and_(_read(builder, address, _FLAGS, _INT), ir.Constant(_INT, LAYOUT))
        named, dimensions, layout = kind
        good = same(_read(builder, address, _DIMENSIONS, _INT), dimensions)
        for value, wanted in ((order, ord(named[0])), (code, ord(named[1])), (flags, layout)):
            good = builder.and_(good, same(value, wanted))
        inside = builder.block
    found = builder.phi(ir.IntType(1))
    found.add_incoming(ir.Constant(ir.IntType(1), 0), before)
    found.add_incoming(good, inside)
    return found


def _array(context: Any, builder: Any, kind: Any, address: Any) -> Any:
    """The array whose object begins at an address."""
    element = context.get_data_type(kind.dtype)

    def numbers(at: int) -> Any:
        first = _read(builder, address, at, _NUMBER.as_pointer())
        places = [ir.Constant(_INT, place) for place in range(kind.ndim)]
        return cgutils.pack_array(
            builder, [builder.load(builder.gep(first, [place])) for place in places]
        )

    made = context.make_array(kind)(context, builder)
    populate_array(
        made,
        data=_read(builder, address, _DATA, element.as_pointer()),
        shape=numbers(_SIZES),
        strides=numbers(_STRIDES),
        itemsize=ir.Constant(_NUMBER, context.get_abi_sizeof(element)),
        meminfo=None,
    )
    return made._getvalue()
