"""What is compiled; positions are those of bytes in one array, the arena."""

from waybill.bulk.kernels.filling import fill, filled_sizes, holds, join_texts, put, same_texts
from waybill.bulk.kernels.known_scanning import scan_known
from waybill.bulk.kernels.naming import find_names, place_names
from waybill.bulk.kernels.numbers import (
    digits,
    integers,
    number_in_text,
    padded_digits,
    plain_decimals,
    short_floats,
    words,
)
from waybill.bulk.kernels.order_keys import order_keys, read_order_keys
from waybill.bulk.kernels.scanning import fitting, grouped, head_size, in_order, in_slots, scan
from waybill.bulk.kernels.times import (
    plain_times,
    unit_wall_clocks,
    wall_clock_units,
    wall_clocks,
    with_last,
    without_last,
    without_zeros,
)

__all__ = [
    "digits",
    "fill",
    "filled_sizes",
    "find_names",
    "fitting",
    "grouped",
    "head_size",
    "holds",
    "in_order",
    "in_slots",
    "integers",
    "join_texts",
    "number_in_text",
    "order_keys",
    "padded_digits",
    "place_names",
    "plain_decimals",
    "plain_times",
    "put",
    "read_order_keys",
    "same_texts",
    "scan",
    "scan_known",
    "short_floats",
    "unit_wall_clocks",
    "wall_clock_units",
    "wall_clocks",
    "with_last",
    "without_last",
    "without_zeros",
    "words",
]
