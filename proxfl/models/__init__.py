"""Networks as plain functions of plain parameters, one per file."""

from proxfl.models import cnn as cnn
