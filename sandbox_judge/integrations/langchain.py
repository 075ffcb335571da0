"""LangChain and LangGraph: a callback handler, `config={"callbacks": [JudgeHandler(recipe=...)]}`.

The end of the outermost run is the conversation's: its state's `messages` where it has them (LangGraph), else
what the last chat model was asked and said. Written against langchain-core 1.8 and langgraph 1.2.
"""

from typing import Any
from uuid import UUID

from langchain_core.callbacks import (  # type: ignore[import-not-found, unused-ignore]
    BaseCallbackHandler,
)
from langchain_core.messages import (  # type: ignore[import-not-found, unused-ignore]
    BaseMessage,
    messages_to_dict,
)

from sandbox_judge.integrations.handing import Handing, quiet


class JudgeHandler(BaseCallbackHandler):  # type: ignore[misc, unused-ignore]
    """Hands each finished run to the judges of a recipe; arguments are those of `Handing`. A thread's id
    (`configurable.thread_id`) is the conversation's, so that its next run supersedes this one's judgement."""

    raise_error = False

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._handing = Handing(**options)
        # By run: the outermost run that it belongs to. By outermost run: thread and last call.
        self._roots: dict[UUID, UUID] = {}
        self._threads: dict[UUID, str] = {}
        self._asked: dict[UUID, list[BaseMessage]] = {}
        self._said: dict[UUID, list[BaseMessage]] = {}

    def flush(self, seconds: float = 2.0) -> bool:
        """Waits until all runs that ended are written down, at most `seconds`."""
        return self._handing.flush(seconds)

    @quiet
    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        self._begun(run_id, parent_run_id, more.get("metadata"))

    @quiet
    def on_chat_model_start(
        self,
        serialized: Any,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **more: Any,
    ) -> None:
        self._begun(run_id, parent_run_id, more.get("metadata"))
        self._asked[run_id] = list(messages[0]) if messages else []

    @quiet
    def on_llm_end(
        self, response: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        asked = self._asked.pop(run_id, None)
        first = next((found for found in response.generations[:1] if found), [None])[0]
        message = getattr(first, "message", None)
        root = self._roots.get(run_id, run_id)
        if asked is not None and message is not None:
            self._said[root] = [*asked, message]
        self._ended(run_id, None, "")

    @quiet
    def on_llm_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        asked = self._asked.pop(run_id, None)
        if asked is not None:
            self._said[self._roots.get(run_id, run_id)] = asked
        self._ended(run_id, None, "failed")

    @quiet
    def on_chain_end(
        self, outputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        self._ended(run_id, outputs, "")

    @quiet
    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        self._ended(run_id, None, "failed")

    def _begun(self, run_id: UUID, parent_run_id: UUID | None, metadata: Any) -> None:
        root = run_id if parent_run_id is None else self._roots.get(parent_run_id, parent_run_id)
        self._roots[run_id] = root
        thread = metadata.get("thread_id") if isinstance(metadata, dict) else None
        if thread is not None:
            self._threads.setdefault(root, str(thread))

    def _ended(self, run_id: UUID, outputs: Any, status: str) -> None:
        if self._roots.pop(run_id, None) != run_id:
            return
        said = self._said.pop(run_id, [])
        thread = self._threads.pop(run_id, None)
        state = outputs.get("messages") if isinstance(outputs, dict) else None
        if isinstance(state, list) and state and all(isinstance(message, BaseMessage) for message in state):
            said = list(state)
        if said:
            self._handing.hand(thread or str(run_id), lambda: messages_to_dict(said), status=status)
