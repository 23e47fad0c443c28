"""The capacity as a small table: one column a role."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from launcher.capacity import GIB, MIB, Capacity, RoleCapacity, Spread

Row = tuple[str, Callable[[RoleCapacity], str]]
UNKNOWN = "?"


def capacity_lines(capacity: Capacity) -> Iterator[str]:
    """The table, what it is built on, and what is not known."""
    roles = capacity.roles
    cells = [[name, *(show(role) for role in roles)] for name, show in ROWS]
    cells = [row for row in cells if any(cell not in ("", "-") for cell in row[1:])]
    cells.insert(0, [f"capacity ({capacity.engine} {capacity.release})", *(r.role for r in roles)])
    widths = [max(len(row[column]) for row in cells) for column in range(len(roles) + 1)]
    for row in cells:
        padded = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *padded])
    for role in roles:
        yield from (f"  unknown for {role.role}: {text}" for text in role.unknown)
    yield from (f"  {note}" for note in dict.fromkeys(note for r in roles for note in r.notes))


def _gib(value: int | None) -> str:
    return UNKNOWN if value is None else _size(value / GIB, 1)


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _spread(value: Spread | None, digits: int) -> str:
    if value is None:
        return UNKNOWN
    return f"{value.low:,.0f} / {value.mean:,.{digits}f} / {value.high:,.0f}"


def _size(value: float, digits: int) -> str:
    """Small sizes with more digits, so that tiny models show something."""
    return f"{value:.{digits}f}" if value >= 10 or value <= 0 else f"{value:.3g}"


def _states(role: RoleCapacity) -> str:
    dtypes = "" if role.state_dtypes is None else ", ".join(role.state_dtypes)
    return dtypes or "-"


def _state_mib(role: RoleCapacity) -> str:
    return "-" if role.state_bytes is None else _size(role.state_bytes / MIB, 1)


def _memory(role: RoleCapacity) -> str:
    if role.memory_bytes is None or role.utilization is None:
        return "-"
    return f"{role.memory_bytes / GIB:g} x {role.utilization:g}"


def _times(role: RoleCapacity) -> str:
    if role.max_concurrency is None or role.max_model_len is None:
        return UNKNOWN
    return f"{role.max_concurrency:.2f}x of {role.max_model_len:,}"


def _moved(role: RoleCapacity) -> str:
    if role.moved_bytes is None:
        return "-"
    spread = role.moved_bytes
    return " / ".join(_size(value / 1e6, 0) for value in (spread.low, spread.mean, spread.high))


ROWS: tuple[Row, ...] = (
    ("GPU memory, GiB x utilization", _memory),
    ("  weights, GiB", lambda role: "-" if role.memory_bytes is None else _gib(role.weights_bytes)),
    (
        "  kept for activations and graphs, GiB",
        lambda role: "-" if role.reserve_bytes is None else _gib(role.reserve_bytes),
    ),
    ("  KV pool, GiB", lambda role: _gib(role.pool_bytes)),
    ("KV dtype", lambda role: role.kv_dtype or UNKNOWN),
    ("state dtypes (convolution, recurrent)", _states),
    ("KV bytes a token, all layers", lambda role: _count(role.kv_bytes_per_token)),
    ("state of a sequence, MiB", _state_mib),
    ("attention block, tokens", lambda role: _count(role.block_tokens)),
    (
        "one block id, MiB",
        lambda role: UNKNOWN if role.block_bytes is None else _size(role.block_bytes / MIB, 2),
    ),
    ("block ids", lambda role: _count(role.blocks)),
    ("KV cache size, tokens", lambda role: _count(role.kv_cache_tokens)),
    ("maximum concurrency, as vLLM logs it", _times),
    ("max-num-seqs", lambda role: _count(role.max_num_seqs)),
    ("ids a request, short / mean / long", lambda role: _spread(role.blocks_per_request, 2)),
    ("running on a rank, short / mean / long", lambda role: _spread(role.running_per_rank, 0)),
    ("ranks", lambda role: _count(role.ranks)),
    ("running on all ranks", lambda role: _spread(role.running, 0)),
    ("MB moved a request, short / mean / long", _moved),
)
