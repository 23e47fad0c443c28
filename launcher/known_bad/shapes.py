"""Prefill and decode cut in ways that the hand-over of KV does not bridge."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.known_bad.entry import WORKER, KnownBad
from launcher.known_bad.view import View


def _tp_ratio(view: View) -> Iterator[str]:
    if view.pair is None:
        return
    tps = [role.shape.tp for role in view.pair]
    if min(tps) > 0 and max(tps) % min(tps):
        yield (
            f"topology.roles.decode.tp={tps[1]}: prefill has tp {tps[0]}, and neither divides the "
            "other, so heads cannot be shared out"
        )


def _tp_differs_hybrid(view: View) -> Iterator[str]:
    if view.pair is None or not view.hybrid:
        return
    tps = [role.shape.tp for role in view.pair]
    sizes = [role.flags.get("block-size") for role in view.pair]
    if tps[0] != tps[1] and (sizes[0] != sizes[1] or None in sizes):
        yield (
            f"topology.roles.decode.tp={tps[1]}: prefill has tp {tps[0]}: each role works out an "
            "attention block size of its own for a hybrid model, and unequal ones fail in every "
            "hand-over while /health stays 200"
        )


def _tp_differs_caching(view: View) -> Iterator[str]:
    if view.pair is None or not view.hybrid:
        return
    tps = [role.shape.tp for role in view.pair]
    caching = [role for role in view.pair if role.flags.get("enable-prefix-caching") is True]
    if tps[0] != tps[1] and caching:
        yield (
            f"{caching[0].at('enable-prefix-caching')}: with tp {tps[0]} and {tps[1]} a block has "
            "differing physical parts, which prefix caching refuses in the hand-over"
        )


def _tp_differs_nvfp4(view: View) -> Iterator[str]:
    if view.pair is None:
        return
    tps = [role.shape.tp for role in view.pair]
    for role in view.pair:
        if tps[0] != tps[1] and "nvfp4" in str(role.flags.get("kv-cache-dtype", "")):
            yield f"{role.at('kv-cache-dtype')}: NVFP4 pages cannot be cut into heads of another tp"
            return


def _pipeline(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if role.shape.pp > 1 and (view.hybrid or role.name == "decode"):
            why = "a hybrid model" if view.hybrid else "the decode role"
            yield f"topology.roles.{role.name}.pp={role.shape.pp}: NIXL has no pipeline for {why}"


ENTRIES = (
    KnownBad(
        name="tp-neither-divides",
        level="error",
        check=_tp_ratio,
        remedy="choose sizes of which one divides the other, best equal ones",
        reference="vLLM 0.33.0 distributed/kv_transfer/kv_connector/utils.py, TpKVTopology",
        example=(
            *("topology.roles.prefill.tp=2", "topology.roles.decode.tp=3"),
            *("topology.roles.decode.dp=1", "cluster.gpus_per_node=12"),
        ),
        near_miss=(
            *("topology.roles.prefill.tp=2", "topology.roles.decode.tp=4"),
            *("topology.roles.decode.dp=1", "+flags.all.block-size=64"),
        ),
    ),
    KnownBad(
        name="tp-differs-hybrid",
        level="warning",
        check=_tp_differs_hybrid,
        remedy="keep tp equal, or set the same flags.all.block-size for both roles",
        reference="vllm#42895, vllm#42898",
        example=("topology.roles.prefill.tp=2",),
        near_miss=("topology.roles.prefill.tp=2", "+flags.all.block-size=64"),
    ),
    KnownBad(
        name="tp-differs-prefix-caching",
        level="error",
        check=_tp_differs_caching,
        remedy="keep tp equal, or set flags.all.enable-prefix-caching=false",
        reference=WORKER,
        example=("topology.roles.prefill.tp=2", "flags.all.enable-prefix-caching=true"),
        near_miss=("topology.roles.prefill.tp=2",),
    ),
    KnownBad(
        name="tp-differs-nvfp4-kv",
        level="error",
        check=_tp_differs_nvfp4,
        remedy="keep tp equal, or use fp8",
        reference=f"{WORKER}:2862",
        example=("topology.roles.prefill.tp=2", "flags.all.kv-cache-dtype=nvfp4"),
        near_miss=("topology.roles.prefill.tp=2", "flags.all.kv-cache-dtype=fp8"),
    ),
    KnownBad(
        name="pipeline-over-nixl",
        level="error",
        check=_pipeline,
        remedy="set pp to 1",
        reference=f"{WORKER}:870",
        example=("topology.roles.decode.pp=2", "topology.roles.decode.dp=4"),
        near_miss=("topology=dep8_aggregated", "topology.roles.aggregated.pp=2"),
    ),
)
