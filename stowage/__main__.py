"""`python -m stowage` is the command itself."""

from stowage.cli import main

if __name__ == "__main__":
    main()
