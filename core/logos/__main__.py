"""`python -m logos`."""

from logos.entry import main

if __name__ == "__main__":
    main()
