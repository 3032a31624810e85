"""bitsandbytes notes at every call that activations become float16: not news here."""

from collections.abc import Iterator

import pytest

from insular.precision.stock import quiet_bitsandbytes


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with quiet_bitsandbytes():
        yield
