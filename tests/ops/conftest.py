from tests.program import wf

__all__ = ["wf"]
