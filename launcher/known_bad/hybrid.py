"""Hybrid models (GDN, Mamba): state layout, races, kernels, cache settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import View

LAYOUT = "VLLM_SSM_CONV_STATE_LAYOUT"
OLD_CUDA = re.compile(r"cu(?:da)?[-_]?1[0-2](?:\d|\.|\b)", re.IGNORECASE)
"""cu129, cu12.8, cuda12: the way image tags name CUDA 12 and older."""


def _layout(view: View) -> Iterator[str]:
    if view.hybrid and view.disaggregated and view.env.get(LAYOUT) != "DS":
        yield f"{view.at_env(LAYOUT)}: a hybrid model's state crosses NIXL in layout DS only"


def _no_hybrid_manager(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if view.hybrid and role.flags.get("disable-hybrid-kv-cache-manager") is True:
            yield (
                f"{role.at('disable-hybrid-kv-cache-manager')}: NIXL moves a hybrid model's state "
                "only with the hybrid cache manager"
            )
            return


def _async(view: View) -> Iterator[str]:
    """Async scheduling is on unless a flag says no."""
    if view.pair is not None and view.pair[1].flags.get("async-scheduling") is not False:
        yield (
            f"engine.release={view.config.engine.release}: decode schedules asynchronously (the "
            "default where no flag says otherwise) and blocks are given away before the steps "
            "that use them end: wrong text without an error"
        )


def _async_hybrid(view: View) -> Iterator[str]:
    if not view.hybrid or view.pair is None:
        return
    if any(role.flags.get("async-scheduling") is not False for role in view.pair):
        yield (
            f"engine.release={view.config.engine.release}: with asynchronous scheduling (the "
            "default where no flag says otherwise) blocks are zeroed after KV has arrived in "
            "them: wrong text without an error"
        )


def _speculation_align(view: View) -> Iterator[str]:
    for role in view.roles.values():
        aligned = role.flags.get("mamba-cache-mode") == "align"
        drafting = view.env.get(LAYOUT) == "DS" and role.flags.get("speculative-config")
        if view.hybrid and aligned and drafting:
            yield f"{role.at('mamba-cache-mode')}: speculative decoding with it lacks layout DS"
            return


def _gdn_auto(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if role.flags.get("gdn-prefill-backend") == "auto":
            yield f"{role.at('gdn-prefill-backend')}: the command line has no auto"
            return


def _old_cuda(view: View) -> Iterator[str]:
    image = view.config.cluster.container.image or ""
    if view.cuda and view.hybrid and OLD_CUDA.search(image):
        yield (
            f"cluster.container.image={image}: looks like CUDA 12 or older, where the FlashInfer "
            "GDN prefill kernel is silently replaced by Triton's"
        )


def _no_kernel(view: View) -> Iterator[str]:
    if view.cuda and view.hybrid:
        yield (
            f"engine.release={view.config.engine.release}: has no FlashInfer GDN prefill kernel "
            "for Blackwell"
        )


def _head_dim(view: View) -> Iterator[str]:
    size = view.facts.gdn_head_dim
    for role in view.roles.values():
        wanted = role.flags.get("gdn-prefill-backend") == "flashinfer"
        if view.cuda and wanted and size not in (None, 128):
            yield (
                f"{role.at('gdn-prefill-backend')}: the kernel takes head dimension 128, the model "
                f"has {size}; Triton's is used silently"
            )
            return


def _mamba_block(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if "mamba-block-size" in role.flags and not role.flags.get("enable-prefix-caching"):
            yield f"{role.at('mamba-block-size')}: taken only with prefix caching"
            return


def _prefix_default(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if view.hybrid and "enable-prefix-caching" not in role.flags:
            yield (
                f"{role.at('enable-prefix-caching')}: on by default for hybrid models since "
                "0.28.0, off before"
            )
            return


def _mm_encoder(view: View) -> Iterator[str]:
    for role in view.roles.values():
        graphs = role.nested("compilation-config", "cudagraph_mm_encoder")
        if graphs is True and role.flags.get("language-model-only") is True:
            yield f"{role.at('language-model-only')}: no encoder is there for cudagraph_mm_encoder"
            return


def _kv_dtype_unset(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if view.cuda and str(role.flags.get("kv-cache-dtype", "auto")) == "auto":
            yield (
                f"{role.at('kv-cache-dtype')}: left to what the checkpoint declares, which decides "
                "how many requests fit"
            )
            return


def _gdn_on_cpu(view: View) -> Iterator[str]:
    for role in view.roles.values():
        dtype = str(role.flags.get("dtype", "auto"))
        effective = (view.facts.dtype or "bfloat16") if dtype == "auto" else dtype
        if view.config.engine.device == "cpu" and view.facts.gdn_layers and effective != "bfloat16":
            yield f"{role.at('dtype')}: the GDN kernel for CPUs takes bfloat16 only"
            return


def _gdn_config(view: View) -> Iterator[str]:
    for role in view.roles.values():
        extra = role.flags.get("additional-config")
        named = isinstance(extra, Mapping) and "gdn_prefill_backend" in extra
        if named and "gdn-prefill-backend" in role.flags:
            yield f"{role.at('gdn-prefill-backend')}: additional-config names a backend as well"
            return


ENTRIES = (
    KnownBad(
        name="gdn-on-cpu",
        level="error",
        check=_gdn_on_cpu,
        remedy="flags.all.dtype=bfloat16, slow though it is without AVX-512",
        reference="vLLM 0.32.0 model_executor/layers/mamba/ops/cpu/gdn_attention.py:158",
        example=("experiment=demo_hybrid", "flags.all.dtype=float32"),
        near_miss=("experiment=demo_hybrid",),
    ),
    KnownBad(
        name="hybrid-state-layout",
        level="error",
        check=_layout,
        remedy=f"set model.env.{LAYOUT}=DS, for both roles",
        reference="vLLM 0.33.0 .../nixl/base_worker.py:705; vllm#37416",
        example=(f"model.env.{LAYOUT}=SD",),
        near_miss=(f"model.env.{LAYOUT}=SD", "topology=dep8_aggregated"),
    ),
    KnownBad(
        name="hybrid-cache-manager-off",
        level="error",
        check=_no_hybrid_manager,
        remedy="leave it out, or set it to false",
        reference="vLLM 0.33.0 .../nixl/base_worker.py:700; vllm#35758",
        example=("flags.all.disable-hybrid-kv-cache-manager=true",),
        near_miss=("flags.all.disable-hybrid-kv-cache-manager=true", "topology=dep8_aggregated"),
    ),
    KnownBad(
        name="async-scheduling-frees-early",
        level="error",
        before="0.24.0",
        check=_async,
        remedy="use 0.26.0 or later, or flags.all.async-scheduling=false",
        reference="vllm#45357, vllm#37285",
        example=("engine.release=0.23.0",),
        near_miss=("engine.release=0.24.0",),
    ),
    KnownBad(
        name="async-scheduling-zeroes-late",
        level="error",
        before="0.26.0",
        check=_async_hybrid,
        remedy="use 0.26.0 or later, or flags.all.async-scheduling=false",
        reference="vllm#48481, vllm#42182",
        example=("engine.release=0.25.0", "flags.all.async-scheduling=null"),
        near_miss=("engine.release=0.25.0", "flags.all.async-scheduling=false"),
    ),
    KnownBad(
        name="speculation-with-align",
        level="warning",
        check=_speculation_align,
        remedy="use another mamba-cache-mode, or no speculative-config",
        reference="vllm#58034",
        example=(
            "+flags.all.mamba-cache-mode=align",
            "+flags.all.speculative-config={method:mtp,num_speculative_tokens:1}",
        ),
        near_miss=(
            "+flags.all.mamba-cache-mode=none",
            "+flags.all.speculative-config={method:mtp,num_speculative_tokens:1}",
        ),
    ),
    KnownBad(
        name="gdn-backend-auto",
        level="error",
        check=_gdn_auto,
        remedy="leave the flag out for the automatic choice, or name flashinfer, triton or cutedsl",
        reference="vLLM 0.33.0 engine/arg_utils.py:1948",
        example=("+flags.all.gdn-prefill-backend=auto",),
        near_miss=("+flags.all.gdn-prefill-backend=flashinfer",),
    ),
    KnownBad(
        name="gdn-backend-twice",
        level="warning",
        check=_gdn_config,
        remedy="name it once",
        reference="vLLM 0.33.0 engine/arg_utils.py, additional_config",
        example=(
            "+flags.all.gdn-prefill-backend=flashinfer",
            "+flags.all.additional-config={gdn_prefill_backend:triton}",
        ),
        near_miss=("+flags.all.additional-config={gdn_prefill_backend:triton}",),
    ),
    KnownBad(
        name="gdn-kernel-needs-cuda-13",
        level="warning",
        check=_old_cuda,
        remedy="use an image of CUDA 13",
        reference="vllm#40717; vLLM 0.33.0 model_executor/layers/mamba/gdn/"
        "qwen_gdn_linear_attn.py:148",
        example=(
            "cluster.container.kind=pyxis",
            "cluster.container.image=vllm/vllm-openai:v0.33.0-cu129",
        ),
        near_miss=(
            "cluster.container.kind=pyxis",
            "cluster.container.image=vllm/vllm-openai:v0.33.0-cu130",
        ),
    ),
    KnownBad(
        name="gdn-kernel-missing",
        level="warning",
        before="0.22.0",
        check=_no_kernel,
        remedy="use 0.26.0 or later",
        reference="vllm#40717, flashinfer#3001",
        example=("engine.release=0.21.0",),
        near_miss=("engine.release=0.22.0",),
    ),
    KnownBad(
        name="gdn-kernel-head-dimension",
        level="warning",
        check=_head_dim,
        remedy="leave the flag out",
        reference="vLLM 0.33.0 model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py:148",
        example=("flags=article_gdn", "model.facts.gdn_head_dim=64"),
        near_miss=("flags=article_gdn",),
    ),
    KnownBad(
        name="mamba-block-without-caching",
        level="error",
        check=_mamba_block,
        remedy="leave it out, or set flags.all.enable-prefix-caching=true",
        reference="vLLM 0.33.0 config/vllm.py:3448",
        example=("+flags.all.mamba-block-size=1024",),
        near_miss=("+flags.all.mamba-block-size=1024", "flags.all.enable-prefix-caching=true"),
    ),
    KnownBad(
        name="prefix-caching-left-to-the-default",
        level="warning",
        since="0.28.0",
        check=_prefix_default,
        remedy="set flags.all.enable-prefix-caching to false (or true), so that one config means "
        "one run",
        reference="vllm#50991",
        example=("flags.all.enable-prefix-caching=null",),
        near_miss=("flags.all.enable-prefix-caching=null", "engine.release=0.27.1"),
    ),
    KnownBad(
        name="text-only-with-encoder-graphs",
        level="error",
        check=_mm_encoder,
        remedy="remove one of them",
        reference="vLLM 0.33.0 config/vllm.py:1555",
        example=("+flags.all.compilation-config={cudagraph_mm_encoder:true}",),
        near_miss=("+flags.all.compilation-config={cudagraph_mm_encoder:false}",),
    ),
    KnownBad(
        name="kv-dtype-left-to-the-checkpoint",
        level="warning",
        check=_kv_dtype_unset,
        remedy="set flags.all.kv-cache-dtype, as in fp8",
        reference="vLLM 0.33.0 utils/torch_utils.py:443; vLLM recipes Qwen3.5-397B-A17B.yaml",
        example=("flags.all.kv-cache-dtype=auto",),
        near_miss=("flags.all.kv-cache-dtype=fp8",),
    ),
)
