"""The plainest script that could do the job: reads a conversation, posts the prompts, prints the replies."""

import asyncio
import json
import sys

import httpx


async def main() -> None:
    url, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(path) as file:
        conversation = json.load(file)
    async with httpx.AsyncClient(timeout=30) as client:

        async def judge(number: int) -> dict:
            body = {
                "model": "m",
                "messages": [
                    {"role": "user", "content": f"Grade by rule {number}:\n{json.dumps(conversation)}"}
                ],
            }
            reply = await client.post(
                f"{url}/chat/completions", json=body, headers={"Authorization": "Bearer k"}
            )
            return json.loads(reply.json()["choices"][0]["message"]["content"])

        for verdict in await asyncio.gather(*map(judge, range(count))):
            print(json.dumps(verdict))


asyncio.run(main())
