"""The budgets of git-wf, measured side by side with plain git: `python -m bench`."""
