"""What a user may set: kinds of values, options that take them, and sets of options."""

from proxfl.options.kinds import Kind as Kind
from proxfl.options.option import Option as Option
from proxfl.options.option import Options as Options
