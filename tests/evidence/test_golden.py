"""Golden: a run that an earlier insular wrote still loads, and still verifies."""

from pathlib import Path

import numpy as np

from insular.evidence import RunStore

from .samples import VERDICT, Verdict, WithArrays

GOLDEN = Path(__file__).parent / "golden" / "layout-1"


def test_run_of_layout_1_still_loads():
    store = RunStore.open(GOLDEN)
    store.verify()
    assert store.manifest.schema_version == 1
    assert store.manifest.status == "complete"
    assert store.manifest.inputs[0].n_records == 8
    assert store.read_result("verdict", Verdict) == VERDICT
    pair = store.read_result("pair", WithArrays)
    own = np.array([[0.5, -0.0], [np.inf, 1e-45]], np.float32)
    assert store.read_arrays(pair.gradients)["own"].tobytes() == own.tobytes()
    assert [failure.stage for failure in store.failures()] == ["repair"]
