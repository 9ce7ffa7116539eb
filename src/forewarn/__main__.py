"""`python -m forewarn`: the command, where its script is not on PATH."""

from forewarn.serve.cli.main import main

if __name__ == "__main__":
    main()
