from collections.abc import Iterator

import pytest

from tests.ops.crashes import Bench, Place
from tests.ops.forks import Forks
from tests.program import wf

__all__ = ["wf"]


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    scratch = tmp_path_factory.mktemp("forks")
    forks = Forks(scratch)
    yield Bench(Place(scratch / "place", forks))
    forks.close()
