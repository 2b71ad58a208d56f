"""`holdfast completion`: the script that lets a shell complete commands, options, topics and groups."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
COMPLETE_VARIABLE = "_HOLDFAST_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  eval "$(holdfast completion bash)"        in ~/.bashrc
    zsh:   eval "$(holdfast completion zsh)"         in ~/.zshrc
    fish:  holdfast completion fish | source         in ~/.config/fish/config.fish
    """
    complete_class = get_completion_class(shell)
    assert complete_class is not None
    script = complete_class(ctx.find_root().command, {}, "holdfast", COMPLETE_VARIABLE)
    click.echo(script.source_template % script.source_vars())
