"""How many files and connections the process may have open."""

import logging
import resource

logger = logging.getLogger(__name__)


def raise_open_files_max() -> int:
    """Take as many as this user may have, and say how many that are.

    The soft limit of most shells, 1024, is there for programs that use select(2); each client's connection
    takes one of them.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as failure:
        # Some systems name a hard limit that they do not grant; what there is will do.
        logger.warning("open files stay limited to %d: %s", soft, failure)
        return soft
    return hard
