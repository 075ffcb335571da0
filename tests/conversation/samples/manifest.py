"""What every recording is: its format, or why it holds no conversation. Paths from `data/`; the first that
fits counts. A reason has spaces, a format's name has none.

A `request.json` with a `response.*` beside it is read as one exchange (`test_samples.material`), and its
response by itself too.
"""

NO_ITEMS = "an object of the API that holds no items"
ERROR = "an error body"
PAPERS = "licence or description"

_RECORDED = "conversations/provider_api_recordings"
_CONFORMANCE = "conversations/openai_conformance"

SAMPLES: dict[str, str] = {
    "**/README.md": PAPERS,
    "**/LICENSE*": PAPERS,
    f"{_CONFORMANCE}/ChatCompletions/*/request.json": "openai_chat",
    f"{_CONFORMANCE}/ChatCompletions/*/response.json": "openai_chat",
    f"{_CONFORMANCE}/Conversations/error_*/request.*": "a request that is not JSON",
    f"{_CONFORMANCE}/Conversations/error_*/response.json": ERROR,
    f"{_CONFORMANCE}/Conversations/*/create_conversation_re*.json": NO_ITEMS,
    f"{_CONFORMANCE}/Conversations/create_with_items/create_request.json": "openai_responses",
    f"{_CONFORMANCE}/Conversations/create_with_items/create_response.json": NO_ITEMS,
    f"{_CONFORMANCE}/Conversations/retrieve_conversation/*": NO_ITEMS,
    f"{_CONFORMANCE}/Conversations/update_conversation/*": NO_ITEMS,
    f"{_CONFORMANCE}/Conversations/delete_*/*": NO_ITEMS,
    f"{_CONFORMANCE}/Conversations/*/*request.json": "openai_responses",
    f"{_CONFORMANCE}/Conversations/*/*response.*": "openai_responses",
    f"{_CONFORMANCE}/Responses/*/request.json": "openai_responses",
    f"{_CONFORMANCE}/Responses/*/response.*": "openai_responses",
    f"{_RECORDED}/openai_responses/*.json": "openai_responses",
    f"{_RECORDED}/google/*.json": "gemini",
    f"{_RECORDED}/bedrock/*.json": "bedrock_converse",
    f"{_RECORDED}/anthropic/*.json": "anthropic_messages",
    f"{_RECORDED}/*/*.json": "openai_chat",
    "conversations/claude_code_jsonl/**/*.jsonl": "claude_code",
    "conversations/gemini_cli/**/*.json": "gemini_cli",
    "hosts/gemini-cli/*payload*.json": "a hook's payload, which names the session's file",
    "hosts/gemini-cli/**/*.json*": "gemini_cli",
    "conversations/tau_bench/*.json*": "openai_chat",
    "conversations/tau_bench/*.md": "the agent's policy, which the conversations hold",
    "conversations/atif/*.json": "atif",
    "conversations/google_adk/*.json": "google_adk",
    "conversations/inspect_ai_logs/*.json": "inspect_ai",
    "conversations/inspect_ai_logs/*.eval": "inspect_ai",
    "hosts/*payload*.json": "a hook's payload, which names the session's file",
    "hosts/codex/*.schema.json": "the schema of a hook's payload",
    "hosts/codex/*.jsonl": "codex",
    "hosts/copilot/*.jsonl": "copilot",
    "hosts/cursor/*.jsonl": "cursor",
    "hosts/openhands/*.jsonl": "openhands",
    "hosts/opencode/*.json": "the head of a session or a message, whose parts lie in files of their own",
    "hosts/pi/*.jsonl": "pi",
    "conversations/langfuse_traces/*.chatml.json": "the answer to compare a trace with",
    "conversations/langfuse_traces/*.trace.json": "langfuse",
    "conversations/otel_genai_spans/openinference_*.json": "openinference",
    "conversations/otel_genai_spans/otel_genai_*.json": "otel_genai",
    "conversations/otel_genai_spans/v6-spans/*.json": "ai_sdk_spans",
}
