"""What the workload's requests take: block ids, sequences at once, bytes moved."""

from __future__ import annotations

from launcher.capacity import Spread
from launcher.engines.vllm_memory.layout import CacheLayout
from launcher.engines.vllm_memory.pool import NULL_BLOCKS, Pool
from launcher.plan import Endpoint, Point

MAX_STEPS = 4096


def blocks_per_request(layout: CacheLayout, role: str, point: Point) -> Spread:
    """Block ids of a running request: the shortest's and the longest's largest number, and the
    average over a steady stream.

    A prefill holds its prompt. A decode or aggregated request grows from its prompt to prompt and
    answer; the average is over lengths drawn uniformly from the point's ranges and over the time
    a request runs (one step a token), so long answers weigh more.
    """
    (shortest, longest), (least, most) = point.input_range, point.output_range
    if role == "prefill":
        least = most = 0
    return Spread(
        low=layout.ids(shortest + least),
        mean=_mean_ids(layout, point.input_range, (least, most)),
        high=layout.ids(longest + most),
    )


def _mean_ids(layout: CacheLayout, inputs: tuple[int, int], outputs: tuple[int, int]) -> float:
    """Ids averaged over prompts and over steps 1..answer; more than 4096 steps are sampled."""
    least, most = outputs
    stride = max(1, most // MAX_STEPS)
    total = weight = 0.0
    for step in range(0 if most == 0 else 1, most + 1, stride):
        running = 1.0 if step <= least else (most - step + 1) / (most - least + 1)
        total += running * _mean_blocks(inputs[0] + step, inputs[1] + step, layout.block_tokens)
        weight += running
    return layout.attention_groups * total / weight + layout.state_ids


def _mean_blocks(low: int, high: int, block: int) -> float:
    """Average of ceil(n / block) over n in low..high."""

    def up_to(number: int) -> int:
        full, rest = divmod(number, block)
        return block * full * (full + 1) // 2 + rest * (full + 1)

    return (up_to(high) - up_to(low - 1)) / (high - low + 1)


def running_per_rank(pool: Pool, ids: Spread, max_num_seqs: int | None) -> Spread:
    """Sequences one rank runs at once: by block ids, and never more than max-num-seqs.

    `low` is where every request is at its shortest, so it is the largest number.
    """
    usable = max(0, pool.blocks - NULL_BLOCKS)

    def fits(each: float) -> int:
        by_blocks = int(usable // each)
        return by_blocks if max_num_seqs is None else min(by_blocks, max_num_seqs)

    return Spread(low=fits(ids.low), mean=fits(ids.mean), high=fits(ids.high))


def moved_bytes(layout: CacheLayout, endpoint: Endpoint, point: Point) -> Spread:
    """Bytes of one prompt that NIXL moves, over the GPUs of a rank: whole attention blocks, as
    the tail of the last one is not left out, and the states without their padding.

    distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py _logical_to_kernel_block_ids.
    """
    low, high = point.input_range
    states = layout.gdn_layers * layout.state_bytes
    page = layout.attention_layers * layout.page_bytes

    def moved(blocks: float) -> float:
        return (blocks * page + states) * endpoint.tp

    return Spread(
        low=moved(-(-low // layout.block_tokens)),
        mean=moved(_mean_blocks(low, high, layout.block_tokens)),
        high=moved(-(-high // layout.block_tokens)),
    )
