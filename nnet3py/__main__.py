"""``python -m nnet3py``: the command ``nnet3py``."""
from nnet3py.cli.main import main

if __name__ == "__main__":
    main()
