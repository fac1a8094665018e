"""Copying, comparing and reading bytes inside compiled code, as C does it.

Loops over single bytes are what compiled code is slow at: each index is checked for its sign.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from waybill.bulk.compiling import compiled


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
def _prefetch(_typing, data, at):
    """Have the bytes at `at` brought near, which may be anywhere; nothing is read yet."""

    def generate(context, builder, signature, arguments):
        data, at = arguments
        place = _pointer(context, builder, signature.args[0], data, at)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        for_reading, often, of_data = (ir.Constant(number, told) for told in (0, 3, 1))
        builder.call(call, [place, for_reading, often, of_data])
        return context.get_dummy_value()

    return types.void(data, types.int64), generate


@compiled
def ahead(data, starts, i):
    """Have the bytes brought near that one of the next rows needs.

    The values of a column stand far from each other, at no even distance: without this a processor
    waits for most of them.
    """
    if i + _AHEAD < starts.shape[0]:
        _prefetch(data, starts[i + _AHEAD])


_AHEAD = 12
"""How many rows: long enough for bytes to come, and not so long that they go again."""
