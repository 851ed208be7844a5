"""`python -m proxfl.deploy.site FOLDER --site NAME --data FILE --server HOST:PORT`: one site."""

import argparse
import logging
from pathlib import Path

from proxfl.deploy.protocol.plan import read_plan, read_table
from proxfl.deploy.site.process import serve
from proxfl.deploy.site.site import Site


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer a server's messages for one site.")
    parser.add_argument("folder", type=Path, help="the site's private folder")
    parser.add_argument("--plan", required=True, type=Path, help="the folder of federation.toml")
    parser.add_argument("--site", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--server", required=True, help="host:port")
    parser.add_argument("--authority", type=Path, help="the certificate that vouches for it")
    parser.add_argument("--key", type=Path, help="the site's private key")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for chatty in ("jax", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    plan = read_plan(given.plan)
    site = Site(plan, given.site, read_table(plan, given.data), given.folder)
    serve(site.worker(), given.server, given.authority, given.key)


if __name__ == "__main__":
    main()
