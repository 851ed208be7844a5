"""Data of sites, read into tables: one file or data frame per site."""

from proxfl.tables.design import Wanted as Wanted
from proxfl.tables.schema import Schema as Schema
from proxfl.tables.sites import Table as Table
from proxfl.tables.sites import read_beside as read_beside
from proxfl.tables.sites import read_features as read_features
from proxfl.tables.sites import read_frames as read_frames
from proxfl.tables.sites import read_site as read_site
from proxfl.tables.sites import read_sites as read_sites
