"""The older events of OpenHands (V0): an `action` or an `observation` a row, joined by `cause`. Pure.

Shapes: github.com/All-Hands-AI/OpenHands, `openhands/events`.
"""

from typing import Any, Final

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.model import Part, Text, Unknown
from sandbox_judge.conversation.parts import as_text, media

Event = dict[str, Any]

_SILENT_ACTIONS: Final = ("change_agent_state", "null", "recall", "start_server", "condensation_request")
_SILENT: Final = ("agent_state_changed", "null")
_FAILED_STATES: Final = ("error",)
_CANCELLED_STATES: Final = ("stopped", "rejected")


def is_old_event(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("source") in ("user", "agent", "environment")
        and (isinstance(value.get("action"), str) or isinstance(value.get("observation"), str))
    )


def add_old_event(build: ConversationBuilder, event: Event) -> bool:
    """The entries of one event; False for one that holds no conversation."""
    if isinstance(event.get("action"), str):
        return _action(build, event)
    return _observation(build, event)


def _id(event: Event, key: str) -> str | None:
    """What joins an action and its observation: the model's id of the call, else the action's own number."""
    metadata = event.get("tool_call_metadata")
    named = metadata.get("tool_call_id") if isinstance(metadata, dict) else None
    number = event.get(key)
    return as_text(named) if named is not None else None if number is None else f"event {as_text(number)}"


def _action(build: ConversationBuilder, event: Event) -> bool:
    kind, time = event["action"], event.get("timestamp")
    given = event.get("args")
    args = dict(given) if isinstance(given, dict) else {}
    if kind in _SILENT_ACTIONS:
        return False
    if kind in ("message", "system"):
        role = "system" if kind == "system" else "user" if event.get("source") == "user" else "assistant"
        parts: list[Part] = [Text(text=as_text(args.get("content", event.get("message"))))]
        images = args.get("image_urls") or args.get("images_urls")
        parts.extend(media("image", url=url) for url in (images if isinstance(images, list) else ()))
        build.message(role, parts, time=time)
        return True
    if kind == "condensation":
        build.message(
            "system", [Unknown(label="compacted", text=as_text(args.get("summary")) or None)], time=time
        )
        return True
    thought = args.pop("thought", None)
    if kind == "think":
        args["thought"] = thought
    elif thought:
        build.message("assistant", as_text(thought), time=time)
    metadata = event.get("tool_call_metadata")
    named = metadata.get("function_name") if isinstance(metadata, dict) else None
    build.tool_call(named or kind, args, id=_id(event, "id"), time=time)
    return True


def _observation(build: ConversationBuilder, event: Event) -> bool:
    kind, time = event["observation"], event.get("timestamp")
    extras = event.get("extras")
    extras = extras if isinstance(extras, dict) else {}
    if kind == "agent_state_changed":
        state = as_text(extras.get("agent_state"))
        if state in _FAILED_STATES:
            build.failed(extras.get("reason"))
        elif state in _CANCELLED_STATES:
            build.cancelled(extras.get("reason") or state)
        else:
            build.status(None)
    if kind in _SILENT or (event.get("content") in (None, "") and event.get("cause") is None):
        return False
    content = as_text(event.get("content"))
    if kind == "recall":
        build.message("system", content, name="recall", time=time)
        return True
    metadata = extras.get("metadata")
    code = extras.get("exit_code", metadata.get("exit_code") if isinstance(metadata, dict) else None)
    failed = kind == "error" or event.get("success") is False or code not in (None, 0, -1)
    images = extras.get("image_urls")
    parts: list[Part] = [Text(text=content)]
    parts.extend(media("image", url=url) for url in (images if isinstance(images, list) else ()))
    if event.get("cause") is None and event.get("tool_call_metadata") is None:
        build.message("system", [build.mark(kind, content)], time=time)
        return True
    build.tool_result(parts, id=_id(event, "cause"), error=failed, time=time)
    return True
