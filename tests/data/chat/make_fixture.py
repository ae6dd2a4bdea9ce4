#!/usr/bin/env python3
"""Makes fixture.json: chat templates of this file, rendered by Jinja2 set up as transformers does it.

The templates are written for this test in the manner of the released families; those of the releases themselves are
compared by tests/data/oracle. A case whose template raises holds "raises".
    make_fixture.py > fixture.json
"""
import json
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}
    spans: list = []

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller):
        text = caller()
        Generation.spans.append(text)
        return text


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: "1 Jan 2025"
    return env


TEMPLATES = {
    "turns": """{% for message in messages %}
{{ '<|start|>' + message['role'] + '\\n' + message['content'] + '<|stop|>' + '\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}
""",
    "headers": """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|head|>' + message['role'] + '<|body|>

'+ message['content'] | trim + '<|turn|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|head|>assistant<|body|>

' }}{% endif %}""",
    "brackets": """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate: user, assistant, user') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[Q] ' + content.strip() + ' [/Q]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}""",
    "model_role": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] + '

' -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set first = "" -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<turn>' + role + '
' + (first if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {{ item['text'] | trim if item['type'] == 'text' else '<picture>' }}
        {%- endfor -%}
    {%- endif -%}
    {{ '<end>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<turn>model
'}}
{%- endif -%}
""",
    "thoughts": """{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<s>' + message.role + '\\n' + message.content + '<e>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thought = '' %}
        {%- set content = message.content %}
        {%- if message.thought is defined and message.thought is not none %}
            {%- set thought = message.thought %}
        {%- elif '</think>' in message.content %}
            {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
            {%- set thought = message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or thought) %}
            {{- '<s>assistant\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<s>assistant\\n' + content }}
        {%- endif %}
        {{- '<e>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<s>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}""",
    "selection": """{%- if not tools is defined or tools is none %}{%- set tools = [{"name": "look", "parameters": {"x": 1.5, "ys": ["ä", null_value|default(none)]}}] %}{%- endif %}
{%- set users = messages | selectattr("role", "equalto", "user") | list %}
{%- for m in messages | rejectattr("role", "equalto", "user") | selectattr("tool_calls", "undefined") %}
{{- loop.index }}/{{ loop.length }} {{ m.role }}{{ ", " if not loop.last }}
{%- endfor %}
{%- for tool in tools %}
{%- for key, val in tool.items() if key != "name" %}
{{- '"' + key + '": ' + val|tojson }}
{%- endfor %}
{{ tool | tojson(indent=4) }}
{%- endfor %}
{{ users | map(attribute="content") | join(" | ") }} {{ users[-1].content[:3] }} {{ (users | length) * 2 // 3 }} {{ users|length / 2 }}
{%- set out = users[0]|tojson %}
{{ out[:-1] }} {{ messages | length }} {{ messages[0].role | upper }} {{ "Grüße"|length }} {{ "Grüße"[-2:] }}""",
    "spaces": """start
  {% if true %}
    kept
  {% endif %}
  {%+ if true %} plus {% endif +%}
  after
{# a comment #}
  {# another #} tail
{%- for x in [1, 2, 3] -%}
   {{ x }}
   {%- if not loop.last %}, {% endif -%}
{%- endfor %}
text {{- ' tight ' -}} text
	{% set block %}
 inside {{ messages[0].role }}
{% endset %}
[{{ block }}]
end

""",
    "expressions": """{{ 7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 1.5 + 1 }} {{ -3 + 1 }}
{{ 'a' ~ 1 ~ none ~ true }} {{ 'ab' in 'cabd' }} {{ 3 not in [1, 2] }} {{ 'role' in messages[0] }} {{ not false and 1 or 0 }}
{{ [1, 'two', none, true, {'k': 'it''s'}] }} {{ (1, 2)[0] }} {{ {'a': 1, 'b': [2]}.b[0] }} {{ 'x' if false }}|{{ missing }}|{{ missing is defined }}
{{ range(3) | list }} {{ range(5, 1, -2) | list }} {{ [1, 2, 3, 4][1:3] }} {{ [1, 2, 3, 4][::-2] }} {{ [1, 2, 3][-5:2] }} {{ 'abc'[::-1] }} {{ [1][5:] }}
{{ '  x '|trim }}.{{ 'xxaxx'.strip('x') }}.{{ 'a,b,,c'.split(',') }}.{{ ' a  b '.split() }}.{{ 'a-b-c'.split('-', 1) }}.{{ 'x'.upper() }}.{{ 'ÄX'.lower() }}
{{ 'hello world'|capitalize }} {{ 'aXbX'|replace('X', '--') }} {{ ['a', 'b']|join('+') }} {{ ['a', 'b']|first }} {{ ['a', 'b']|last }} {{ 'x'|default('y') }} {{ missing|default('y') }} {{ ''|default('z', true) }}
{{ {'a': 'ü\\n"q"', 'b': [1, 2.0, true, none], 'c': {}} | tojson }} {{ [] | tojson }} {{ [1, {'x': []}] | tojson(indent=2) }}
{{ 5 is number }} {{ 5 is integer }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is iterable }} {{ none is none }} {{ 4 is even }} {{ 4 is odd }} {{ true is boolean }} {{ 1 is not none }}
{{ '12'|int + 1 }} {{ 3.9|int }} {{ 12|string + '!' }} {{ [3, 1] == [3, 1] }} {{ 'b' > 'a' }} {{ 1 <= 1 }} {{ [1, 2]|length == 2 }} {{ strftime_now("%d %b %Y") }}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %} {% for x in [] %}never{% else %}empty{% endfor %} {% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
{{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 7) }} {{ {'a': 1, 'b': 2}.keys()|list }} {{ {'a': 1, 'b': 2}.values()|list }} {{ "tab\\tnew" }} {{ 'a' 'b' }} {{ ['x', 'y']|reverse|list }} {{ 'line\\nline'|indent(2) }}
""",
    "marked": """{% for message in messages %}{% if message.role == 'assistant' %}<a>{% generation %}{{ message.content }}<eos>{% endgeneration %}
{% else %}<{{ message.role }}>{{ message.content }}
{% endif %}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}""",
}

CONVERSATIONS = {
    "short": [{"role": "user", "content": "Hello there"}],
    "system": [
        {"role": "system", "content": "  Be brief.\n"},
        {"role": "user", "content": "What's 2 + 2?\n"},
        {"role": "assistant", "content": "<think>\nadd\n</think>\n\n4"},
        {"role": "user", "content": "Größer als 3? 👍 \"quoted\""},
    ],
    "answered": [
        {"role": "user", "content": "One\u00a0"},
        {"role": "assistant", "content": "1 ", "thought": "easy"},
        {"role": "user", "content": "<r>tool says</r>"},
        {"role": "assistant", "content": "\n2"},
    ],
    "disordered": [{"role": "assistant", "content": "I begin"}, {"role": "user", "content": "Do you?"}],
    "pictures": [
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " What is it? "}]},
    ],
}


def main():
    env = environment()
    cases = []
    for name, source in TEMPLATES.items():
        for about, messages in CONVERSATIONS.items():
            for prompt in (False, True):
                Generation.spans = []
                case = {"template": name, "conversation": about, "prompt": prompt}
                try:
                    case["text"] = env.from_string(source).render(
                        messages=messages, tools=None, documents=None, add_generation_prompt=prompt, bos_token="<bos>", eos_token="<eos>")
                    case["generated"] = Generation.spans
                except (jinja2.exceptions.TemplateError, TypeError) as error:
                    case["raises"] = str(error)
                cases.append(case)
    json.dump({"jinja2": jinja2.__version__, "templates": TEMPLATES, "conversations": CONVERSATIONS, "cases": cases},
              sys.stdout, indent=1, ensure_ascii=False)
    print()


main()
