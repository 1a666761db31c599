"""Stand-ins, on the trusted side, for what the answer defined.

A call turns its arguments into text, crosses into the instance that holds the answer, and turns the text that comes
back into a value (values.py). An object of the answer's own class stays there; a `Remote` names it. A Remote is equal to no
plain value, has no arithmetic and no order, since whatever it said about itself would be the answer's word: an object
equal to everything must not pass.
"""

import builtins
import sys

import values

RESTARTS_MAX = 3


class Stopped(BaseException):
    """The instance is gone: a limit, a trap. No test may catch this, so it is no Exception."""


class CannotCross(Exception):
    """The test passes something that cannot be sent, such as a function: nobody's fault but the test's."""


class Broken(Exception):
    """The other side sent back something that is not a reply, or a value that is not plain."""


class Remote:
    """An object that lives in the other instance."""

    __slots__ = ("_session", "_number")

    def __init__(self, session, number):
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_number", number)

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        session = self._session
        kind, *data = session.request(":get", (self, name))
        if kind == "method":
            return lambda *args, **kwargs: session.request(":method", (self, name, args, kwargs), args)
        return data[0]

    def __setattr__(self, name, value):
        self._session.request(":set", (self, name, value))

    def _special(self, operation, *operands):
        return self._session.request(":special", (operation, (self, *operands)))

    def __call__(self, *args, **kwargs):
        return self._session.request(":method", (self, "__call__", args, kwargs), args)

    def __len__(self):
        return self._special("len")

    def __str__(self):
        return self._special("str")

    def __repr__(self):
        return self._special("repr")

    def __iter__(self):
        return iter(self._special("iter"))

    def __getitem__(self, key):
        return self._special("getitem", key)

    def __setitem__(self, key, value):
        self._special("setitem", key, value)

    def __bool__(self):
        return True

    def __eq__(self, other):
        return self is other or (isinstance(other, Remote) and self._special("eq", other) is True)

    def __hash__(self):
        return hash(("remote", self._number))


class Session:
    """One instance that holds the answer, and the names it defined."""

    def __init__(self, sandbox, plan):
        self.sandbox = sandbox
        self.plan = plan
        self.errors = {}
        self.restarts = 0
        self.gone = ""
        self.outline = {"functions": [], "classes": {}}
        self.printed = ""

    def start(self):
        """Loads the answer. Gives "" or what went wrong."""
        reply = self._send(":start", values.encode((self.plan,)), fresh=True)
        return self._started(reply)

    def run_program(self, stdin):
        """Runs the answer as a program in an instance of its own. Gives (problem, printed)."""
        reply = self._send(":start", values.encode((self.plan, stdin)), fresh=True)
        return self._started(reply), self.printed

    def _started(self, reply):
        match reply:
            case ("loaded", {"functions": list(), "classes": dict()} as outline, str(printed)):
                self.outline, self.printed = outline, printed
                return ""
            case ("failed" | "no code", str(problem), str(printed)):
                self.printed = printed
                return problem[:500] or "it failed"
            case _:
                raise Broken("not a reply")

    def _send(self, name, args, fresh=False):
        try:
            if fresh:
                self.sandbox.load("")
            text = self.sandbox.call(name, args)
        except self.sandbox.Error as error:
            problem = str(error.value)[:300]
            if problem.startswith(("limit: ", "trapped: ")):
                self.gone = problem
                raise Stopped(problem) from None
            raise Broken(problem) from None
        return self._decode(text)

    def _decode(self, text):
        try:
            return values.decode(text, lambda number: Remote(self, number))
        except values.NotPlain as error:
            raise Broken(str(error)) from None

    def revive(self):
        """Loads the answer anew after a trap, so that one crash costs one test. Not after the shared limits."""
        if self.restarts >= RESTARTS_MAX or "fuel" in self.gone or "time" in self.gone or "is gone" in self.gone:
            return False
        self.restarts += 1
        self.gone = ""
        try:
            return self.start() == ""
        except (Stopped, Broken):
            return False

    def _text(self, value):
        try:
            return values.encode(value, lambda item: item._number if type(item) is Remote else None)
        except values.NotPlain as error:
            raise CannotCross(str(error)) from None

    def call(self, name, args, kwargs):
        return self.request(name, (args, kwargs), args)

    def request(self, name, data, args=()):
        """Calls over there; mutated arguments are written back, printed text is printed, an error is raised."""
        match self._send(name, self._text(data)):
            case ("value", value, dict() as changed, str(printed)):
                sys.stdout.write(printed)
                for index, now in changed.items():
                    if type(index) is int and 0 <= index < len(args):
                        write_back(args[index], now)
                return value
            case ("raised", str(name), str(base), tuple(details), str(printed)):
                sys.stdout.write(printed)
                raise self._error(name, base)(*details)
            case ("unplain", str(problem), str(printed)):
                sys.stdout.write(printed)
                raise Broken(problem)
            case _:
                raise Broken("not a reply")

    def _error(self, name, base):
        """The class to raise here: a builtin by its name, else one made for the answer's own class."""
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException) and kind is not BaseExceptionGroup:
            return kind
        if name not in self.errors:
            parent = getattr(builtins, base, None)
            usable = isinstance(parent, type) and issubclass(parent, Exception) and parent not in UNUSUAL
            self.errors[name] = type(name, (parent if usable else Exception,), {})
        return self.errors[name]

    def stand_ins(self, names):
        """What the answer made of each name."""
        wanted = sorted(name for name in names if name.isidentifier())
        found = self._send(":kinds", values.encode(tuple(wanted)))
        made = {}
        if not isinstance(found, dict):
            raise Broken("not a reply")
        for name in wanted:
            match found.get(name):
                case ("function",):
                    made[name] = self._function(name)
                case ("class",):
                    made[name] = RemoteClass(self, name)
                case ("error", str(base)):
                    made[name] = self._error(name, base)
                case ("value", value):
                    made[name] = value
                case ("object", int(number)):
                    made[name] = Remote(self, number)
        return made

    def _function(self, name):
        def stand_in(*args, **kwargs):
            return self.call(name, args, kwargs)
        stand_in.__name__ = stand_in.__qualname__ = name
        return stand_in


# Their constructors take arguments of their own form.
UNUSUAL = (UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError, ExceptionGroup)


class RemoteClass:
    """A class of the answer: calling it makes an object over there, attributes are its static ones."""

    def __init__(self, session, name):
        self._session = session
        self.__name__ = name

    def __call__(self, *args, **kwargs):
        return self._session.call(self.__name__, args, kwargs)

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self._session.call(f"{self.__name__}.{name}", args, kwargs)


def write_back(old, new):
    """Makes `old` equal `new` in place, keeping inner containers where their shape did not change."""
    if type(old) is not type(new):
        return
    if isinstance(old, list):
        if len(old) == len(new):
            old[:] = [_kept(a, b) for a, b in zip(old, new)]
        else:
            old[:] = new
    elif isinstance(old, dict):
        merged = {key: _kept(old[key], item) if key in old else item for key, item in new.items()}
        old.clear()
        old.update(merged)
    elif isinstance(old, set):
        old.clear()
        old.update(new)
    elif isinstance(old, bytearray):
        old[:] = new


def _kept(old, new):
    if type(old) is type(new) and isinstance(old, (list, dict, set)):
        write_back(old, new)
        return old
    return new
