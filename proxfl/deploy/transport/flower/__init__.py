"""All that touches Flower: the server's side, the site's, and the names it does not promise."""
