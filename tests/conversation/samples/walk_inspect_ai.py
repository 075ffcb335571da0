"""Texts of Inspect's logs: the messages of every sample, by epoch and then sample, attachments put in."""

import io
import json
import re
import zipfile

from leaves import leaves


def texts(raw):
    if isinstance(raw, bytes):
        raw = {"samples": unzipped(raw)}
    return [text for sample in raw["samples"] for text in of_sample(sample)]


def unzipped(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        samples = [json.loads(archive.read(name)) for name in names]
    return sorted(samples, key=lambda sample: (sample["epoch"], int(sample["id"])))


def of_sample(sample):
    found = []
    for message in sample["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [block["text"] for block in blocks if block["type"] == "text"]
        for call in message.get("tool_calls") or []:
            found += [call["function"], *leaves(call["arguments"])]
        if message.get("error"):
            found.append(message["error"]["message"])
    held = sample.get("attachments", {})
    return [re.sub("attachment://([0-9a-f]{32})", lambda m: held[m[1]], text) for text in found]
