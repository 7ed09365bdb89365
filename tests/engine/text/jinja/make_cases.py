#!/usr/bin/env python3
"""Writes cases.json: what Python's jinja2, set up as transformers does it, makes of the snippets below.

usage: tests/engine/text/jinja/make_cases.py > tests/engine/text/jinja/cases.json
"""

import json
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "  Grüße,\n\tWelt & <b>'s\" 你好 🎉  "},
        {"role": "assistant", "content": None, "tool_calls": [
            {"type": "function", "id": "c1", "function": {"name": "f", "arguments": {"a": 1, "b": [1.5, None, True]}}}]},
    ],
    "tools": [{"type": "function", "function": {"name": "get", "description": "d\u00e9", "parameters": {
        "type": "object", "properties": {"x": {"type": ["string", "null"]}, "n": {"type": "integer"}},
        "required": ["x"], "items": 3}}}],
    "people": [{"name": "Bob", "age": 31, "city": "Rome"}, {"name": "alice", "age": 25, "city": "oslo"},
               {"name": "Carl", "age": 25, "city": "rome"}],
    "nums": [3, 1, 2], "empty": [], "none_value": None, "yes": True, "no": False, "text": "Hello, World", "f": 1.5,
    "nested": {"a": {"b": [10, {"c": "deep"}]}, "keys": "shadowed", "1": "one"},
    "bos_token": "<s>", "eos_token": "</s>", "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}],
}

# One line a case, by topic.
SNIPPETS = {
    "printing": r"""
{{ 1 }} {{ 1.0 }} {{ -1.5e300 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 123456789.123 }}
{{ true }} {{ True }} {{ none }} {{ None }} {{ false }}
{{ [1, 'a', "it's", 'q"q', "both'\"", none, true, 1.0] }}
{{ {'a': 1, 'b': [1, (2,)], 3: ()} }} {{ (1, 2) }} {{ (1,) }} {{ 1, 2 }}
{{ ['\n\t\\\r', 'é', '\x07', '​', 'a b', '🎉'] }}
{{ missing }}|{{ missing|string }}|{{ [missing] }}
{{ messages[0] }} {{ nested }}
{{ range(3) }} {{ range(1, 10, 3) }} {{ range(3)|list }} {{ range(5, 0, -2)|list }}
{{ nested.items() }} {{ nested.a.keys() }} {{ {'a': 1}.values() }}
{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1e3 }} {{ 1.5E-3 }}
{{ 'a' 'b' "c" }} {{ 'x\'y' }} {{ "\u00e9\x41\101\t|" }} {{ 'a\qb' }}
""",
    "operators": r"""
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ - 3 }} {{ +3 }} {{ 10 - 2 - 3 }} {{ 2 * 3 % 4 }}
{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ [1] + [2] }} {{ [0] * 3 }} {{ (1,) + (2,) }} {{ true + 1 }} {{ 1 + 1.0 }}
{{ 'a' ~ 1 ~ none ~ 1.5 ~ [1] ~ missing ~ true }}
{{ 1 ~ 2 + 3 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 'a' == 1 }} {{ none == none }} {{ 1 != 2 }} {{ (1,2) == (1,2) }} {{ [1] == (1,) }}
{{ 2 in [1, 2] }} {{ 'el' in 'hello' }} {{ 'a' in {'a': 1} }} {{ 3 not in [1] }} {{ not 1 in [1] }} {{ '' in 'a' }} {{ 1 in missing }} {{ 'x' in ('x', 'y') }}
{{ 1 and 2 }} {{ 0 or 'x' }} {{ none and 1 }} {{ not none }} {{ not 0 and not '' }} {{ [] or {} or 'z' }} {{ 1 and 0 or 3 }}
{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' }}|{{ 'a' if no }}|{{ 'a' if no else 'b' if no else 'c' }}
{{ -1|abs }} {{ -f|abs }} {{ 3 - 1|abs }} {{ 'a' ~ 'b'|upper }} {{ ('a' ~ 'b')|upper }} {{ 1 if 0 else 2|string + 'x' }}
{{ '%s is %d, %5.2f|%-5s|%05d|%x|%r|%%|%+d|%5s' % ('a', 3, 1.234, 'l', 42, 255, 'q', 5, 'r') }}
{{ '%(a)s-%(b)03d' % {'a': 'x', 'b': 7} }} {{ '%s' % 'one' }} {{ '%s' % [1, 2] }} {{ '%e %g %g' % (12345.678, 0.00001, 1e20) }} {{ '%.3s|' % 'abcdef' }} {{ '%c%c' % ('x', 65) }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ missing + 1 }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing() }}
{{ none_value.x }}|{{ none_value.x is defined }}
{{ none_value.x.y }}
{{ 1 / 0 }}
{{ 1 < 'a' }}
{{ 5 in 'abc' }}
{{ text() }}
{{ for }}
""",
    "subscripts": r"""
{{ nums[0] }} {{ nums[-1] }} {{ nums[10] }}|{{ nums[10] is defined }} {{ nums.0 }} {{ nested['a']['b'][1].c }} {{ nested.a.b[0] }} {{ nested['1'] }}
{{ text[0] }} {{ text[-1] }} {{ text[1:4] }} {{ text[:-7] }} {{ text[::-1] }} {{ text[::2] }} {{ text[-3:] }} {{ text[5:2] }}|{{ text[100:] }}|{{ text[20] }}|
{{ nums[1:] }} {{ nums[:1] }} {{ nums[::-1] }} {{ nums[:] }} {{ (1,2,3)[1:] }} {{ nums[-2:] }} {{ nums[10:] }} {{ nums[2:0:-1] }} {{ nums[:100] }} {{ nums[none:2] }}
{{ messages[1].content[2:7] }} {{ messages[1]['content'][-6:-2] }} {{ messages[1].content[::-1] }}
{{ nested.keys is callable }}
{{ nested['keys'] }} {{ nested.missing is defined }} {{ nested['missing'] is defined }} {{ tools[0].function.parameters['items'] }} {{ tools[0].function.parameters.items() | length }}
{{ tools[0]['function']['parameters'].required[0] }} {{ messages[0]['role'] }} {{ messages[5] is defined }} {{ messages[0].get('x') }} {{ messages[0].get('x', 'y') }} {{ messages[0].get('role') }}
{{ {'a': 1}['a'] }} {{ {1: 'x'}[1] }} {{ {1: 'x'}[1.0] }} {{ {'a': {'b': 2}}.a.b }} {{ {(1, 2): 3}[1, 2] }}
{{ nums['x'] }}|{{ nums.x }}|{{ text.x }}|{{ 5 .x }}|
{{ text['upper']() }} {{ nested['get']('1') }} {{ 'abc'.upper.x is defined }}
{{ range(10)[2:5]|list }} {{ range(10)[3] }} {{ range(4)|length }}
{{ nums[::0] }}
{{ nums['a':] }}
""",
    "whitespace": r"""
a{% if yes %}\nb\n{% endif %}\nc
  {% if yes %}\n  b\n  {% endif %}\nc
a {%- if yes -%} b {%- endif -%} c
a\n  {%- if yes %}  b  {% endif -%}\n  c
  {%+ if yes %}x{% endif %}\n
{% if yes +%}\nx{% endif %}
a {{- 1 -}} b {{ 2 }} c\n{{ 3 }}\n
a{# comment #}\nb {#- strip -#} c\n  {# own line #}\nd
{% raw %}{{ x }} {% if %}{% endraw %}|{%- raw -%}  {{ y }}  {%- endraw -%} z
  {% raw %}\n  {{ a }}\n  {% endraw %}\nb
line\n
line\n\n
\r\na\r\n{% if yes %}\r\nb\r{% endif %}\r\nc
{{ "{{ x }}" }}{{ '{% x %}' }}{{ '}}' }}
{ {x} } {x {{ {'a': {}} }} #} %} }}
{{ 'a\nb' }}{{ "tab\there" }}
\t{% set x = 1 %}\t{{ x }}
   {% set x = 1 %}   {% set y = 2 %}\nz
x {% set x = 1 %}\ny
{%- for i in nums %}\n  {{ i }}\n{%- endfor %}\nend
{%- for i in nums -%}\n  {{ i }}\n{% endfor -%}\nend
<a>\n    {%- if yes %}\n        yes\n    {%- else %}\n        no\n    {%- endif %}\n</a>
""",
    "statements": r"""
{% if no %}a{% elif yes %}b{% else %}c{% endif %}{% if no %}a{% elif no %}b{% else %}c{% endif %}{% if missing %}x{% endif %}
{% for i in nums %}{{ i }}{% else %}none{% endfor %}{% for i in empty %}{{ i }}{% else %}none{% endfor %}{% for i in missing %}x{% else %}e{% endfor %}
{% for i in nums %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}|{% endfor %}
{% for i in nums %}{{ loop.previtem }}-{{ loop.nextitem }}-{{ loop.previtem is defined }};{% endfor %}
{% for i in nums %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}{{ loop.depth }}{% endfor %}
{% for i in range(10) if i % 2 %}{{ i }}{{ loop.index }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for k, v in nested.items() %}{{ k }}={{ v }};{% endfor %}{% for k in nested %}{{ k }},{% endfor %}
{% for k, v in {'b': 1, 'a': 2}|dictsort %}{{ k }}{{ v }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for c in 'héy' %}{{ c }}.{% endfor %}{% for i in (1, 2) %}{{ i }}{% endfor %}{% for i in 1, 2 %}{{ i }}{% endfor %}
{% for i in nums %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}|{% for i in nums %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in nums %}{% for j in nums %}{{ loop.index }}{% if j == 1 %}{% break %}{% endif %}{% endfor %}{{ loop.index }};{% endfor %}
{% for i in range(3) %}{% set ns = namespace(v=i) %}{% for j in range(2) %}{% set ns.v = ns.v + j %}{% endfor %}{{ ns.v }},{% endfor %}{{ ns is defined }}
{% for m in messages if m.role != 'system' %}{{ loop.first }}{{ loop.last }}{{ m.role }}{{ loop.nextitem.role if loop.nextitem is defined }};{% else %}none{% endfor %}
{% for i in range(messages|length - 1, -1, -1) %}{{ messages[i].role }}{% if messages[i].role == 'user' %}{% break %}{% endif %}{% endfor %}
{% set ns = namespace(on=true) %}{% for i in nums if ns.on %}{{ i }}{% if i == 1 %}{% set ns.on = false %}{% endif %}{% endfor %}
{% for message in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{{ index }}{{ message.role }}{% endfor %}
{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}
{% macro m(x) -%}  {{ x }}  {%- endmacro %}[{{ m(1) }}][{{- m(2) -}}]{% set r = m(3) %}{{ r is string }}{{ r ~ r }}
{% if messages[0].role == 'system' %}{% set system_message = messages[0].content|trim %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ system_message }}{{ rest|length }}
{% set content %}{% for m in messages %}{{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}{% endset %}{{ content|upper }}
{% for key in tools[0].function %}{{ key }}{% if tools[0].function[key] is mapping %}{{ tools[0].function[key]|length }}{% endif %};{% endfor %}
{% for n in tree recursive %}{{ n.v }}{{ loop.depth }}[{{ loop(n.c) }}]{% endfor %}
{% set x = 1 %}{% for i in nums %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(a=1, b='x') %}{% for i in nums %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{% set ns.c = 5 %}{{ ns.c }}
{% set ns = namespace({'q': 2}, r=3) %}{{ ns.q }}{{ ns.r }}{{ ns['q'] }}
{% if yes %}{% set y = 2 %}{% endif %}{{ y }}{% if no %}{% set z = 2 %}{% endif %}{{ z is defined }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% set t = 1, 2 %}{{ t }}
{% set x %}a{{ 1 }}{% set inner = 5 %}{{ inner }}b{% endset %}{{ x }}{{ inner is defined }}{{ x is string }}
{% set x | upper | replace('A', 'z') %}aba{% endset %}{{ x }}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a is defined }}{{ c is defined }}
{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% filter upper %}abc {{ 'x' }}{% endfilter %}{% filter replace('a', 'b') | trim %} aaa {% endfilter %}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(c=5, a=0) }}{{ m() }}|{{ m(1, 2, 3)|length }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m() }}
{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body{{ yes }}{% endcall %}
{% macro m(x) %}{{ caller(x, 2) }}{% endmacro %}{% call(a, b) m(7) %}{{ a }}-{{ b }}{% endcall %}
{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(5) }}
{% macro m() %}{{ g }}{% endmacro %}{% set g = 5 %}{{ m() }}{{ m.name }}{{ m.arguments }}
{% macro m(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ m(3) }}
{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}
{% macro m(a) %}{% set a = a + 1 %}{{ a }}{% endmacro %}{% set a = 10 %}{{ m(1) }}{{ a }}
{% for i in nums %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}
{% set loop_messages = messages[1:] %}{% for message in loop_messages %}{{ message.role }}{% endfor %}
{% generation %}gen {{ text }}{% endgeneration %}|{% for m in messages %}{% generation %}{{ m.role }}{{ loop.index }}{% endgeneration %}{% endfor %}
{% block b %}block{{ text }}{% endblock %}{% block c %}c{% endblock c %}
{% print 1, 2 %}{% if yes: %}a{% endif %}{% for i in nums: %}{{ i }}{% endfor %}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('-') %}{{ j() }}{{ j() }}{{ j() }}
{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}{{ dict([('a', 1)]) }}
{% set a = [] %}{% set _ = a.append(1) %}{{ a }}
{% set a = {} %}{{ a.update({'x': 1}) }}
{{ raise_exception('No way: ' ~ text) }}
{% set text.x = 1 %}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% call nothing() %}{% endcall %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% for i in 5 %}{% endfor %}
{{ range(1000000) }}
{{ strftime_now('%d %b %Y') }} {{ strftime_now("%Y-%m-%d %H:%M") }} {{ strftime_now('') }}|
{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{% if messages | selectattr('role', 'equalto', 'nobody') %}generator{% endif %}
{% set g = nums | map('string') %}{{ g | list }}{{ g | list }}{{ nums | map('string') | first }}
""",
    "tests": r"""
{{ 1 is odd }} {{ 2 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 'a' is string }} {{ 1 is number }} {{ 1.0 is float }} {{ 1 is integer }} {{ true is integer }} {{ true is number }} {{ true is boolean }}
{{ x is defined }} {{ text is defined }} {{ x is undefined }} {{ none is none }} {{ text is not none }} {{ none_value is defined }} {{ x is none }} {{ true is true }} {{ false is false }} {{ 1 is true }} {{ yes is true }}
{{ {} is mapping }} {{ [] is mapping }} {{ [] is sequence }} {{ 'a' is sequence }} {{ {} is sequence }} {{ 1 is sequence }} {{ [] is iterable }} {{ 1 is iterable }} {{ 'a' is iterable }} {{ {} is iterable }} {{ range(2) is sequence }} {{ none is iterable }} {{ x is iterable }} {{ (1,) is sequence }} {{ {}.items() is sequence }}
{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'aB' is lower }} {{ '1' is lower }} {{ range is callable }} {{ 1 is callable }} {{ text.upper is callable }} {{ text is callable }}
{{ 1 is eq 1 }} {{ 1 is ne 1 }} {{ 1 is lt 2 }} {{ 1 is le 1 }} {{ 1 is gt 2 }} {{ 1 is ge 2 }} {{ 1 is equalto 1 }} {{ 2 is greaterthan 1 }} {{ 1 is lessthan 0 }} {{ 1 is in [1] }} {{ 'a' is in 'abc' }} {{ 1 is sameas 1 }} {{ none is sameas none }} {{ true is sameas 1 }} {{ 1 is not in [2] }}
{{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 'x'|e is escaped }} {{ 'x' is escaped }}
{{ 1 is odd and 2 is even }} {{ not 1 is odd }} {{ 1 is not odd }} {{ 1 is odd or false }} {{ 'y' if 1 is odd else 'n' }} {{ (1 is odd) is true }}
{{ messages[2].content is none }} {{ messages[2].tool_calls is defined and messages[2].tool_calls is not none }} {{ messages[0].tool_calls is defined }}
{{ 1 is nope }}
{% if no %}{{ 1 is nope }}{{ 1|nope }}{% endif %}fine
{{ 1|nope }}
""",
    "filters": r"""
{{ -5|abs }} {{ nums|batch(2)|list }} {{ nums|batch(2, 'x')|list }} {{ 'hELLO wORLD'|capitalize }} [{{ 'ab'|center(7) }}] [{{ 'abc'|center(6) }}] {{ nums|count }} {{ x|d('q') }} {{ x|default(1) }} {{ ''|default('e', true) }} {{ none|default('n') }} {{ none|d('n', boolean=true) }} {{ x|default }}|
{{ {'B': 2, 'a': 3, 'C': 1}|dictsort }} {{ {'B': 2, 'a': 3}|dictsort(true) }} {{ {'b': 2, 'a': 3}|dictsort(by='value') }} {{ {'b': 2, 'a': 3}|dictsort(reverse=true) }}
{{ '<a href="x">\'&</a>'|e }} {{ '<'|escape|escape }} {{ '<'|forceescape }} {{ '<'|safe }} {{ ('<'|e) + '<' }} {{ '<'|safe ~ '<' }}
{{ nums|first }} {{ nums|last }} {{ empty|first }}|{{ 'abc'|first }} {{ 'abc'|last }} {{ '3.7'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 2|float }} {{ '1e3'|float }}
{{ '%s %s'|format('a', 1) }} {{ '%(a)s'|format(a=3) }} {{ '{} {1} {x} {0!r} {y[0]} {z.a}'.format('p', 'q', x=1, y=[5], z={'a': 1}) if false else '' }}
{{ '{} {} {x}'.format('p', 'q', x=1) }} {{ '{0} {1} {0}'.format(1, 2) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}|{:x}|{!r}'.format('a', 'b', 'c', 42, 3.14159, 1234567, 255, 'r') }} {{ '{{}}'.format() }} {{ '{a[k]} {a[0]}'.format(a={'k': 1, 0: 2}) }} {{ '{:e} {:g} {:%} {:+} {:*^9}'.format(1234.5, 0.1, 0.25, 3, 'mid') }} {{ '{:{w}}|'.format('a', w=4) }} {{ '{:d} {} {:5}|{:5}|'.format(true, true, 1, 1.5) }} {{ '{:.3}|{:.3}|{:10.4f}|{:<8}|'.format('abcdef', 3.14159, 2.5, 1) }}
{% for g, items in people|groupby('city') %}{{ g }}:{{ items|map(attribute='name')|join(',') }};{% endfor %}{{ people|groupby('age')|map('first')|list }} {{ (people|groupby('age')|first).grouper }} {{ (people|groupby('age')|first).list|length }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2) }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}|{{ 'a\nb\n'|indent('> ', first=true) }}|{{ ''|indent }}|
{{ '42'|int }} {{ '4.7'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '0x1f'|int(base=16) }} {{ 3.9|int }} {{ -3.9|int }} {{ ' 12 '|int }} {{ true|int }} {{ none|int(-1) }} {{ '1_000'|int }} {{ '101'|int(0, 2) }}
{{ {'a': 1}|items|list }} {{ x|items|list }} {{ nums|join }} {{ nums|join(', ') }} {{ people|join('-', attribute='name') }} {{ people|map(attribute='name')|join('|') }} {{ 'abc'|join('.') }} {{ [1, none, 'x', 1.5]|join(',') }}
{{ nums|length }} {{ 'héllo'|length }} {{ {}|length }} {{ x|length }} {{ 'abc'|list }} {{ {'a': 1}|list }} {{ 'ÀÉ'|lower }} {{ 1|upper }} {{ 'straße é'|upper }} {{ true|lower }}
{{ ['a', 'B']|map('upper')|list }} {{ people|map(attribute='age')|list }} {{ people|map(attribute='zip', default='?')|list }} {{ nums|map('string')|join }} {{ [[1, 2], [3]]|map('first')|list }} {{ [1, 2]|map('float')|list }} {{ ['a b', 'c']|map('replace', ' ', '_')|list }} {{ [{'a': {'b': 1}}]|map(attribute='a.b')|list }} {{ [[1, 2]]|map(attribute=1)|list }}
{{ nums|max }} {{ nums|min }} {{ ['b', 'A']|min }} {{ ['b', 'A']|max(case_sensitive=true) }} {{ people|max(attribute='age') }} {{ empty|max }}|{{ [1, 2.5]|max }}
{{ nums|reject('odd')|list }} {{ nums|select('odd')|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ [0, 1]|reject|list }} {{ people|selectattr('age', 'gt', 30)|map(attribute='name')|list }} {{ people|rejectattr('age', 'equalto', 25)|list|length }} {{ people|selectattr('name')|list|length }} {{ people|selectattr('zip', 'defined')|list }} {{ messages|rejectattr('content', 'none')|list|length }} {{ nums|select('in', [1, 2])|list }} {{ nums|select('>', 1)|list }}
{{ 'aaa'|replace('a', 'b') }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 'abc'|replace('', '-') }} {{ 123|replace(2, 'x') }} {{ 'abc'|reverse }} {{ nums|reverse|list }} {{ 'a\nb'|replace('\n', '\\n') }}
{{ 42.55|round }} {{ 42.55|round(1) }} {{ 42.5|round }} {{ 43.5|round }} {{ 2.675|round(2) }} {{ 42|round }} {{ 42.55|round(1, 'floor') }} {{ 42.1|round(0, 'ceil') }} {{ 1234.5|round(-2) }} {{ 42.55|round|int }}
{{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 'x')|list }} {{ nums|sort }} {{ nums|sort(reverse=true) }} {{ ['b', 'A', 'c']|sort }} {{ ['b', 'A', 'c']|sort(case_sensitive=true) }} {{ people|sort(attribute='age,name')|map(attribute='name')|list }} {{ people|sort(attribute='name')|map(attribute='name')|list }} {{ 'bca'|sort }}
{{ 5|string + 'x' }} {{ nums|sum }} {{ people|sum(attribute='age') }} {{ nums|sum(start=10) }} {{ [1.5, 2]|sum }} {{ "they're bill's friends-of (mine) <x>"|title }} {{ "they're bill's".title() }}
{{ nums|tojson }} {{ {'a': 1, 'b': [true, none, 1.5, 'é"\n\t\\/\x7f']}|tojson }} {{ tools[0]|tojson }} {{ {'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true) }} {{ 'é🎉'|tojson(ensure_ascii=true) }} {{ {'a': 1, 'b': [2]}|tojson(separators=(',', ':')) }} {{ (1, 'a')|tojson }} {{ 1e20|tojson }} {{ 1.0|tojson }} {{ '<>&\''|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}
{{ tools|tojson(indent=2) }}|{{ {'a': [], 'b': {}, 'c': [1, {'d': 2}]}|tojson(indent=4) }}|{{ [1, [2]]|tojson(indent='\t') }}|{{ {'b': 1, 'a': 2}|tojson(indent=1, sort_keys=true) }}|{{ [1]|tojson(indent=0) }}|{{ [1, 2]|tojson(indent=2, separators=(', ', ' : ')) }}
{{ x|tojson }}
{{ range(3)|tojson }}
[{{ '  a b \n'|trim }}] [{{ 'xxaxx'|trim('x') }}] [{{ ' a '|trim|length }}] {{ 'hello wonderful world'|truncate(11) }} {{ 'hello wonderful world'|truncate(11, true) }} {{ 'hello wonderful world'|truncate(11, false, '…', 0) }} {{ 'short'|truncate(3, leeway=5) }} {{ 'foo bar baz qux'|truncate(9) }}
{{ [1, 2, 1, 'a', 'A', true]|unique|list }} {{ ['a', 'A']|unique(true)|list }} {{ people|unique(attribute='age')|map(attribute='name')|list }} {{ 'a b/c?d=é&'|urlencode }} {{ {'a b': 'c/d', 'e': 1}|urlencode }} {{ [('a', 1)]|urlencode }}
{{ 'one two, three-four'|wordcount }} {{ {'class': 'x y', 'id': none, 'n': 1, 'q': '"<'}|xmlattr }} {{ {'a': 1}|xmlattr(false) }} {{ 1000|filesizeformat }} {{ 1|filesizeformat }} {{ 123456789|filesizeformat }} {{ 2048|filesizeformat(true) }} {{ 500|filesizeformat }}
{{ text|attr('upper') is callable }} {{ nested|attr('a') is defined }}
{{ none|upper }} {{ x|upper }}| {{ x|join(',') }}| {{ x|list }} {{ x|trim }}| {{ x|int(3) if false else '' }} {{ none|string }} {{ none|trim }} {{ 5|trim }} {{ nums|string }}
{{ messages[1].content|trim|replace('\n', ' ')|upper }} {{ messages|map(attribute='role')|join(',') }} {{ messages|selectattr('role', 'in', ['user', 'system'])|map(attribute='role')|list }} {{ (messages|last).tool_calls[0].function.arguments|tojson }} {{ messages[2].tool_calls|map(attribute='function')|map(attribute='name')|join }}
{{ none|length }}
{{ 5|first }}
{{ 'a'|batch }}
{{ 'a'|upper(1) }}
{{ 'a'|indent(nope=1) }}
{{ nums|join(',', nope=1) }}
{{ (nums|select('odd'))|last }}
{{ (nums|map('string'))|length }}
{{ ['a', 1]|sort }}
{{ none|items|list }}
""",
    "methods": r"""
{{ text.upper() }} {{ text.lower() }} {{ 'abc def'.title() }} {{ 'aBC'.capitalize() }} {{ 'aBc'.swapcase() }} [{{ '  x '.strip() }}] [{{ '  x '.lstrip() }}] [{{ '  x '.rstrip() }}] {{ 'xyaxy'.strip('xy') }} {{ 'xyaxy'.lstrip('yx') }} {{ 'a\n\n'.rstrip('\n') }}|
{{ 'a,b,,c'.split(',') }} {{ 'a b  c '.split() }} {{ ' a b c'.split(' ') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ '  a b  c  '.split(none, 1) }} {{ '  a b  c  '.rsplit(maxsplit=1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a</think>b</think>c'.split('</think>')[-1] }} {{ 'a</think>b'.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }} {{ 'aaa'.rsplit('aa') }} {{ 'aaa'.split('aa') }}
{{ 'a\nb\r\nc\n'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ 'k=v=w'.partition('=') }} {{ 'k=v=w'.rpartition('=') }} {{ 'x'.partition('=') }} {{ 'x'.rpartition('=') }}
{{ text.startswith('Hel') }} {{ text.endswith('ld') }} {{ text.startswith(('x', 'H')) }} {{ text.endswith(('x',)) }} {{ text.startswith('ello', 1) }} {{ text.startswith('') }} {{ text.endswith('World', 0, 5) }}
{{ text.find('o') }} {{ text.rfind('o') }} {{ text.find('z') }} {{ text.index('W') }} {{ text.rindex('l') }} {{ text.count('l') }} {{ 'aaaa'.count('aa') }} {{ 'abc'.count('') }} {{ 'äöü'.find('ü') }} {{ text.find('o', 5) }} {{ text.count('o', 0, 5) }} {{ text.find('', 3) }}
{{ 'aaa'.replace('a', 'b') }} {{ 'aaa'.replace('a', 'b', 1) }} {{ ', '.join(['a', 'b']) }} {{ ''.join([]) }} {{ '-'.join('abc') }} {{ 'abc'.replace('', '.') }} {{ 'x'.replace('x', '') }}|
{{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'ab'.islower() }} {{ 'AB'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ 'é'.isalpha() }} {{ '1.5'.isdigit() }} {{ '5'.isdecimal() }} {{ '5'.isnumeric() }}
{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ 'x'.removeprefix('y') }} [{{ 'ab'.center(7, '*') }}] [{{ 'ab'.ljust(4) }}] [{{ 'ab'.rjust(4, '0') }}] {{ '-42'.zfill(5) }} {{ '42'.zfill(5) }} {{ 'ABC'.casefold() }} {{ 'abc'.center(6) }}| {{ 'abcd'.center(7) }}|
{{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 2) }} {{ {'a': 1}.keys()|list }} {{ {'a': 1}.values()|list }} {{ {'a': 1, 'b': 2}.items()|list }} {{ {'a': 1}.items()|length }} {{ {}.keys()|list }} {{ 'a' in {'a': 1}.keys() }} {{ {'a': 1}.copy() }}
{{ nums.index(1) }} {{ nums.count(1) }} {{ (1, 2, 1).count(1) }} {{ nums.copy() }} {{ (1, 2).index(2) }}
{{ text.nope() }}
{{ 'a'.join([1]) }}
{{ 'abc'.index('z') }}
{{ nums.pop() }}
{{ nested.pop('a') }}
{{ nums.index(9) }}
{{ 'a'.split('') }}
{{ text.__class__ }}
{{ text.__class__.__mro__ }}
{{ [].__class__.__base__.__subclasses__() }}
{{ nested.__init__ }}|{{ nested['__x__'] is defined }}
""",
    "calls": r"""
{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}{{ m(1, *[2]) }}{{ m(1, b=2,) }}
{{ range(*[1, 4])|list }} {{ namespace(**{'a': 1}).a }} {{ dict(**{'a': 1}) }} {{ 'a-b'.split(sep='-') }}
{{ text.split(', ')[0].lower()[1:].upper() }} {{ nums[1:][0] }} {{ [[1, 2], [3]][0][1] }} {{ {'a': [1]}['a'][0] }} {{ (1, 2)[0] }} {{ 'abc'[1] }} {{ nums|first + 1 }} {{ (nums|sort)[0] }}
{{ [1, 2,] }} {{ {'a': 1,} }} {{ () }} {{ [] }} {{ {} }} {{ (1) }}
{{ {'a': 1, 'a': 2} }} {{ {1: 'a', true: 'b', 1.0: 'c'} }}
{{ foo(1, a=2, 3) }}
{{ [1, 2 }}
{{ {'a' 1} }}
{{ 'unclosed }}
{% if %}x{% endif %}
{% for x in %}{% endfor %}
{% endif %}
{% if yes %}
{% nope %}
{% for m in messages %}{{ m.content }
{{ 1 + }}
{{ a b }}
{# unclosed
{% raw %} unclosed
{{ 'a' is 'b' }}
{% set 1 = 2 %}
{% break %}
{{ (1, 2 }}
{% macro m(a=1, b) %}{% endmacro %}
{{ x | }}
{{ .System }}
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{{ }}
{%- %}
""",
}


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime(2025, 1, 15, 12, 0, 0).strftime
    return env


def render(template):
    try:
        parsed = environment().from_string(template)
    except (jinja2.exceptions.TemplateError, SyntaxError):
        return {"fails": "parse"}
    try:
        return {"output": parsed.render(**VARIABLES)}
    except Exception:  # a template can raise anything
        return {"fails": "render"}


def main():
    cases = []
    for topic, lines in SNIPPETS.items():
        for line in lines.strip("\n").split("\n"):
            # Newlines are written out where white space is the topic; elsewhere "\n" stands in string literals.
            if topic == "whitespace":
                line = line.replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t")
            cases.append({"topic": topic, "template": line, **render(line)})
    print(json.dumps({"variables": VARIABLES, "cases": cases}, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
