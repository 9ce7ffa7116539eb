"""The process of `forewarn serve`: check the configuration, start the service, listen, stop."""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
from contextlib import ExitStack

from forewarn.config import Config
from forewarn.operate.access.binding import check_bind
from forewarn.operate.service.service import Service
from forewarn.progress import Note
from forewarn.serve.rest.app import create_app
from forewarn.serve.rest.datagram import receiving_notices
from forewarn.serve.rest.listen import open_sockets, run
from forewarn.serve.rest.tls import certificate_of

_COLLECT_AFTER = (50_000, 20, 100)  # new objects, young collections, middle ones


def run_service(config: Config, *, note: Note) -> None:
    """Run the service until SIGTERM or SIGINT."""
    for warning in check_bind(config):
        note(f"warning: {warning}")
    certificate = certificate_of(config.serve)
    with ExitStack() as stack:
        sockets = stack.enter_context(open_sockets(config.serve))
        service = stack.enter_context(Service(config, note=note))
        app = create_app(service)
        spare_collector()
        if config.serve.datagram_socket is not None:
            stack.enter_context(
                receiving_notices(
                    config.serve.datagram_socket, config.serve.socket_mode, service.notice, app.state.metrics
                )
            )

        def ready(address: str) -> None:
            note(f"listening on {address}")
            if config.serve.socket is not None:
                note(f"listening on {config.serve.socket}")
            notify_supervisor("READY=1")

        def stopping() -> None:
            notify_supervisor("STOPPING=1")
            service.announce_stop()

        run(app, config.serve, sockets, certificate, note=note, on_ready=ready, on_stop=stopping)
        note("stopping")
    note("stopped")
    end_process()


def end_process() -> None:
    """End at once where a thread still computes for a request that was given up: all files are closed."""
    if all(thread is threading.main_thread() or thread.daemon for thread in threading.enumerate()):
        return
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def spare_collector() -> None:
    """Keep the collector of cyclic garbage from searching what stays: models, history, all modules.

    An assessment of a thousand jobs creates enough objects to set it off several times: a third of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def notify_supervisor(state: str) -> None:
    """Tell systemd about the state (sd_notify), where it asks for that (Type=notify)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    path = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(state.encode(), path)
        except OSError:
            return  # a supervisor that has gone is no reason to stop
