"""Flags, variables, kv-transfer-config and router flags against the releases' own tables."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import pytest
import yaml

from launcher.composing import CONF_DIR, GROUPS
from launcher.engines.vllm import OWNED_FLAGS
from launcher.engines.vllm_checks import table_advice, table_problems
from launcher.limits import OWNED_ROUTER
from launcher.options.router import router_problems
from launcher.options.table import Table, vllm_table
from launcher.options.values import refusal
from launcher.schema import LaunchConfig
from launcher.validate import find
from tests.compose import config_of
from tests.launching import launcher

RELEASES = vllm_table("0.33.0").releases
KV = "flags.all.kv-transfer-config"
EXTRA = f"{KV}.kv_connector_extra_config"

REFUSED = {
    "misspelt": (["+flags.all.max-num-seq=3"], "no flag --max-num-seq; did you mean max-num-seqs?"),
    "misspelt in underscores": (
        ["+flags.all.max_num_batched_token=3"],
        "flags.all.max_num_batched_token=3: vLLM 0.33.0 has no flag --max-num-batched-token; did "
        "you mean max-num-batched-tokens?",
    ),
    "misspelt for one role": (
        ["+flags.roles.decode.enforce-eagr=true"],
        "flags.roles.decode.enforce-eagr=True",
    ),
    "misspelt in the engine's layer": (["+engine.flags.kv-cache-dtyp=fp8"], "engine.flags.kv-ca"),
    "misspelt in the model's layer": (["+model.flags.dtyp=auto"], "model.flags.dtyp='auto'"),
    "misspelt in the topology": (
        ["+topology.roles.prefill.flags.enable-eplbb=true"],
        "topology.roles.prefill.flags.enable-eplbb=True",
    ),
    "misspelt for a role not started here": (
        ["+flags.roles.aggregated.max-num-sqs=3"],
        "did you mean max-num-seqs?",
    ),
    "misspelt and taken away": (["+flags.all.max-num-sqs=null"], "flags.all.max-num-sqs=null"),
    "newer than the release": (
        ["engine.release=0.26.0", "+flags.all.logging-config={}"],
        "vLLM 0.26.0 has no flag --logging-config: not there yet",
    ),
    "dropped": (
        ["+flags.all.max-num-partial-prefills=2"],
        "no flag --max-num-partial-prefills: dropped in 0.27.0 (had by 0.26.0)",
    ),
    "dropped before the first table": (
        ["+flags.all.disable-frontend-multiprocessing=true"],
        "dropped after 0.18.1",
    ),
    "wrong choice": (
        ["flags.all.mamba-ssm-cache-dtype=bfloat61"],
        "allowed: auto, bfloat16, float16, float32; did you mean bfloat16?",
    ),
    "a dtype near a known one": (["flags.all.kv-cache-dtype=fp9"], "did you mean fp8?"),
    "a choice in capitals": (["+flags.all.dtype=BFLOAT16"], "did you mean bfloat16?"),
    "choice of a newer release": (
        ["engine.release=0.26.0", "+flags.all.gdn-prefill-backend=sycl"],
        "allowed: flashinfer, triton, cutedsl",
    ),
    "text for a number": (["+flags.all.max-num-seqs=many"], "allowed: a whole number"),
    "fraction for a whole number": (["+flags.all.max-num-seqs=2.5"], "allowed: a whole number"),
    "text for a fraction": (["flags.all.gpu-memory-utilization=90%"], "allowed: a number"),
    "YAML's boolean as text": (["+flags.all.uvicorn-log-level=false"], "no switch"),
    "switch given text": (
        ["flags.all.enable-prefix-caching='false'"],
        "allowed: true or false without quotes",
    ),
    "switch given a number": (["flags.all.async-scheduling=1"], "allowed: true or false"),
    "switch without an off": (
        ["+flags.all.aggregate-engine-logging=false"],
        "allowed: true; it has no --no- form",
    ),
    "no- before a number": (["+flags.all.no-max-num-seqs=true"], "is no switch"),
    "list for one value": (["+flags.all.max-num-seqs=[1,2]"], "one value and no list"),
    "a short form": (["+flags.all.asc=1"], "short form of api-server-count"),
    "one flag by two names": (
        ["+flags.roles.prefill.device-memory-utilization=0.9"],
        "the same flag as flags.all.gpu-memory-utilization=0.92",
    ),
    "one flag by two spellings": (
        ["+flags.all.stream_interval=3"],
        "flags.all.stream_interval=3: the same flag as flags.all.stream-interval",
    ),
    "own flag, short": (["+flags.all.dp=2"], "flags.all.dp=2 means --data-parallel-size: the la"),
    "own flag, capitals": (["+flags.all.PORT=2"], "means --port: the launcher derives this flag"),
    "own flag, abbreviated": (["+flags.all.nnode=2"], "means --nnodes: the launcher derives"),
    "own flag, negated": (["+flags.all.no-enable-expert-parallel=true"], "means --enable-expert-p"),
    "flags from a file": (["+flags.all.config=/x.yaml"], "the launcher derives this flag"),
    "connector": ([f"{KV}.kv_connector=NixlConector"], "did you mean NixlConnector?"),
    "connector without a Connector": ([f"{KV}.kv_connector=Nixl"], "has no such connector"),
    "key of the transfer": ([f"+{KV}.kv_rol=kv_both"], "no such key; did you mean kv_role?"),
    "role": (
        ["flags.roles.prefill.kv-transfer-config.kv_role=producer"],
        "allowed: kv_both, kv_consumer, kv_producer",
    ),
    "broken JSON": ([f"{KV}='{{\"kv_connector\":'"], f"{KV}: value '{{\"kv_connector\":'"),
    "broken JSON of one role": (
        ["+flags.roles.decode.compilation-config='{\"mode\"'"],
        "flags.roles.decode.compilation-config: value",
    ),
    "text for a mapping": (
        ["flags.roles.prefill.kv-transfer-config=NixlConnector"],
        "allowed: a mapping (JSON)",
    ),
    "port as text": ([f"+{KV}.kv_port=abc"], "allowed: a whole number"),
    "NIXL setting": (
        [f"+{EXTRA}.kv_lease_duratoin=60"],
        "did you mean kv_lease_duration?",
    ),
    "NIXL setting's type": ([f"+{EXTRA}.num_threads=many"], "allowed: a number above 0"),
    "NIXL backends as text": ([f"+{EXTRA}.backends=UCX"], "allowed: a list, as in ['UCX']"),
    "connector inside several": (
        [
            f"{KV}.kv_connector=MultiConnector",
            f"+{EXTRA}.connectors=[{{kv_connector: NixlConnectr, kv_role: kv_both}}]",
        ],
        "connectors[0].kv_connector='NixlConnectr'",
    ),
    "key of another JSON flag": (
        ["+flags.all.compilation-config={cudagraph_mod: FULL}"],
        "did you mean cudagraph_mode?",
    ),
    "key inside a key": (
        ["+flags.all.compilation-config={pass_config: {fuse_nrom_quant: true}}"],
        "did you mean fuse_norm_quant?",
    ),
    "key of speculation": (
        ["+flags.all.speculative-config={method: mtp, num_speculative_token: 2}"],
        "did you mean num_speculative_tokens?",
    ),
    "variable": (["+flags.env.VLLM_LOGGIN_LEVEL=INFO"], "did you mean VLLM_LOGGING_LEVEL?"),
    "variable in the cluster's layer": (["+cluster.env.VLLM_USE_DEEPGEMM=0"], "VLLM_USE_DEEP_GEMM"),
    "variable in small letters": (
        ["+engine.env.vllm_log_stats_interval=1"],
        "VLLM_LOG_STATS_INTER",
    ),
    "variable that was dropped": (
        ["+flags.env.VLLM_NIXL_ABORT_REQUEST_TIMEOUT=480"],
        "dropped after 0.21.0",
    ),
    "variable's choice": (["+flags.env.VLLM_WORKER_MULTIPROC_METHOD=spwan"], "did you mean spawn?"),
    "variable's number": (["+flags.env.VLLM_ENGINE_READY_TIMEOUT_S=1h"], "a whole number"),
    "variable read as a number": (["+flags.env.VLLM_USE_DEEP_GEMM=true"], "allowed: 0 or 1"),
    "variable whose yes means no": (
        ["+flags.env.VLLM_ALLOW_LONG_MAX_MODEL_LEN='yes'"],
        "any other word counts as 0",
    ),
    "router flag": (["+router.flags.queue-sise=3"], "vllm-router 0.1.17 has no flag --queue-sise"),
    "router number": (["router.flags.queue-size=all"], "allowed: a whole number"),
    "router choice": (["+router.flags.log-level=verbose"], "allowed: debug, info, warning"),
    "router switch given text": (["router.flags.disable-retries='yes please'"], "allowed: true"),
}


@pytest.mark.parametrize("value", ["90%", "many", "[1, 2]", "{a: 1}", "false", "''", "'-3'", "2.5"])
@pytest.mark.parametrize(
    "flag",
    [
        *("gpu-memory-utilization", "max-num-seqs", "max-num-batched-tokens", "max-model-len"),
        *("block-size", "kv-cache-memory-bytes", "num-gpu-blocks-override", "mamba-block-size"),
        *("kv-cache-dtype", "mamba-ssm-cache-dtype", "speculative-config", "compilation-config"),
        *("kv-transfer-config", "eplb-config", "stream-interval", "enable-prefix-caching"),
    ],
)
def test_no_value_of_a_flag_ends_the_check_itself(flag: str, value: str) -> None:
    find(written(f"flags.all.{flag}={value}"))


@cache
def _base() -> LaunchConfig:
    return config_of()


def written(*overrides: str) -> LaunchConfig:
    """The default configuration with values set as an override sets them, without composing."""
    config = copy.deepcopy(_base())
    for override in overrides:
        key, _, text = override.lstrip("+").partition("=")
        *path, last = key.split(".")
        node: Any = config
        for part in path:
            node = node.setdefault(part, {}) if isinstance(node, dict) else getattr(node, part)
        value = yaml.safe_load(text)
        if isinstance(node, dict):
            node[last] = str(value) if path[-1] == "env" else value
        else:
            setattr(node, last, value)
    return config


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_with_what_would_be_right(case: str) -> None:
    overrides, told = REFUSED[case]
    found = find(written(*overrides)).problems
    assert any(told in problem for problem in found), found
    keys = ("flags.", "engine.", "model.", "topology.", "cluster.", "router.")
    assert all(problem.startswith(keys) for problem in found)


FINE = {
    "human numbers": ["+flags.all.max-model-len=16k", "+flags.all.kv-cache-memory-bytes=2G"],
    "auto length": ["+flags.all.max-model-len=auto"],
    "a whole float": ["+flags.all.max-model-len=16000.0"],
    "a number as text": ["+flags.all.max-num-seqs='256'"],
    "several values": ["+flags.all.cudagraph-capture-sizes=[1,2,4]"],
    "one of several values": ["+flags.all.cudagraph-capture-sizes=8"],
    "a flag taken away": ["flags.all.async-scheduling=null"],
    "an older release's flag taken away": ["+flags.all.max-num-partial-prefills=null"],
    "a pair's other name": ["+flags.all.disable-eplb=true"],
    "own connector": [f"{KV}.kv_connector=Ours", f"+{KV}.kv_connector_module_path=our.module"],
    "JSON as text": [
        f'{KV}=\'{{"kv_connector":"NixlConnector","kv_load_failure_policy":"fail"}}\''
    ],
    "own build's flag": ["+flags.all.our-flag=1", "flags.unchecked=[our-flag]"],
    "own build's variable": [
        "+flags.env.VLLM_LOGGIN_LEVEL=1",
        "flags.unchecked=[VLLM_LOGGIN_LEVEL]",
    ],
    "NIXL settings": [f"+{EXTRA}={{kv_lease_duration: 60, backends: [UCX], engine_ttl: 1800.5}}"],
    "router list": ["+router.flags.request-id-headers=[a,b]"],
    "router switch off": ["router.flags.disable-retries=false"],
    "speculation": ["+flags.all.speculative-config={method: mtp, num_speculative_tokens: 1}"],
    "variable's word": ["+flags.env.VLLM_ALLOW_LONG_MAX_MODEL_LEN=True"],
}


@pytest.mark.parametrize("case", FINE)
def test_what_the_release_takes_is_neither_refused_nor_warned_about(case: str) -> None:
    config = written(*FINE[case])
    assert list(table_problems(config, OWNED_FLAGS)) == []
    assert list(table_advice(config, OWNED_FLAGS)) == []
    assert list(router_problems(config.router.flags, OWNED_ROUTER)) == []


WARNED = {
    "deprecated": (["+flags.all.log-config-file=/x"], "Use --logging-config"),
    "unknown variable": (["+cluster.env.VLLM_SITE_COLOUR=blue"], "reads no such variable"),
    "unknown NIXL setting": ([f"+{EXTRA}.zzz=1"], "reads no such key and ignores it"),
}


@pytest.mark.parametrize("case", WARNED)
def test_what_runs_but_hardly_as_meant_is_a_warning(case: str) -> None:
    overrides, told = WARNED[case]
    found = find(written(*overrides))
    assert found.problems == ()
    assert any(told in warning for warning in found.warnings), found.warnings


SHIPPED = [
    [f"{group}={path.stem}"]
    for group in GROUPS
    for path in sorted((CONF_DIR / group).glob("*.yaml"))
    if (group, path.stem) != ("engine", "vllm_cpu")
] + [["experiment=demo"], ["experiment=demo_hybrid"]]


@pytest.mark.parametrize("overrides", SHIPPED, ids=lambda overrides: overrides[0])
def test_every_shipped_configuration_is_clean_on_every_release(overrides: list[str]) -> None:
    config = config_of(*overrides)
    for release in RELEASES:
        config.engine.release = release
        assert list(table_problems(config, OWNED_FLAGS)) == []
        assert list(table_advice(config, OWNED_FLAGS)) == []


@pytest.mark.parametrize(
    ("release", "against"),
    [
        ("0.33.1.dev5", "0.33.0"),
        ("0.40.0", RELEASES[-1]),
        ("0.25.1", RELEASES[0]),
        ("0.28.3", "0.28.0"),
        ("0.33.0rc1", "0.33.0"),
    ],
)
def test_a_release_without_a_table_is_warned_about_and_refuses_nothing_by_a_table(
    release: str, against: str
) -> None:
    found = find(written(f"engine.release={release}", "+flags.all.max-num-seq=3"))
    assert not any("max-num-seq" in problem for problem in found.problems)
    assert any(f"checked against {against}" in warning for warning in found.warnings)
    assert any("did you mean max-num-seqs?" in warning for warning in found.warnings)


def test_a_local_build_counts_as_its_release() -> None:
    assert find(written("engine.release=0.33.0+site")) == find(written())


def test_names_that_no_override_can_carry_are_refused_too() -> None:
    config = written()
    config.flags.all = {
        "-tp": 2,
        "--max-num-seqs": 3,
        "kv-transfer-config.kv_role": "kv_both",
        "max num seqs": 3,
    }
    found = find(config).problems
    assert any(text.startswith("flags.all.-tp=2 means --tensor-parallel-size") for text in found)
    assert any("flags.all.--max-num-seqs=3: names are written without" in text for text in found)
    assert any("flags.all.kv-transfer-config: {kv_role: 'kv_both'}" in text for text in found)
    assert any(text.startswith("flags.all.max num seqs=3") for text in found)


def test_mapping_and_pasted_text_are_checked_alike() -> None:
    text = f'{KV}=\'{{"kv_connector":"NixlConector"}}\''
    mapping = f"{KV}={{kv_connector: NixlConector}}"
    told = [find(written(override)).problems for override in (text, mapping)]
    assert told[0] == told[1] != ()


def test_many_mistakes_are_told_at_once_each_once() -> None:
    overrides = [override for case in list(REFUSED)[:4] for override in REFUSED[case][0]]
    found = find(written(*overrides)).problems
    assert len(found) == len(set(found)) == 4


def test_a_dry_run_with_mistakes_ends_with_2(tmp_path: Any) -> None:
    words = ["dry_run=true", "+flags.all.max-num-seq=3", f"{KV}.kv_connector=NixlConector"]
    done = launcher(tmp_path, *words)
    assert done.returncode == 2
    assert "2 problems found before submission" in done.stderr
    assert "did you mean max-num-seqs?" in done.stderr
    assert "did you mean NixlConnector?" in done.stderr


def test_the_tables_are_small_and_name_their_releases() -> None:
    text = (files("launcher.options") / "vllm.json").read_text("utf-8")
    data = json.loads(text)
    assert len(text) < 150_000
    assert tuple(data["releases"]) == RELEASES
    assert RELEASES[0] == "0.26.0"
    assert {"0.32.0", "0.33.0"} < set(RELEASES)


def test_every_history_is_in_order_and_within_the_releases() -> None:
    data = vllm_table("0.33.0").data
    sections = [data[key] for key in ("flags", "env", "connectors", "nixl", "resolved")]
    for names in (*sections, *data["configs"].values()):
        for name, spans in names.items():
            ends = [index for first, last, _ in spans for index in (first, last)]
            assert ends == sorted(ends), name
            assert 0 <= ends[0] <= ends[-1] < len(RELEASES), name


def _defaults(table: Table) -> Iterator[tuple[str, Any, Any]]:
    for name, spec in table.names("flags").items():
        if "default" in spec and spec["kind"] not in ("switch",):
            yield name, spec, spec["default"]


@pytest.mark.parametrize("release", RELEASES)
def test_every_option_takes_its_own_default(release: str) -> None:
    for name, spec, default in _defaults(vllm_table(release)):
        if default != [] and not (spec["kind"] == "json" and not isinstance(default, dict)):
            assert refusal(spec, default) == "", name


def test_facts_of_the_releases_that_others_rely_on() -> None:
    def spec(release: str, name: str) -> Any:
        return vllm_table(release).spec("flags", name)

    assert spec("0.33.0", "gpu-memory-utilization")["also"] == ["device-memory-utilization"]
    assert spec("0.33.0", "tensor-parallel-size")["short"] == ["-tp"]
    assert spec("0.33.0", "enable-eplb")["inverse"] == ["disable-eplb"]
    assert spec("0.26.0", "gdn-prefill-backend")["choices"] == ["flashinfer", "triton", "cutedsl"]
    layout = vllm_table("0.33.0").spec("env", "VLLM_SSM_CONV_STATE_LAYOUT")
    assert layout is not None
    assert layout["choices"] == ["SD", "DS"]


def test_the_rehearsal_engine_is_not_held_to_vllm() -> None:
    config: LaunchConfig = config_of("engine=rehearsal", "+flags.all.max-num-seq=3")
    assert find(config).problems == ()
