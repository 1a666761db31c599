"""Modules that must exist at run time: a component holds only what was imported when it was built.

This is the part of the standard library that answers use. Left out are those that need threads, processes, sockets or
a terminal to import, and those that no answer is likely to want; each costs size and start-up memory.
"""

import importlib

NAMES = """
abc argparse array ast asyncio base64 binascii bisect builtins calendar cmath codecs collections collections.abc colorsys
concurrent.futures configparser contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib dis
doctest enum errno fnmatch fractions functools gc getpass glob graphlib gzip hashlib heapq hmac html html.parser
importlib inspect io ipaddress itertools json keyword linecache locale logging math multiprocessing numbers operator os
os.path pathlib pickle platform pprint queue random re reprlib sched secrets select shlex shutil signal socket sqlite3
statistics string struct subprocess sys tempfile textwrap threading time timeit token tokenize traceback types typing
unicodedata unittest unittest.mock urllib.parse urllib.request urllib.error uuid warnings weakref xml.etree.ElementTree
zipfile zlib zoneinfo __future__
""".split()

LACKING = []
for _name in NAMES:
    try:
        importlib.import_module(_name)
    except BaseException:  # not in this build of the interpreter
        LACKING.append(_name)
