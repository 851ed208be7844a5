"""Data files of sites, read into tables: CSV, Parquet, NPZ and LIBSVM, one file per site."""

from proxfl.tables.formats import InputError as InputError
from proxfl.tables.labels import encode_target as encode_target
from proxfl.tables.labels import label_values as label_values
from proxfl.tables.labels import merge_labels as merge_labels
from proxfl.tables.sites import Table as Table
from proxfl.tables.sites import read_features as read_features
from proxfl.tables.sites import read_site as read_site
from proxfl.tables.sites import read_sites as read_sites
