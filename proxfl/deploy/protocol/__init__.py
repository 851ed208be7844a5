"""What server and sites say to each other, as bytes, its checks, and the seam it crosses."""
