"""Real tables by site: a league on them, and what a site that took no part gains."""
