"""Commands that do something by themselves, and have commands below them: `doctor` and `doctor repair`."""

from typing import Any

import click
from click.core import ParameterSource

from holdfast.errors import UsageError


class StandingGroup(click.Group):
    """Refuses options of its own before a command below it, which would not see them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, invoke_without_command=True)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command below; UsageError that says where the option belongs."""
        name, below, left = super().resolve_command(ctx, args)
        if below is None or ctx.resilient_parsing:  # a shell completes what is not finished
            return name, below, left
        for option in self.params:
            if ctx.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE:
                path, word = f"{ctx.command_path} {name}", max(option.opts, key=len)
                if any(option.name == each.name for each in below.params):
                    raise UsageError(f"`{path}` does not see {word} before its name: put it after {name}")
                raise UsageError(f"`{path}` has no option {word}")
        return name, below, left
