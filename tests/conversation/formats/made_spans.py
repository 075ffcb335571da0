"""One run of an agent in each form that exporters write it: the same calls, told in many conventions."""

import json

SYSTEM = "You mend bicycles over the telephone."
ASKED = "My chain slips on the smallest sprocket. Is it worn?"
LOOK = "I will look up the wear limits."
WEAR = {"model": "Peregrine 8", "mileage": 4200}
LIMIT = '{"limit_mm": 0.75}'
LOST = "no record of that frame"
ANSWER = "Measure it: above 0.75 mm it is worn."
THANKS = "It reads 0.9."
LAST = "Then replace chain and sprocket together."
CALLS = [("c1", "wear_limit", WEAR), ("c2", "frame_record", {"number": "PX-77"})]


def text(role, said):
    return {"role": role, "text": said}


def asked_for(said, calls):
    return {"role": "assistant", "text": said, "calls": calls}


def result(id, name, said):
    return {"role": "tool", "id": id, "name": name, "text": said}


HISTORY = [
    text("system", SYSTEM),
    text("user", ASKED),
    asked_for(LOOK, CALLS),
    result("c1", "wear_limit", LIMIT),
    result("c2", "frame_record", LOST),
    text("assistant", ANSWER),
    text("user", THANKS),
    text("assistant", LAST),
]
# (input, output) of each call, by length of the history.
MODEL_CALLS = [(HISTORY[:2], HISTORY[2:3]), (HISTORY[:5], HISTORY[5:6]), (HISTORY[:7], HISTORY[7:8])]


def current(message):
    parts = []
    if message["role"] == "tool":
        parts = [{"type": "tool_call_response", "id": message["id"], "response": message["text"]}]
    else:
        parts.append({"type": "text", "content": message["text"]})
        parts += [
            {"type": "tool_call", "id": id, "name": name, "arguments": arguments}
            for id, name, arguments in message.get("calls", [])
        ]
    return {"role": message["role"], "parts": parts}


def gen_ai(inputs, outputs):
    system = [m for m in inputs if m["role"] == "system"]
    held = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "mock-1",
        "gen_ai.input.messages": json.dumps([current(m) for m in inputs if m not in system]),
        "gen_ai.output.messages": json.dumps([{**current(m), "finish_reason": "stop"} for m in outputs]),
    }
    if system:
        said = [{"type": "text", "content": m["text"]} for m in system]
        held["gen_ai.system_instructions"] = json.dumps(said)
    return held, []


def numbered(inputs, outputs):
    held = {"llm.request.type": "chat", "gen_ai.system": "Mock"}
    for prefix, messages in (("gen_ai.prompt", inputs), ("gen_ai.completion", outputs)):
        for n, message in enumerate(messages):
            held[f"{prefix}.{n}.role"] = message["role"]
            held[f"{prefix}.{n}.content"] = message["text"]
            if "id" in message:
                held[f"{prefix}.{n}.tool_call_id"] = message["id"]
            for c, (id, name, arguments) in enumerate(message.get("calls", [])):
                held[f"{prefix}.{n}.tool_calls.{c}.id"] = id
                held[f"{prefix}.{n}.tool_calls.{c}.name"] = name
                held[f"{prefix}.{n}.tool_calls.{c}.arguments"] = json.dumps(arguments)
    return held, []


def events(inputs, outputs):
    found = []
    for message in inputs:
        body = {"content": message["text"]}
        if "id" in message:
            body["id"] = message["id"]
        if "calls" in message:
            body["tool_calls"] = json.dumps(chat_calls(message))
        found.append({"name": f"gen_ai.{message['role']}.message", "attributes": body})
    for message in outputs:
        answer = {"role": "assistant", "content": message["text"]}
        if "calls" in message:
            answer["tool_calls"] = chat_calls(message)
        body = {"index": 0, "finish_reason": "stop", "message": json.dumps(answer)}
        found.append({"name": "gen_ai.choice", "attributes": body})
    return {"gen_ai.operation.name": "chat", "gen_ai.system": "mock"}, found


def chat_calls(message):
    return [
        {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for id, name, arguments in message["calls"]
    ]


def openinference(inputs, outputs):
    held = {"openinference.span.kind": "LLM", "llm.model_name": "mock-1"}
    for prefix, messages in (("llm.input_messages", inputs), ("llm.output_messages", outputs)):
        for n, message in enumerate(messages):
            base = f"{prefix}.{n}.message"
            held[f"{base}.role"] = message["role"]
            if message["role"] == "user":
                held[f"{base}.contents.0.message_content.type"] = "text"
                held[f"{base}.contents.0.message_content.text"] = message["text"]
            else:
                held[f"{base}.content"] = message["text"]
            if "id" in message:
                held[f"{base}.tool_call_id"] = message["id"]
            for c, (id, name, arguments) in enumerate(message.get("calls", [])):
                call = f"{base}.tool_calls.{c}.tool_call"
                held[f"{call}.id"] = id
                held[f"{call}.function.name"] = name
                held[f"{call}.function.arguments"] = json.dumps(arguments)
    return held, []


def openinference_nested(inputs, outputs):
    def message(m):
        inner = {"role": m["role"], "content": m["text"]}
        if "id" in m:
            inner["tool_call_id"] = m["id"]
        if "calls" in m:
            inner["tool_calls"] = [
                {"tool_call": {"id": id, "function": {"name": name, "arguments": json.dumps(a)}}}
                for id, name, a in m["calls"]
            ]
        return {"message": inner}

    llm = {"input_messages": [*map(message, inputs)], "output_messages": [*map(message, outputs)]}
    return {"openinference": {"span": {"kind": "LLM"}}, "llm": llm}, []


def ai_sdk(inputs, outputs):
    def message(m):
        if m["role"] == "tool":
            output = {"type": "text", "value": m["text"]}
            part = {"type": "tool-result", "toolCallId": m["id"], "toolName": m["name"], "output": output}
            return {"role": "tool", "content": [part]}
        if m["role"] == "system":
            return {"role": "system", "content": m["text"]}
        calls = [
            {"type": "tool-call", "toolCallId": id, "toolName": name, "input": arguments}
            for id, name, arguments in m.get("calls", [])
        ]
        return {"role": m["role"], "content": [{"type": "text", "text": m["text"]}, *calls]}

    held = {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.prompt.messages": json.dumps([message(m) for m in inputs]),
        "ai.response.text": outputs[0]["text"],
        "ai.response.finishReason": "stop",
    }
    if "calls" in outputs[0]:
        held["ai.response.toolCalls"] = json.dumps(
            [
                {"toolCallId": id, "toolName": name, "input": json.dumps(arguments)}
                for id, name, arguments in outputs[0]["calls"]
            ]
        )
    return held, []


CONVENTIONS = {
    "gen_ai": (gen_ai, "otel_genai"),
    "numbered": (numbered, "otel_genai"),
    "events": (events, "otel_genai"),
    "openinference": (openinference, "openinference"),
    "openinference_nested": (openinference_nested, "openinference"),
    "ai_sdk": (ai_sdk, "ai_sdk_spans"),
}


def spans(convention, calls=None):
    """(name, id, parent, start, end, attributes, events) of a root and the calls within it, in seconds."""
    calls = MODEL_CALLS if calls is None else calls
    made = [("agent", "a0", None, 0.0, 10.0 * len(calls), {}, [])]
    for n, (inputs, outputs) in enumerate(calls):
        attributes, happened = CONVENTIONS[convention][0](inputs, outputs)
        made.append(("chat mock-1", f"b{n}", "a0", 10.0 * n + 1, 10.0 * n + 5, attributes, happened))
    return made


EPOCH = 1_790_000_000
TRACE = "5b8efff798038103d269b633813fc60c"


def any_value(value):
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(v) for v in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    return {"stringValue": value}


def pairs(attributes):
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def otlp(made):
    rows = [
        {
            "traceId": TRACE,
            "spanId": id,
            **({"parentSpanId": parent} if parent else {}),
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(int((EPOCH + start) * 10**9)),
            "endTimeUnixNano": str(int((EPOCH + end) * 10**9)),
            "attributes": pairs(attributes),
            "events": [{"name": e["name"], "attributes": pairs(e["attributes"])} for e in happened],
            "status": {},
        }
        for name, id, parent, start, end, attributes, happened in made
    ]
    scope = {"scope": {"name": "made"}, "spans": rows}
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}


def python_sdk(made):
    """`ReadableSpan.to_json` of each."""
    return [
        {
            "name": name,
            "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{id:0>16}", "trace_state": "[]"},
            "kind": "SpanKind.INTERNAL",
            "parent_id": f"0x{parent:0>16}" if parent else None,
            "start_time": f"2026-09-21T14:{int(start) // 60:02}:{int(start) % 60:02}.000000Z",
            "end_time": f"2026-09-21T14:{int(end) // 60:02}:{int(end) % 60:02}.000000Z",
            "status": {"status_code": "UNSET"},
            "attributes": attributes,
            "events": happened,
            "links": [],
            "resource": {"attributes": {}},
        }
        for name, id, parent, start, end, attributes, happened in made
    ]


def javascript_sdk(made):
    return [
        {
            "name": name,
            "spanContext": {"traceId": TRACE, "spanId": id},
            **({"parentSpanContext": {"traceId": TRACE, "spanId": parent}} if parent else {}),
            "attributes": attributes,
            "status": {"code": 0},
            "startTime": [int(EPOCH + start), 0],
            "endTime": [int(EPOCH + end), 0],
            "events": happened,
        }
        for name, id, parent, start, end, attributes, happened in made
    ]


def phoenix(made):
    return [
        {
            "name": name,
            "span_kind": "LLM",
            "parent_id": parent,
            "start_time": f"2026-09-21T14:00:{int(start):02}+00:00",
            "end_time": f"2026-09-21T14:00:{int(end):02}+00:00",
            "status_code": "OK",
            "status_message": "",
            "context.span_id": id,
            "context.trace_id": TRACE,
            "events": happened,
            **{f"attributes.{key}": value for key, value in attributes.items()},
        }
        for name, id, parent, start, end, attributes, happened in made
    ]


EXPORTS = {"otlp": otlp, "python_sdk": python_sdk, "javascript_sdk": javascript_sdk, "phoenix": phoenix}
