from starforge_console.web.pages.difference_view import LINES_SHOWN, build_difference_view

DIFF = """\
diff --git a/a b/a.sql b/a b/a.sql
index 1..2 100644
--- a/a b/a.sql
+++ b/a b/a.sql
@@ -1,3 +1,3 @@ head
 keep
--- a comment
+-- another
+++ odd
-last
\\ No newline at end of file
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/w.bin b/w.bin
new file mode 100644
Binary files /dev/null and b/w.bin differ
not shown: .env
"""


def test_a_difference_is_shown_by_file_and_each_line_by_what_it_is() -> None:
    view = build_difference_view(DIFF, is_cut=False)
    assert [(file.name, file.added, file.removed) for file in view.files] == [
        ("a b/a.sql", 2, 2),
        ("gone.py", 0, 1),
        ("w.bin", 0, 0),
    ]
    kinds = [kind for kind, _ in view.files[0].lines]
    assert kinds == ["meta", "meta", "meta", "meta", "hunk", "", "del", "add", "add", "del", "meta"]
    assert view.notes == ("not shown: .env",)
    assert (view.is_short, view.left_out, view.is_cut) == (True, 0, False)


def test_a_very_long_one_is_shown_in_part_and_says_how_much_is_missing() -> None:
    text = DIFF.split("diff --git a/gone", maxsplit=1)[0] + "".join(f"+{number}\n" for number in range(LINES_SHOWN))
    view = build_difference_view(text, is_cut=True)
    assert sum(len(file.lines) for file in view.files) + view.left_out == len(text.splitlines())
    assert view.left_out == 11
    assert not view.is_short


def test_what_is_no_difference_at_all_is_shown_as_it_is() -> None:
    view = build_difference_view("only words\n+and a plus\n", is_cut=False)
    assert view.notes == ("only words", "+and a plus")
    assert build_difference_view("", is_cut=False).files == ()
