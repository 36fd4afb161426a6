"""A hint to the processor: what will be needed soon. It changes nothing but the time that a run takes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from vcubeps.sim.kernel.called import CALLED


def _generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
    hint = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
    to_write, keep_it_near, as_data = word(1), word(3), word(1)
    builder.call(hint, [builder.inttoptr(arguments[0], pointer), to_write, keep_it_near, as_data])
    return context.get_dummy_value()


_hint: Any = intrinsic(lambda _typing_context, _address: (types.void(types.intp), _generate))


@njit(**CALLED)
def prefetch(array, row, column):  # type: ignore[no-untyped-def]
    """An element that will soon be read and written; any indices will do, right or wrong."""
    _hint(array.ctypes.data + (row * array.shape[1] + column) * array.itemsize)
