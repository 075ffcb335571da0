"""Records an Inspect log with its own mock model: `pip install inspect-ai`, then run this in an empty folder.

`conversations/inspect_anvil.json` is the sample `anvil` of what it writes, without the events.
"""

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, system_message, use_tools
from inspect_ai.tool import tool

IMAGE = "data:image/png;base64," + "iVBORw0KGgo=" * 40


@tool
def weigh():
    async def execute(item: str) -> str:
        """Weigh an item.

        Args:
            item: what to weigh
        """
        if item == "cloud":
            raise PermissionError("clouds are not for weighing")
        return f"{item}: 4 kg " + "x" * 300

    return execute


def counted(output):
    # Without a usage, Inspect fetches a tokenizer to count.
    output.usage = ModelUsage(input_tokens=3, output_tokens=4, total_tokens=7)
    return output


def answers():
    for item in ("anvil", "cloud"):
        yield counted(ModelOutput.for_tool_call("mockllm", "weigh", {"item": item}))
    yield counted(ModelOutput.from_content("mockllm", "The anvil weighs 4 kg; the cloud was refused."))
    yield counted(
        ModelOutput.from_content("mockllm", "A very long answer that was cut", stop_reason="max_tokens")
    )


asked = [ContentText(text="Weigh the anvil and the cloud " + "please " * 40), ContentImage(image=IMAGE)]
weighing = Task(
    dataset=[
        Sample(id="anvil", input=[ChatMessageUser(content=asked)], target="4 kg"),
        Sample(id=2, input="Tell me a story.", target="x"),
    ],
    solver=[system_message("You weigh things. " + "Carefully. " * 30), use_tools(weigh()), generate()],
    scorer=includes(),
)
for form in ("eval", "json"):
    model = get_model("mockllm/model", custom_outputs=answers())
    eval(weighing, model=model, log_dir="logs", log_format=form, max_samples=1, display="none")
