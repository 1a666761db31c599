"""The unmodified SDKs of OpenAI and Anthropic, and LiteLLM's, as clients of a daemon: whole, streamed, with tools.

Usage: python clients.py URL. The daemon's arms are `m` (OpenAI's protocol) and `c` (Anthropic's), served by the test.
"""

import json
import sys

import anthropic
import litellm
import openai

URL = sys.argv[1]
QUESTION = [{"role": "user", "content": "What is 40 + 2?"}]
ARGUMENTS = {"a": 40, "b": 2}
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


def openai_sdk() -> None:
    """Whole, streamed, with a tool, and an error, on workers of both protocols."""
    client = openai.OpenAI(base_url=f"{URL}/v1", api_key="unused", max_retries=0)
    assert {"auto", "m", "c"} <= {model.id for model in client.models.list()}
    for model, said in [("m", "The answer is 42."), ("c", "It is 42.")]:
        answer = client.chat.completions.with_raw_response.create(model=model, messages=QUESTION)
        assert answer.headers["x-pointsman-arm"] == model
        answer = answer.parse()
        assert answer.choices[0].message.content == said, answer
        assert answer.choices[0].finish_reason == "stop" and answer.usage.prompt_tokens > 0
        text, usage = "", None
        options = {"include_usage": True}
        for chunk in client.chat.completions.create(
            model=model, messages=QUESTION, stream=True, stream_options=options
        ):
            usage = chunk.usage or usage
            text += chunk.choices[0].delta.content or "" if chunk.choices else ""
        assert text == said and usage.completion_tokens > 0, (text, usage)
    tool = {"type": "function", "function": {"name": "add", "parameters": PARAMETERS}}
    for model in ("m", "c"):
        answer = client.chat.completions.create(model=model, messages=QUESTION, tools=[tool])
        call = answer.choices[0].message.tool_calls[0]
        assert (call.function.name, json.loads(call.function.arguments)) == ("add", ARGUMENTS), answer
        name, arguments, finish = "", "", None
        for chunk in client.chat.completions.create(model=model, messages=QUESTION, tools=[tool], stream=True):
            for choice in chunk.choices:
                finish = choice.finish_reason or finish
                for part in choice.delta.tool_calls or []:
                    name += part.function.name or ""
                    arguments += part.function.arguments or ""
        assert (name, json.loads(arguments), finish) == ("add", ARGUMENTS, "tool_calls"), (name, arguments, finish)
    try:
        client.chat.completions.create(model="nobody", messages=QUESTION)
    except openai.NotFoundError as error:
        assert "there is no model" in str(error)
    else:
        raise AssertionError("an unknown model was taken")


def anthropic_sdk() -> None:
    """The same for Anthropic's."""
    client = anthropic.Anthropic(base_url=URL, api_key="unused", max_retries=0)
    for model, said in [("m", "The answer is 42."), ("c", "It is 42.")]:
        answer = client.messages.create(model=model, max_tokens=100, messages=QUESTION)
        assert answer.content[0].text == said and answer.stop_reason == "end_turn", answer
        assert answer.usage.input_tokens > 0
        with client.messages.stream(model=model, max_tokens=100, messages=QUESTION) as stream:
            assert stream.get_final_text() == said
            assert stream.get_final_message().usage.output_tokens > 0
    tool = {"name": "add", "description": "adds", "input_schema": PARAMETERS}
    for model in ("m", "c"):
        answer = client.messages.create(model=model, max_tokens=100, messages=QUESTION, tools=[tool])
        with client.messages.stream(model=model, max_tokens=100, messages=QUESTION, tools=[tool]) as stream:
            streamed = stream.get_final_message()
        for said in (answer, streamed):
            call = said.content[0]
            assert (said.stop_reason, call.name, call.input) == ("tool_use", "add", ARGUMENTS), said
    try:
        client.messages.create(model="nobody", max_tokens=100, messages=QUESTION)
    except anthropic.NotFoundError as error:
        assert "there is no model" in str(error)
    else:
        raise AssertionError("an unknown model was taken")


def litellm_sdk() -> None:
    """A client that speaks OpenAI's protocol with code of its own."""
    answer = litellm.completion(model="openai/auto", api_base=f"{URL}/v1", api_key="unused", messages=QUESTION)
    assert "42" in answer.choices[0].message.content
    chunks = litellm.completion(
        model="openai/auto", api_base=f"{URL}/v1", api_key="unused", messages=QUESTION, stream=True
    )
    assert "42" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


for check in (openai_sdk, anthropic_sdk, litellm_sdk):
    check()
    print(f"{check.__name__}: ok", flush=True)
