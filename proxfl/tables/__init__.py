"""Data files of sites, read into tables: CSV, Parquet, NPZ and LIBSVM, one file per site."""

from proxfl.tables.sites import Table as Table
from proxfl.tables.sites import read_features as read_features
from proxfl.tables.sites import read_site as read_site
from proxfl.tables.sites import read_sites as read_sites
