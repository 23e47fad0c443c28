"""Configurations as plain values and as text: the same as the slow ways say."""

from __future__ import annotations

import dataclasses
import json

from launcher.document import plain, spread
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
