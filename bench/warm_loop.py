"""A warm process that posts judges' prompts with one HTTP library, conversation after conversation.

`python bench/warm_loop.py LIBRARY URL JUDGES ROUNDS`: prints JSON: each conversation's seconds, and CPU
seconds a call. httpcore and httpx are the barest loops; litellm is a script that has it imported already.
"""

import asyncio
import json
import os
import sys
import time

TALK = [
    {"role": "system", "content": "You are a support agent."},
    {"role": "user", "content": "I want a refund for order 7."},
    {"role": "assistant", "content": "It is on its way."},
]


def body(number: int) -> dict:
    prompt = f"Grade by rule {number}:\n{json.dumps(TALK)}"
    return {"model": "m", "messages": [{"role": "user", "content": prompt}]}


def poster(library: str, url: str):
    """An async function of a judge's number that posts and gives the verdict."""
    if library == "httpcore":
        import httpcore

        pool = httpcore.AsyncConnectionPool()

        async def post(number: int) -> dict:
            headers = {"Authorization": "Bearer k", "Content-Type": "application/json"}
            response = await pool.request(
                "POST", f"{url}/chat/completions", headers=headers, content=json.dumps(body(number)).encode()
            )
            return json.loads(json.loads(response.content)["choices"][0]["message"]["content"])

        return post
    if library == "httpx":
        import httpx

        client = httpx.AsyncClient(timeout=30)

        async def post(number: int) -> dict:
            response = await client.post(
                f"{url}/chat/completions", json=body(number), headers={"Authorization": "Bearer k"}
            )
            return json.loads(response.json()["choices"][0]["message"]["content"])

        return post
    os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_MODE="PRODUCTION")
    import litellm

    litellm.suppress_debug_info = True

    async def post(number: int) -> dict:
        answer = await litellm.acompletion(
            custom_llm_provider="openai", api_base=url, api_key="k", max_retries=0, **body(number)
        )
        return json.loads(answer.choices[0].message.content)

    return post


async def main() -> None:
    library, url, judges, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    post = poster(library, url)
    for _ in range(2):
        await asyncio.gather(*map(post, range(judges)))
    times = []
    before = time.process_time()
    for _ in range(rounds):
        started = time.perf_counter()
        await asyncio.gather(*map(post, range(judges)))
        times.append(time.perf_counter() - started)
    cpu = (time.process_time() - before) / (rounds * judges)
    sys.stdout.write(json.dumps({"times": times, "cpu_per_call": cpu}))


asyncio.run(main())
