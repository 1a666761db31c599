"""The parts by themselves: values that cross, blocks of an answer, examples of a prompt."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import assemble  # noqa: E402
import compare  # noqa: E402
import values  # noqa: E402
from examples import Known, call_forms, labelled_pairs  # noqa: E402
from extract import read_answer  # noqa: E402
from find import find_tests  # noqa: E402
from prompt import read_prompt  # noqa: E402
from proxy import write_back  # noqa: E402


class Values(unittest.TestCase):
    def test_plain_values_cross_unchanged(self):
        for value in (None, True, 0, -1, 10**50, 2**40000, 1.5, -0.0, float("inf"), "ä\ud800'\"", b"\x00\xff", [], [1, [2]], (),
                      (1,), {}, {1: (2, {3})}, {(1, "a"): None}, {1}, frozenset([1]), set(), 1 + 2j, {"tuple": [1]}):
            with self.subTest(value):
                back = values.decode(values.encode(value))
                self.assertEqual((type(back), back), (type(value), value))

    def test_subclasses_cross_as_what_they_hold(self):
        class Liar(int):
            def __eq__(self, other):
                return True
            __hash__ = int.__hash__
            def __index__(self):
                return 99
            def __repr__(self):
                return "99"

        class Table(dict):
            def items(self):
                return [(1, 99)]

        self.assertIs(type(values.decode(values.encode(Liar(3)))), int)
        self.assertEqual(values.decode(values.encode([Liar(3), Table(a=1)])), [3, {"a": 1}])

    def test_other_objects_are_refused(self):
        cyclic = []
        cyclic.append(cyclic)
        for value in (object(), len, [lambda: 1], cyclic, sys):
            with self.assertRaises(values.NotPlain):
                values.encode(value)

    def test_hostile_text_is_refused(self):
        for text in ("", "{", "[" * 900_000, '{"a":' * 100_000, '{"os": [1]}', '{"set": [[]]}', '{"tuple": 1}', '{"a": 1, "b": 2}',
                     "1" * 5000, '{"dict": [1]}', '"' + "a" * 2_000_000 + '"', "__import__('os')"):
            with self.subTest(text[:20]), self.assertRaises(values.NotPlain):
                values.decode(text)

    def test_mutations_reach_inner_containers(self):
        inner = [1]
        outer = {"a": inner}
        write_back(outer, {"a": [1, 2], "b": 3})
        self.assertEqual(outer, {"a": [1, 2], "b": 3})
        self.assertIs(outer["a"], inner)


class Comparing(unittest.TestCase):
    def test_floats_may_differ_in_the_last_digits(self):
        self.assertTrue(compare.same([0.1 + 0.2], [0.3]))
        self.assertFalse(compare.same(0.31, 0.3))
        self.assertFalse(compare.same("0.3", 0.3))
        self.assertFalse(compare.same(2, True))

    def test_lists_are_not_tuples_unless_written_as_json(self):
        self.assertFalse(compare.same((1,), [1]))
        self.assertTrue(compare.same((1,), [1], loose=True))

    def test_order_counts_unless_the_task_says_otherwise(self):
        self.assertFalse(compare.same([2, 1], [1, 2]))
        self.assertTrue(compare.same([2, 1], [1, 2], any_order=True))
        self.assertFalse(compare.same([2, 2], [1, 2], any_order=True))

    def test_printed_text_ignores_trailing_blanks_only(self):
        self.assertTrue(compare.same_output("1 \n2\r\n\n", "1\n2"))
        self.assertTrue(compare.same_output("0.50000001", "0.5"))
        self.assertFalse(compare.same_output("1 2", "1\n2"))
        self.assertFalse(compare.same_output("007", "7"))


class Answers(unittest.TestCase):
    def blocks(self, text):
        return [block.strip() for block, _ in read_answer(text).blocks]

    def test_named_fences_win(self):
        self.assertEqual(self.blocks("```\nout\n```\n```python\nx = 1\n```\n```bash\nls\n```"), ["x = 1"])
        self.assertEqual(self.blocks("  ```py\n  x = 1\n  ```"), ["x = 1"])
        self.assertEqual(self.blocks("~~~python\n```\nx\n```\n~~~"), ["```\nx\n```"])
        self.assertEqual(self.blocks("```python\nx = 1"), ["x = 1"])
        self.assertEqual(self.blocks("```java\nclass A {}\n```"), [])

    def test_sessions_are_not_code(self):
        self.assertEqual(self.blocks("```python\n>>> f(1)\n2\n```"), [])
        self.assertEqual(self.blocks("```\n$ python a.py\n```"), [])

    def test_a_word_is_not_code(self):
        plan = {"blocks": [("Paris", "")], "fenced": False, "entry": "", "stub": "", "prelude": []}
        with self.assertRaises(assemble.NoCode):
            assemble.choose(plan)

    def test_a_syntax_error_is_told(self):
        plan = {"blocks": [("def f(:\n    return 1\n", "python")], "fenced": True, "entry": "f", "stub": "", "prelude": []}
        with self.assertRaises(SyntaxError):
            assemble.choose(plan)


class Examples(unittest.TestCase):
    def forms(self, text, entry="f", params=("x",)):
        skipped = []
        found = call_forms(text, Known(entry, list(params), set()), skipped)
        return [(form.label, form.expected) for form in found], skipped

    def test_call_forms(self):
        text = ("f(1) -> 2\nf([1, 2]) => [3]\n* f('a') ==> 'b'.\nf(3) == 4 # because\nf(4) returns 5\n`f(5)` should return `6`\n"
                "f(6) = true\nf(7) ➞ (1, 2)\nf(\n [1],\n) -> None\nf(8)   # returns \"x\"\n")
        found, skipped = self.forms(text)
        self.assertEqual([value for _, value in found], [2, [3], "b", 4, 5, 6, True, (1, 2), None, "x"])
        self.assertEqual(skipped, [])

    def test_malformed_examples_are_named(self):
        for text in ("f(1) -> 2 + 3", "f(2) == ''a'", "f(3) -> [1, 2", "f(a) => 1", "f(4) -> 1 or 2", "f(5) => (\"a\")"):
            with self.subTest(text):
                found, skipped = self.forms(text)
                self.assertEqual(found, [])
                self.assertEqual(len(skipped), 1)

    def test_another_name_is_the_function_when_its_arguments_fit(self):
        self.assertEqual(self.forms("grade([1]) ==> 2")[0], [("grade([1])", 2)])
        self.assertEqual(self.forms("grade([1], 2) ==> 2")[0], [])

    def test_labelled_pairs(self):
        text = "Input: nums = [1,\n2], k = 3\nOutput: 4\n\nFor x = 1 the output should be 5\nInput: x = 1\nOutput: 2 or 3"
        skipped = []
        found = labelled_pairs(text, Known("", [], set()), skipped)
        self.assertEqual([(call.args, call.expected) for call in found], [([[1, 2], 3], 4), ([1], 5)])
        self.assertEqual(len(skipped), 1)

    def test_a_format_section_is_not_a_sample(self):
        text = "Input\n\nThe first line contains n.\n\nOutput\n\nPrint the sum of the numbers.\n\nSample Input 1\n\n3\n\nSample Output 1\n\n6\n\nNote\n"
        programs = find_tests({}, read_prompt(text)).programs
        self.assertEqual([(item.stdin, item.expected) for item in programs], [("3\n", "6")])

    def test_code_inside_a_prompt_gives_no_examples(self):
        prompt = read_prompt("def f(x):\n    if f(1) == 2:\n        return 3\n    assert x\n    return f(x) == 4\n")
        self.assertFalse(find_tests({}, prompt))


if __name__ == "__main__":
    unittest.main()
