"""Variable-size all-gather and reduce-scatter over gloo for vLLM's CPU communicator."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from vllm.distributed.device_communicators.base_device_communicator import DeviceCommunicatorBase
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


def install() -> None:
    """Give the CPU communicator both calls, unless this build already has its own."""
    if CpuCommunicator.all_gatherv is not DeviceCommunicatorBase.all_gatherv:
        return
    CpuCommunicator.all_gatherv = all_gatherv
    CpuCommunicator.reduce_scatterv = reduce_scatterv


def all_gatherv(self: Any, input_: Any, dim: int = 0, sizes: list[int] | None = None) -> Any:
    """Every rank's rows one after another; `sizes` are the rows per rank, equal when None."""
    if isinstance(input_, list | tuple):
        return [all_gatherv(self, part, dim, sizes) for part in input_]
    if dim not in (0, -input_.dim()):
        raise NotImplementedError(f"all_gatherv on dim {dim}: only dim 0 is written for CPU")
    rows = input_.shape[0]
    sizes = sizes or [rows] * self.world_size
    padded = input_.new_zeros((max(sizes), *input_.shape[1:]))
    padded[:rows] = input_
    parts = [torch.empty_like(padded) for _ in range(self.world_size)]
    dist.all_gather(parts, padded, group=self.device_group)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


def reduce_scatterv(self: Any, input_: Any, dim: int = -1, sizes: list[int] | None = None) -> Any:
    """This rank's rows of the sum over ranks, summed in float32."""
    if dim not in (0, -input_.dim()):
        raise NotImplementedError(f"reduce_scatterv on dim {dim}: only dim 0 is written for CPU")
    sizes = sizes or [input_.shape[0] // self.world_size] * self.world_size
    total = input_.float().contiguous()
    dist.all_reduce(total, group=self.device_group)
    start = sum(sizes[: self.rank_in_group])
    return total[start : start + sizes[self.rank_in_group]].to(input_.dtype).contiguous()
