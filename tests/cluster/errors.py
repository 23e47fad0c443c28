"""The one error of the test cluster; its text says what failed and what to do next."""


class ClusterError(Exception):
    """A step of installing, starting or stopping the test cluster did not work."""
