"""Runs the parts of a pipeline: the service in this process, the adapter beside it in a process of its own."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from holdfast.cli import logs
from holdfast.cli.pipeline_view import LiveView
from holdfast.client.handing import hand_on
from holdfast.errors import PipelineRefused
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.run import Run, RunOptions
from holdfast.pipelines.status import ADAPTER, SERVICE

ADAPTER_END_S_MAX = 90.0


def run_parts(pipeline: Pipeline, only: str | None, options: RunOptions) -> None:
    """Until told to leave. With `--once` the adapter follows the service, so that it finds all of it."""
    logs.set_up("text")
    if only == ADAPTER and pipeline.mode is not Mode.ADAPTER:
        raise PipelineRefused(
            f"{pipeline.at('delivery')}: delivery {pipeline.mode.value} has no adapter to run"
        )
    if only is not None or pipeline.mode is not Mode.ADAPTER:
        _run_here(pipeline, only or SERVICE, options)
    elif options.is_once:
        _run_here(pipeline, SERVICE, options)
        with _start_adapter(pipeline, options) as process:
            _, told = process.communicate()
        click.echo(told, err=True, nl=False)
        if process.returncode:
            raise PipelineRefused(f"the adapter ended with code {process.returncode}")
    else:
        with _adapter_beside(pipeline, options):
            _run_here(pipeline, SERVICE, options)


def _run_here(pipeline: Pipeline, part: str, options: RunOptions) -> None:
    view = LiveView(part, pipeline.endpoint)
    try:
        Run(pipeline, part, options, on_state=view.show).run()
    finally:
        view.close()


@contextmanager
def _adapter_beside(pipeline: Pipeline, options: RunOptions) -> Iterator[None]:
    """The service does not depend on it: if it ends, that is said, and the service goes on."""
    process = _start_adapter(pipeline, options)
    is_over = threading.Event()

    def watch() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            click.echo(line, err=True, nl=False)
        code = process.wait()
        if code and not is_over.is_set():
            click.echo(
                f"holdfast: the adapter ended with code {code}; start it again with"
                f" `holdfast pipeline run {pipeline.path} --only adapter`",
                err=True,
            )

    watcher = threading.Thread(target=watch, name="adapter", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        process.terminate()
        watcher.join(ADAPTER_END_S_MAX)
        if watcher.is_alive():
            process.kill()
            watcher.join()


def _start_adapter(pipeline: Pipeline, options: RunOptions) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "holdfast", "pipeline", "run", str(pipeline.path), "--only", ADAPTER]
    command += ["--bootstrap", pipeline.endpoint.bootstrap, "--master", options.master]
    command += [word for name, value in options.config.items() for word in ("--conf", f"{name}={value}")]
    command += ["--once"] if options.is_once else []
    with hand_on(pipeline.endpoint.security) as handed:
        command += handed.words
        # A process group of its own: ^C reaches this process alone, which then stops the adapter. Its lines pass
        # through this process, so that they do not disturb the one that lives on the terminal.
        return subprocess.Popen(command, process_group=0, stderr=subprocess.PIPE, pass_fds=handed.descriptors)
