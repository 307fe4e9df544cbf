"""Reads .td files: functions and cases as plain Python data.

A parser of its own, so that a mistake in Tandem's does not hide in both. It
knows what the cases use of docs/text-format.md. A file is (functions, cases):
functions by name, cases as (name, statements). A statement is a Stmt; arguments
are values (Ref), numbers, strings, lists, None, Dtype and Size.
"""
import re
from collections import namedtuple

Ref = namedtuple("Ref", "name")
Dtype = namedtuple("Dtype", "name")
Size = namedtuple("Size", "text")      # an expression over symbols
Stmt = namedtuple("Stmt", "kind names more op args kwargs body line")
Func = namedtuple("Func", "name inputs body")
Input = namedtuple("Input", "name sizes")

DTYPES = "f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool".split()
REGIONS = ("no_grad", "enable_grad", "inference", "plain")
CLOSERS = {"(": ")", "[": "]"}

TOKEN = re.compile(r"""
    (?P<skip>[ \t\r]+|\#[^\n]*)
  | (?P<line>\n)
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<value>%[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)
  | (?P<more>\.\.\.)
  | (?P<func>@[A-Za-z_][A-Za-z0-9_]*)
  | (?P<alias>@[0-9]+)
  | (?P<number>-?(?:inf|nan)\b|-?[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<sign>//|[-+*(){}\[\]<>:,=])
""", re.X)


class Token(namedtuple("Token", "kind text line")):
    __slots__ = ()


def tokens(text):
    out, at, line = [], 0, 1
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            raise SyntaxError(f"line {line}: {text[at:at + 20]!r}")
        if m.lastgroup != "skip":
            out.append(Token(m.lastgroup, m.group(), line))
        line += m.group().count("\n")
        at = m.end()
    out.append(Token("end", "", line))
    return out


class Parser:
    def __init__(self, text):
        self.toks, self.at, self.depth = tokens(text), 0, 0

    @property
    def tok(self):
        while self.depth and self.toks[self.at].kind == "line":
            self.at += 1
        return self.toks[self.at]

    def next(self):
        t = self.tok
        self.at += 1
        return t

    def take(self, text):
        if self.tok.text == text:
            self.at += 1
            return True
        return False

    def need(self, text):
        if not self.take(text):
            raise SyntaxError(f"line {self.tok.line}: {text} and not {self.tok.text!r}")

    def open(self, text):
        self.need(text)
        self.depth += 1

    def close(self, text):
        if self.tok.text != text:
            raise SyntaxError(f"line {self.tok.line}: {text} and not {self.tok.text!r}")
        self.depth -= 1
        self.at += 1

    def lines(self):
        while self.tok.kind == "line":
            self.at += 1

    # ---- values ----

    def items(self, close):
        while self.tok.text != close:
            yield
            if not self.take(","):
                break
        self.close(close)

    def arg(self):
        t = self.tok
        if t.text == "[":
            self.open("[")
            return [self.arg() for _ in self.items("]")]
        if t.kind == "value":
            return Ref(self.next().text[1:])
        if t.kind == "string":
            return eval(self.next().text)  # the escapes are Python's
        if t.text in ("true", "false", "none"):
            return {"true": True, "false": False, "none": None}[self.next().text]
        if t.text in DTYPES:
            return Dtype(self.next().text)
        return self.number()

    def number(self):
        text = ""
        depth = 0
        while self.tok.text and (depth or self.tok.text not in (",", ")", "]")):
            depth += (self.tok.text == "(") - (self.tok.text == ")")
            text += self.next().text
        if re.fullmatch(r"-?[0-9]+", text):
            return int(text)
        try:
            return float(text)
        except ValueError:
            return Size(text)

    def call_args(self):
        args, kwargs = [], {}
        self.open("(")
        for _ in self.items(")"):
            after = self.toks[self.at + 1].text
            if self.tok.kind == "word" and after == "=":
                key = self.next().text
                self.need("=")
                kwargs[key] = self.arg()
            else:
                args.append(self.arg())
        return args, kwargs

    # ---- statements ----

    def results(self):
        """%a, %b = or %p... =; none before a bare call."""
        names, more = [], False
        while self.tok.kind == "value":
            names.append(self.next().text[1:])
            more = self.take("...")
            if not self.take(","):
                break
        if names:
            self.need("=")
        return names, more

    def statement(self):
        line = self.tok.line
        names, more = self.results()
        word = self.next().text
        if word in REGIONS:
            return Stmt("region", [], False, word, [], {}, self.block(), line)
        if word == "return":
            return Stmt("return", [], False, word, self.bare(), {}, None, line)
        if word == "backward":
            args = self.bare()
            kwargs = {}
            while self.tok.kind == "word":
                key = self.next().text
                self.need("=")
                kwargs[key] = self.arg_of_option()
            return Stmt("backward", [], False, word, args, kwargs, None, line)
        if word == "call":
            fn = self.next().text[1:]
            args, kwargs = self.call_args()
            return Stmt("call", names, more, fn, args, kwargs, None, line)
        args, kwargs = self.call_args()
        if self.tok.text == ":":
            self.skip_line()
        return Stmt("op", names, more, word, args, kwargs, None, line)

    def arg_of_option(self):
        t = self.next().text
        return t == "true" if t in ("true", "false") else int(t)

    def bare(self):
        """Arguments to the end of the line."""
        out = []
        while self.tok.kind not in ("line", "end") and self.tok.text != "}":
            t = self.next()
            if t.kind == "value":
                out.append(Ref(t.text[1:]))
            elif t.kind == "number":
                out.append(int(t.text) if t.text.lstrip("-").isdigit() else float(t.text))
            elif t.text in ("none", "true", "false"):
                out.append({"none": None, "true": True, "false": False}[t.text])
            elif re.fullmatch(r"[su]\d+", t.text):
                out.append(Size(t.text))
            else:
                self.at -= 1
                break
            if not self.take(","):
                break
        return out

    def skip_line(self):
        while self.tok.kind not in ("line", "end"):
            self.at += 1

    def block(self):
        out = []
        self.need("{")
        self.lines()
        while self.tok.text != "}":
            out.append(self.statement())
            self.lines()
        self.need("}")
        return out

    # ---- the file ----

    def input(self):
        name, sizes = self.next().text[1:], None
        if self.take(":"):
            self.next()
            if self.take("["):
                self.depth += 1
                sizes = [self.arg() for _ in self.items("]")]
        depth = 0
        while depth or self.tok.text not in (",", ")"):  # strides, grad, descriptors
            depth += (self.tok.text in "{<") - (self.tok.text in "}>")
            self.next()
        return Input(name, sizes)

    def function(self):
        name = self.next().text[1:]
        self.open("(")
        inputs = [self.input() for _ in self.items(")")]
        return Func(name, inputs, self.block())

    def file(self):
        funcs, cases = {}, []
        self.lines()
        while self.tok.kind != "end":
            word = self.next().text
            if word == "func":
                f = self.function()
                funcs[f.name] = f
            elif word == "case":
                name = eval(self.next().text)
                cases.append((name, self.block()))
            else:
                raise SyntaxError(f"line {self.tok.line}: func or case, not {word!r}")
            self.lines()
        return funcs, cases


def parse(text):
    return Parser(text).file()
