"""`python -m git_wf`."""

from git_wf.cli.main import main

if __name__ == "__main__":
    main()
