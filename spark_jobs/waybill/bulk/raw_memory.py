"""Copying and comparing bytes inside compiled code, as C does it.

Loops over single bytes are what compiled code is slow at: each index is checked for its sign.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


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
def equal(_typing, one, at, other, start, size):
    """Whether `size` bytes of `one` from `at` on are those of `other` from `start` on."""

    def generate(context, builder, signature, arguments):
        one, at, other, start, size = arguments
        kinds = signature.args
        left = _pointer(context, builder, kinds[0], one, at)
        right = _pointer(context, builder, kinds[2], other, start)
        byte = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(number, [byte, byte, size.type])
        compare = cgutils.get_or_insert_function(builder.module, kind, "memcmp")
        told = builder.call(compare, [left, right, size])
        return builder.icmp_signed("==", told, ir.Constant(number, 0))

    return types.boolean(one, types.int64, other, types.int64, types.int64), generate
