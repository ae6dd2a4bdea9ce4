#!/usr/bin/env python3
"""Compares a published chat template, rendered here, with Jinja2 set up as transformers does it.
    chat.py TOKENIZER_LINES NAME DIRECTORY
"""
import datetime
import json
import subprocess
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

tool, name, directory = sys.argv[1:]
config = json.load(open(f"{directory}/tokenizer_config.json", encoding="utf-8"))


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


system = {"role": "system", "content": "  Be brief.\n"}
conversations = [
    [user("Hello")],
    [system, user(" What's 2 + 2? ")],
    [user("a"), assistant("b\n"), user('Größe 👍 "q" \\n {{ x }}')],
    [system, user("a"), assistant("<think>\nhm\n</think>\n\nb"), user("c"), assistant("<think>\nso\n</think>\n\n d ")],
    [user("a"), user("b")],
    [assistant("I begin")],
]


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
environment.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
template = environment.from_string(config["chat_template"])
special = {}
for key in ("bos_token", "eos_token", "unk_token", "pad_token"):
    token = config.get(key)
    if token:
        special[key] = token["content"] if isinstance(token, dict) else token

with open("conversations.json", "w", encoding="utf-8") as file:
    json.dump(conversations, file)
ours = json.loads(subprocess.run([tool, "chat", directory, "conversations.json"], check=True, capture_output=True).stdout)
wrong = 0
for i, messages in enumerate(conversations):
    for j, prompt in enumerate((False, True)):
        try:
            theirs = template.render(messages=messages, tools=None, documents=None, add_generation_prompt=prompt, **special)
        except jinja2.exceptions.TemplateError:
            theirs = None  # it refuses the conversation, and so must we
        if ours[2 * i + j] != theirs:
            wrong += 1
            print(f"{name}: conversation {i}\n  ours   {ours[2 * i + j]!r}\n  theirs {theirs!r}", file=sys.stderr)
print(f"{name}: chat template, {len(ours)} texts, {wrong} differ")
sys.exit(1 if wrong or len(ours) != 2 * len(conversations) else 0)
