"""`python -m logos`."""

from logos.cli.main import main

if __name__ == "__main__":
    main()
