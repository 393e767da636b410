"""`python -m holdfast` runs the same command line as `holdfast`."""

from holdfast.cli.main import main

if __name__ == "__main__":
    main()
