"""The judge file that `init judge` writes: valid as it is, with what else may stand in it as comments."""

from typing import Final

# The modeline is for editors with yaml-language-server; `schema judge` writes the file that it names.
_TEMPLATE: Final = """\
# yaml-language-server: $schema=./judge.schema.json
# (write it once: sandbox-judge schema judge > judges/judge.schema.json)
#
# {name}: edit the instructions, then `sandbox-judge check` and a dry run.
name: {name}

# One line for people. It does not reach the model.
description: What this judge looks for.

# When the judge applies: any entry suffices; within one, all of `match` must hold.
# Leave `on` out to judge every conversation. Regexes (/.../i) are searched for; other text must be equal.
on:
  - event: message
    match:
      role: user
      text: '/refund|money back/i'
  # - event: tool          # a call together with its result
  #   match:
  #     name: issue_refund
  #     args.amount: 100   # a number as JSON; put words such as yes, no, on and off in quotes
  #     status: error      # ok, error or missing
  # - event: feedback
  #   match:
  #     sentiment: negative

# The rubric. The verdicts are always pass, fail and not_applicable.
instructions: |
  Judge whether the assistant answered the user's question.

  pass: every question has an answer that the conversation supports.
  fail: a question has no answer, or one that the conversation contradicts.
  not_applicable: the user asked nothing.

llm:
  # provider: openai       # the default
  model: gpt-5-mini
  # request:
  #   temperature: 0
  #   max_tokens: 1024
  #   reasoning_effort: low
  # transport:             # one call's limits; the run's budget is a live setting
  #   timeout_ms: 60000
  #   max_retries: 1
  # local:                 # an OpenAI-compatible endpoint of your own
  #   base_url: http://localhost:8080/v1
  #   api_key_env: JUDGE_LOCAL_KEY
"""


def judge_template(name: str) -> bytes:
    """The bytes of a new judge file. `name` must be a judge's name."""
    return _TEMPLATE.format(name=name).encode("utf-8")
