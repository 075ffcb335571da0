"""`collect --otlp`: what is stored goes on to an OpenTelemetry endpoint (`docs/store.md`)."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox_judge.cli.surface import Surface
from sandbox_judge.errors import UsageError
from sandbox_judge.sinks.open import open_sinks
from sandbox_judge.store.database import Database, open_database, told
from sandbox_judge.store.forwarder import Forwarder
from sandbox_judge.store.forwarding import Forwarding
from sandbox_judge.store.options import store_address


def add_otlp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--otlp",
        metavar="URL",
        help="send stored judgements on to this OTLP logs endpoint (http://HOST:4318/v1/logs), at least once",
    )
    parser.add_argument(
        "--otlp-from",
        choices=("start", "now"),
        default="start",
        help="an endpoint not sent to before gets all that is stored (default), or what comes from now on",
    )


@contextmanager
def forwarding_to(args: argparse.Namespace, database: Database, env: Surface) -> Iterator[Forwarder | None]:
    """The forwarder of `--otlp`; None without. Raises SettingsError, MissingExtra, DeliveryError."""
    if args.otlp is None:
        if args.otlp_from != "start":
            raise UsageError("it says where --otlp begins, and there is none.", where="--otlp-from")
        yield None
        return
    address = args.otlp if args.otlp.startswith("otlp:") else f"otlp:{args.otlp}"
    (sink,) = open_sinks([address], environ=env.environ, cwd=env.cwd)
    reader = open_database(store_address(args.store, env.environ), write=False)
    try:
        forwarding = Forwarding(database, reader, sink.name)
        with told(database, writing=True):
            forwarding.register(from_now=args.otlp_from == "now")
        yield Forwarder(forwarding, sink, env.err)
    finally:
        reader.close()


async def sent_on(forwarder: Forwarder, seconds: float, patient: bool) -> bool:
    """Sends on what is left (`Forwarder.drain`) and lets go of the destination; whether all was sent."""
    try:
        return await forwarder.drain(seconds, patient=patient)
    finally:
        await forwarder.aclose()
