"""The kit's tests: `python3 -m unittest discover -v` at the root of the repository."""

from tests import support

support.refuse_network()
