"""The same algorithms over real sites: Flower carries the messages, each site keeps its data."""

from proxfl.console.log import logger

logger("proxfl.deploy")  # the log of all that is here, which holds words of other machines
