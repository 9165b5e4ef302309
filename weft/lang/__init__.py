"""The whiteboard language: tensor programs written as math.

``parse.parse_programs`` gives the programs of a text, ``check.check_text`` everything wrong with it. A text
is parsed by lark (`syntax`, `reader`) into `ast`; `elaborate` decides what names mean and which types
operations have, and hands statements to `weft.tensor.build`.
"""
