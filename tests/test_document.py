"""Configurations as plain values and as text: the same as the slow ways say."""

from __future__ import annotations

import dataclasses
import json

from launcher.document import dumped, plain, spread
from tests.compose import config_of

FLAGS = ("+flags.all.compilation-config={mode:3,sizes:[1,2,{a:null}]}", "+model.env.X='a\"b'")


def test_a_configuration_becomes_the_values_that_asdict_gives() -> None:
    config = config_of("engine=rehearsal", *FLAGS)
    assert repr(plain(config)) == repr(dataclasses.asdict(config))
    assert plain((1, [config.canary])) == (1, [dataclasses.asdict(config.canary)])
    assert plain(config)["flags"]["all"] is not config.flags.all


def test_text_on_lines_reads_back_as_the_same_document() -> None:
    document = {"config": plain(config_of(*FLAGS)), "empty": {}, "t": (1, 2.5, "é\n"), "n": None}
    document["odd"] = {1: "a", None: [[]]}
    for levels in range(5):
        assert json.loads(spread(document, levels)) == json.loads(json.dumps(document))
    assert spread(document, 3).count("\n") > 40


def test_what_one_writer_of_json_does_not_take_the_other_writes() -> None:
    odd = [{1: 2}, 2**70, -(2**70), "\ud800", "\u2028é", 0.1 + 0.2, 1e-320, 1e22, True, None, (1,)]
    for value in (*odd, odd, {"deep": odd}):
        assert json.loads(dumped(value)) == json.loads(json.dumps(value))
