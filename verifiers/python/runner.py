"""The untrusted side: executes the answer's code and calls what it defined.

Nothing here is trusted once the code has run, since the code can change anything in this instance. So this side knows
no test and no expected value, and all it says is data to the other side.

`call(name, args)` calls a function of the answer. Names that begin with a colon, which no function can have, are this
component's own requests: `:start`, `:kinds`, `:get`, `:set`, `:method`, `:special`. Every reply is a tuple:

    ("value", result, {index: mutated argument}, printed)
    ("raised", type's name, its nearest builtin type's name, args, printed)
    ("unplain", what the result is, printed)
"""

import builtins
import contextlib
import io
import sys
import types

import assemble
import values

# The names under which the answer's module runs.
OWN = ("candidate", "__main__")
PRINTED_MAX = 65_536
MESSAGE_MAX = 500


class Printed(io.RawIOBase):
    """A file that keeps the first bytes written to it and drops the rest, so that endless output costs no memory."""

    def __init__(self):
        self.kept = bytearray()

    def writable(self):
        return True

    def close(self):
        """Stays open: the answer may close its standard output and go on printing."""

    def write(self, data):
        room = PRINTED_MAX - len(self.kept)
        if room > 0:
            self.kept += bytes(data[:room])
        return len(data)


def text_file(raw):
    return io.TextIOWrapper(io.BufferedWriter(raw, 8192), "utf-8", "backslashreplace", newline="")


class Candidate:
    """One answer: its module's names and the objects that the other side holds handles of."""

    def __init__(self):
        self.module = types.ModuleType("candidate")
        self.names = self.module.__dict__
        self.objects = []
        self.printed = Printed()
        self.out = None
        self.errors = text_file(Printed())

    def load(self, code, stdin="", main=False):
        """Executes module code, text or compiled. Errors of the code pass through."""
        self.names["__name__"] = "__main__" if main else "candidate"
        # Classes with annotations and dataclasses look their module up by name.
        sys.modules[self.names["__name__"]] = self.module
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin.encode(errors="replace"))), "utf-8")
        sys.argv = ["candidate.py"]
        builtins.open = _open
        with self:
            exec(code, self.names)

    def prepare(self, prelude):
        """Executes what the prompt imports and defines; a statement that fails must not stop the others."""
        for statement in prelude:
            with contextlib.suppress(BaseException):
                exec(statement, self.names)

    def __enter__(self):
        self.streams = sys.stdout, sys.stderr
        if self.out is None or self.out.closed:
            self.out = text_file(self.printed)
        sys.stdout = self.out
        sys.stderr = self.errors

    def __exit__(self, *_):
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:  # the answer may have closed it or put anything in its place
                pass
        sys.stdout, sys.stderr = self.streams

    def outline(self):
        """What was defined: functions in order, and each class's public methods."""
        functions, classes = [], {}
        for name, value in list(self.names.items()):
            if getattr(value, "__module__", "") not in OWN:
                continue
            if isinstance(value, types.FunctionType):
                functions.append(name)
            elif isinstance(value, type):
                classes[name] = [key for key in vars(value) if not key.startswith("_")][:100]
        return {"functions": functions[-100:], "classes": dict(list(classes.items())[-100:])}

    def take_printed(self):
        text = bytes(self.printed.kept).decode("utf-8", "replace")
        self.printed.kept.clear()
        return text

    def hold(self, value):
        """A handle's number for an object of a class or a function that the answer defined; None for any other."""
        kind = value if isinstance(value, (type, types.FunctionType)) else type(value)
        if getattr(kind, "__module__", None) not in OWN:
            return None
        for number, held in enumerate(self.objects):
            if held is value:
                return number
        self.objects.append(value)
        return len(self.objects) - 1

    def reply(self, function, args=(), kwargs=()):
        """Calls, and tells what came of it."""
        before = {}
        for index, arg in enumerate(args):
            if isinstance(arg, (list, dict, set, bytearray)):
                before[index] = values.write(values.pack(arg, self.hold, 1))
        try:
            with self:
                result = function(*args, **dict(kwargs))
                packed = values.pack(result, self.hold)
        except values.NotPlain as error:
            return self.literal("unplain", str(error)[:MESSAGE_MAX])
        except BaseException as error:
            return self.raised(error)
        changed = []
        for index, was in before.items():
            with contextlib.suppress(values.NotPlain):
                now = values.pack(args[index], self.hold, 1)
                if values.write(now) != was:
                    changed += [index, now]
        return values.write(["value", packed, {"dict": changed}, self.take_printed()])

    def raised(self, error):
        args = []
        for arg in error.args:
            try:
                args.append(values.decode(values.encode(arg)))
            except BaseException:
                args = [_text(error)]
                break
        return self.literal("raised", type(error).__name__[:100], builtin_base(type(error)), tuple(args))

    def literal(self, *parts):
        return values.encode([*parts, self.take_printed()])


def builtin_base(kind):
    for base in kind.__mro__:
        if base.__module__ == "builtins":
            return base.__name__
    return "Exception"


def _text(error):
    try:
        return str(error)[:MESSAGE_MAX]
    except BaseException:
        return "its message cannot be read"


_real_open = builtins.open


def _open(file, *args, **kwargs):
    """Programs read `open(0)`, which no file of this instance can be."""
    return sys.stdin if type(file) is int and file == 0 else _real_open(file, *args, **kwargs)


def describe_error(error):
    """Type, message, and the line of the answer it came from."""
    line = ""
    if isinstance(error, SyntaxError):
        line = f" (line {error.lineno})" if error.lineno else ""
    else:
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "candidate.py":
                line = f" (line {trace.tb_lineno})"
            trace = trace.tb_next
    message = error.msg if isinstance(error, SyntaxError) else _text(error)
    return f"{type(error).__name__[:100]}: {message}"[:MESSAGE_MAX] + line


def start(candidate, plan, stdin=None):
    """Chooses the code among the answer's blocks and executes it. With `stdin` it runs as a program."""
    try:
        source = assemble.choose(plan, program=stdin is not None)
        candidate.prepare(source.prelude)
    except assemble.NoCode as error:
        return candidate.literal("no code", str(error))
    except BaseException as error:
        return candidate.literal("failed", describe_error(error))
    try:
        candidate.load(source.code, stdin or "", main=stdin is not None)
    except SystemExit as error:
        if error.code not in (None, 0) or stdin is None:
            return candidate.literal("failed", describe_error(error))
    except BaseException as error:
        return candidate.literal("failed", describe_error(error))
    return candidate.literal("loaded", candidate.outline())


def kinds(candidate, names):
    """What the answer made of each name: the other side builds its stand-ins from this."""
    found = {}
    for name in names:
        if name not in candidate.names:
            continue
        value = candidate.names[name]
        if isinstance(value, type):
            error = issubclass(value, BaseException)
            found[name] = ("error", builtin_base(value)) if error else ("class",)
        elif callable(value):
            found[name] = ("function",)
        else:
            try:
                found[name] = ("value", values.decode(values.encode(value)))
            except values.NotPlain:
                number = candidate.hold(value)
                if number is not None:
                    found[name] = ("object", number)
    return values.encode(found)


SPECIAL = {
    "len": len, "str": str, "repr": repr, "iter": list, "eq": lambda a, b: a == b, "getitem": lambda a, b: a[b],
    "setitem": lambda a, b, c: a.__setitem__(b, c), "contains": lambda a, b: b in a, "lt": lambda a, b: a < b,
}


def answer_request(candidate, name, args):
    """Serves one call of the other side."""
    resolve = candidate.objects.__getitem__
    data = values.decode(args, resolve) if args else ()
    if name == ":start":
        return start(candidate, *data)
    if name == ":kinds":
        return kinds(candidate, data)
    if name == ":get":
        target, attribute = data
        return candidate.reply(lambda: _attribute(getattr(target, attribute)))
    if name == ":set":
        target, attribute, value = data
        return candidate.reply(setattr, (target, attribute, value))
    if name == ":method":
        target, attribute, positional, keywords = data
        return candidate.reply(getattr(target, attribute), positional, keywords)
    if name == ":special":
        operation, operands = data
        return candidate.reply(SPECIAL[operation], operands)
    positional, keywords = data
    target = candidate.names
    first, *path = name.split(".")
    function = target[first]
    for attribute in path:
        function = getattr(function, attribute)
    return candidate.reply(function, positional, keywords)


def _attribute(value):
    """A method is not a value: the other side asks for it and then calls it."""
    return ("method",) if callable(value) and not isinstance(value, type) else ("data", value)
