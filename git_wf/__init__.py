"""git-wf: workflows over a git repository, every step a commit."""

__version__ = "0.1.0"
