"""Prefill and decode that do not fit each other, or a connector used against its grain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import RoleView, View
from launcher.options.values import plain_text

HASH = "vLLM 0.33.0 distributed/kv_transfer/kv_connector/v1/nixl/metadata.py, compatibility hash"
WORKER = "vLLM 0.33.0 distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py"


SAME_DTYPE = {"half": "float16", "float": "float32"}
"""vLLM 0.33.0 config/model.py:2317, _STR_DTYPE_TO_TORCH_DTYPE."""


def _effective(view: View, role: RoleView, flag: str) -> Any:
    """A flag's value as text, `auto` as the model has it, mappings as they are."""
    value = role.flags.get(flag, "auto")
    if isinstance(value, Mapping):
        return value
    value = plain_text(value)
    if flag == "mamba-ssm-cache-dtype" and value == "auto":
        return view.facts.ssm_dtype or "auto"
    if flag in ("dtype", "mamba-cache-dtype"):
        value = SAME_DTYPE.get(value, value)
        if flag == "mamba-cache-dtype" and value == "auto":
            return _effective(view, role, "dtype")
        return (view.facts.dtype or "auto") if value == "auto" else value
    return value


def _differs(flag: str, why: str) -> Any:
    """A check that both roles have the same effective value of a flag."""

    def check(view: View) -> Iterator[str]:
        if view.pair is None:
            return
        prefill, decode = view.pair
        ours, theirs = _effective(view, prefill, flag), _effective(view, decode, flag)
        if ours != theirs:
            told = prefill if flag in prefill.flags else decode
            yield f"{told.at(flag)}: prefill has {ours}, decode has {theirs}: {why}"

    return check


def _equal(flag: str, value: str, why: str, reference: str) -> KnownBad:
    return KnownBad(
        name=f"{flag}-differs",
        level="error",
        check=_differs(flag, why),
        remedy=f"give both roles the same value in flags.all.{flag}",
        reference=reference,
        example=(f"+flags.roles.prefill.{flag}={value}",),
        near_miss=(f"++flags.all.{flag}={value}",),
    )


def _role_swapped(view: View) -> Iterator[str]:
    wrong = {"prefill": "kv_consumer", "decode": "kv_producer"}
    for role in view.pair or ():
        if role.transfer.get("kv_role") == wrong[role.name]:
            yield (
                f"{role.at('kv-transfer-config.kv_role', role.transfer['kv_role'])}: "
                f"the {role.name} role would {'receive' if role.name == 'prefill' else 'send'} KV"
            )


def _no_connector(view: View) -> Iterator[str]:
    for role in view.pair or ():
        written = role.flags.get("kv-transfer-config")
        no_form = not isinstance(written, Mapping) and written not in (None, "", "None")
        if not (role.transfer.get("kv_connector") or no_form):  # a wrong form is told elsewhere
            yield (
                f"{role.at('kv-transfer-config')}: prefill and decode are apart and {role.name} "
                "has no KV connector"
            )


def _no_role(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if role.transfer.get("kv_connector") and not role.transfer.get("kv_role"):
            yield f"{role.at('kv-transfer-config')}: names a connector but no kv_role"


def _kv_both(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if role.transfer.get("kv_role") == "kv_both":
            yield (
                f"{role.at('kv-transfer-config.kv_role', 'kv_both')}: deprecated with NIXL, and "
                "arms deferred block freeing on prefill too"
            )


def _connector_differs(view: View) -> Iterator[str]:
    if view.pair is None:
        return
    names = [str(role.transfer.get("kv_connector")) for role in view.pair]
    names = [name.replace("NixlPullConnector", "NixlConnector") for name in names]
    if names[0] != names[1] and "None" not in names:
        role = view.pair[0]
        yield (
            f"{role.at('kv-transfer-config.kv_connector', names[0])}: decode has {names[1]}: pull "
            "and push do not understand each other"
        )


def _recompute(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if role.transfer.get("kv_load_failure_policy") == "recompute":
            yield (
                f"{role.at('kv-transfer-config.kv_load_failure_policy', 'recompute')}: decode "
                "computes the prompt itself where a transfer fails, so the figures hide failures"
            )


def _no_handshake(view: View) -> Iterator[str]:
    for role in view.pair or ():
        extra = role.nested("kv-transfer-config", "kv_connector_extra_config")
        if isinstance(extra, dict) and extra.get("enforce_handshake_compat") is False:
            yield (
                f"{role.at('kv-transfer-config.kv_connector_extra_config')}: without the check, "
                "roles that do not fit exchange bytes all the same"
            )


def _host_buffer(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if view.cuda and role.transfer.get("kv_buffer_device") == "cpu":
            yield (
                f"{role.at('kv-transfer-config.kv_buffer_device', 'cpu')}: KV goes through host "
                "memory on its way between GPUs"
            )


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


def _routed_experts(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if role.flags.get("enable-return-routed-experts") is True:
            yield f"{role.at('enable-return-routed-experts')}: refused with NIXL connectors"


def _expandable(view: View) -> Iterator[str]:
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if "expandable_segments:true" not in view.env.get(name, "").lower():
            continue
        for role in view.roles.values():
            if role.transfer and role.flags.get("enable-cumem-allocator") is not True:
                yield f"{view.at_env(name)}: moves memory under the connector's registrations"
                return


ENTRIES = (
    _equal("block-size", "64", "the hand-over fails in every request", "vllm#42895"),
    KnownBad(
        name="kv-cache-dtype-differs",
        level="error",
        check=_differs("kv-cache-dtype", "the handshake refuses it"),
        remedy="give both roles the same value in flags.all.kv-cache-dtype",
        reference=HASH,
        example=("+flags.roles.decode.kv-cache-dtype=bfloat16",),
        near_miss=("flags.all.kv-cache-dtype=bfloat16",),
    ),
    _equal(
        "mamba-ssm-cache-dtype",
        "float32",
        "the handshake does not compare it, so decode would read wrong bytes without an error",
        f"{WORKER}, _build_mamba_remote",
    ),
    _equal(
        "mamba-cache-dtype",
        "float16",
        "the handshake does not compare it, so decode would read wrong bytes without an error",
        f"{WORKER}, _build_mamba_remote",
    ),
    _equal("dtype", "float16", "the handshake refuses it", HASH),
    _equal("quantization", "fp8", "both must hold the same model", HASH),
    _equal("attention-backend", "FLASH_ATTN", "the handshake refuses it", HASH),
    _equal("revision", "main", "both must hold the same model", HASH),
    KnownBad(
        name="speculative-config-differs",
        level="error",
        check=_differs("speculative-config", "the draft layers' KV is part of the hand-over"),
        remedy="give both roles the same flags.all.speculative-config",
        reference=HASH,
        example=("+flags.roles.decode.speculative-config={method:mtp,num_speculative_tokens:1}",),
        near_miss=("+flags.all.speculative-config={method:mtp,num_speculative_tokens:1}",),
    ),
    KnownBad(
        name="kv-role-swapped",
        level="error",
        check=_role_swapped,
        remedy="prefill is kv_producer, decode is kv_consumer",
        reference="vLLM docs/features/nixl_connector_usage.md",
        example=("flags.roles.prefill.kv-transfer-config.kv_role=kv_consumer",),
        near_miss=("flags.roles.prefill.kv-transfer-config.kv_role=kv_producer",),
    ),
    KnownBad(
        name="no-connector",
        level="error",
        check=_no_connector,
        remedy="set kv-transfer-config (kv_connector: NixlConnector) on both roles",
        reference="vLLM docs/features/disagg_prefill.md",
        example=("+topology.roles.decode.flags.kv-transfer-config=null",),
        near_miss=("topology=dep8_aggregated",),
    ),
    KnownBad(
        name="no-kv-role",
        level="error",
        check=_no_role,
        remedy="add kv_role: kv_producer on prefill, kv_consumer on decode",
        reference="vLLM 0.33.0 config/kv_transfer.py, __post_init__",
        example=("flags.roles.prefill.kv-transfer-config.kv_role=null",),
        near_miss=("flags.roles.prefill.kv-transfer-config.kv_role=kv_producer",),
    ),
    KnownBad(
        name="kv-both",
        level="warning",
        since="0.23.0",
        check=_kv_both,
        remedy="use kv_producer on prefill and kv_consumer on decode",
        reference="vLLM 0.33.0 distributed/kv_transfer/kv_connector/v1/nixl/connector.py:97",
        example=("flags.roles.prefill.kv-transfer-config.kv_role=kv_both",),
        near_miss=(
            "flags.roles.prefill.kv-transfer-config.kv_role=kv_both",
            "engine.release=0.22.0",
        ),
    ),
    KnownBad(
        name="connector-differs",
        level="error",
        check=_connector_differs,
        remedy="name one connector in flags.all.kv-transfer-config",
        reference=f"{HASH} (version 7: transfer mode)",
        example=("+flags.roles.prefill.kv-transfer-config.kv_connector=NixlPushConnector",),
        near_miss=("flags.all.kv-transfer-config.kv_connector=NixlPushConnector",),
    ),
    KnownBad(
        name="load-failure-recompute",
        level="warning",
        check=_recompute,
        remedy="use kv_load_failure_policy: fail for measurements",
        reference="vLLM 0.33.0 config/kv_transfer.py; vllm#27083",
        example=("flags.all.kv-transfer-config.kv_load_failure_policy=recompute",),
        near_miss=("flags.all.kv-transfer-config.kv_load_failure_policy=fail",),
    ),
    KnownBad(
        name="handshake-not-enforced",
        level="warning",
        check=_no_handshake,
        remedy="leave enforce_handshake_compat at its default, true",
        reference=WORKER,
        example=(
            "+flags.all.kv-transfer-config.kv_connector_extra_config="
            "{enforce_handshake_compat:false}",
        ),
        near_miss=(
            "+flags.all.kv-transfer-config.kv_connector_extra_config="
            "{enforce_handshake_compat:true}",
        ),
    ),
    KnownBad(
        name="kv-through-host-memory",
        level="warning",
        check=_host_buffer,
        remedy="leave kv_buffer_device out, or set cuda",
        reference="vLLM docs/features/nixl_connector_usage.md",
        example=("+flags.all.kv-transfer-config.kv_buffer_device=cpu",),
        near_miss=("+flags.all.kv-transfer-config.kv_buffer_device=cuda",),
    ),
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
    KnownBad(
        name="routed-experts-over-nixl",
        level="error",
        check=_routed_experts,
        remedy="leave the flag out",
        reference="vLLM 0.33.0 config/vllm.py:1231",
        example=("+flags.all.enable-return-routed-experts=true",),
        near_miss=("+flags.all.enable-return-routed-experts=false",),
    ),
    KnownBad(
        name="expandable-segments",
        level="error",
        check=_expandable,
        remedy="unset it, or set flags.all.enable-cumem-allocator=true",
        reference="vLLM 0.33.0 config/vllm.py, _verify_kv_transfer_compat; vllm#40812",
        example=("+flags.env.PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'",),
        near_miss=(
            "+flags.env.PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'",
            "+flags.all.enable-cumem-allocator=true",
        ),
    ),
)
