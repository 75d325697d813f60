"""The shipped labels: what their patterns accept, what they refuse, and what they cannot tell.

An answer is graded whole: in a trial that read the sources of its case and cites them. The tables hold answers with
" | " between them, wherever a line ends; what many of them repeat is abbreviated.
"""

import json
import os
import unittest
from collections.abc import Iterator
from typing import Any

import evaluate
from tests.support import ROOT
from tests.test_evaluate import answered, published_passages

ABBREVIATED = {
    "{D}": "{d}(obj, {F})", "{W}": "{w}(s, {U})", "{d}": "json.dumps", "{w}": "Path.write_text",
    "{F}": "ensure_ascii=False", "{T}": "ensure_ascii=True", "{U}": 'encoding="utf-8"', "{u}": "encoding='utf-8'",
}

GOOD_OVERWRITE = r"""
In Python 3.12, Path.write_text overwrites an existing file. | It replaces the existing content. | The old contents
are replaced. | It truncates the file and writes anew. | It overwrites it; nothing is appended. | `Path.write_text`
does not append; it overwrites the existing file. | It never appends to an existing file, it overwrites it. | Rather
than appending it overwrites the file. | An existing file is overwritten, not appended to. | If the file exists, its
previous contents are lost. | Path.write_text doesn't append to the file but overwrites it. | Overwrite. The method
returns the number of characters written. | Instead of appending, Path.write_text overwrites the file. | Whatever the
file held before is discarded. | It will overwrite the file. To append, open it with open(path, 'a') instead. |
Calling it on a path that exists will overwrite that file's contents. | It doesn't add to the file, it replaces what
was there: the old text is gone. | The text you pass replaces everything in the file. | The file is overwritten
without warning. | The old data is not kept: the file is overwritten. | A file that does not exist is created, and an
existing one is overwritten. | Any existing file at that path is simply overwritten, so its old contents are not
preserved. | It overwrites. Appending is not what it does. | Path.write_text never keeps the old text; it overwrites
it. | The file's former contents are wiped and the new text is written in their place. | The method overwrites an
existing file, so use open('a') if you want text appended. | It overwrites the existing file and does not append to
it. | Existing text isn't appended to; it's replaced by the new text. | The file isn't extended, it's overwritten. |
An existing file is clobbered. | Only the new text remains, since the existing file is overwritten. | The write
overwrites whatever is there; no data is appended. | Existing contents are erased before the new text is written. | It
is overwritten; text is never appended. | write_text opens the file in 'w' mode, so an existing file is overwritten. |
The existing file won't be appended to. It will be overwritten. | No appending takes place; the existing file is
overwritten. | It overwrites (i.e. it doesn't append to) an existing file. | The former text is thrown away and
replaced with the new text in the file. | In Python 3.12 existing files are overwritten by Path.write_text, they are
not appended to. | Path.write_text overwrites an existing file — it does not append. | It replaces the file's contents
with the given string instead of adding to them. | The existing file is replaced rather than extended. |
Path.write_text overwrites the file if it already exists. | It overwrites the existing file's content instead of
appending. | Calling `Path.write_text` replaces any existing content with the new text. | It doesn't append. It
overwrites. | Existing contents are overwritten; they are never appended to. | It overwrites. | It always overwrites
an existing file. | An existing file will be overwritten by Path.write_text in Python 3.12. | The documentation says
"An existing file is overwritten." | If a file of that name exists, its contents are replaced with the new text. | In
3.12 the call overwrites the target file, so previous contents do not survive. | The previous content is lost because
the file is overwritten. | Path.write_text discards the old contents of the file and writes the new text. | No, it
does not append: an existing file is overwritten. | Overwrites it. | The new text replaces the old text. | The file is
truncated first and then the new text is written. | The text is not added to the existing file: that file is
overwritten. | The file's old contents do not remain; they are overwritten. | It completely overwrites the existing
file without appending anything. | With Path.write_text, an existing file isn't preserved; it's overwritten. | The
existing file is overwritten, and its previous content is not kept. | The function does not have an append mode; it
overwrites existing files. | An existing file gets replaced by the text written. | The old text is overwritten by the
new text; nothing of it is kept. | Existing contents get replaced by whatever you write. | The call wipes out the
existing contents of the file. | It overwrites the existing file ('An existing file is overwritten'). | It overwrites.
It doesn't append. | Path.write_text overwrites rather than appends. | It overwrites instead of appending. | It is an
overwrite: the existing file's text is replaced. | If the file already exists, Path.write_text overwrites it; it
doesn't append to it. | Path.write_text replaces the file's contents and never appends. | Path.write_text in Python
3.12 will overwrite the existing file and won't append. | Its old content is overwritten by the data. | An existing
file loses its old content, which is replaced by the new text. | The method starts from scratch: old file content is
discarded. | Path.write_text doesn't add text to an existing file; the file is overwritten. | The write replaces
rather than adds to the file's content. | Any prior data in the file is replaced by the string you pass; write_text
has no way of appending. | The existing file's data is overwritten by Path.write_text and isn't added to. | Python
3.12's Path.write_text will overwrite an existing file; for appending you need open('a'). | Calling write_text on an
existing path erases its contents first, then writes the new text. | It doesn't keep what was in the file. It
overwrites it. | Overwrites, never appends. | Rather than being appended to, an existing file is overwritten. | In
Python 3.12, if the file already exists, Path.write_text overwrites it with the new text and returns the number of
characters written. | Path.write_text opens the file, writes the text and closes it. If the file exists, it is
overwritten, so nothing is appended. | It replaces the file's existing contents entirely; the previous text is not
retained. | It doesn't append; the existing contents get replaced with the new text. | The call does not add to an
existing file, but replaces its content. |
It’s an overwrite, not an append. | Path.write_text will clobber an existing file instead of appending to it. | The
answer is overwrite: Path.write_text writes the text to the file, overwriting an existing one, and closes it. | The
file is rewritten from scratch; what was there earlier is not kept. | Overwriting is what happens to an existing file:
the old text does not survive. | It overwrites the file, so you can't use it to append unless you read the old text
first and write both back. | An existing file isn’t left untouched or appended to — it’s overwritten.
"""

BAD_OVERWRITE = r"""
It does not overwrite; it appends. | It appends rather than overwriting. | Path.write_text never overwrites an
existing file. | It doesn't overwrite an existing file. | An existing file isn't overwritten. | Overwriting is not
what happens. | In Python 3.12, does Path.write_text append to an existing file or overwrite it? | It writes text to a
file and closes it. | It overwrites the file and keeps a backup of the old one. | It overwrites an existing file
without making a backup copy. | It appends to an existing file instead of overwriting it. | Existing content is
preserved, not overwritten. | It neither appends nor overwrites. | It does not append or overwrite; it raises
FileExistsError. | The new text is added to the end, so nothing is overwritten. | It overwrites the file only if
append=False is passed. | Pass mode='w' to overwrite: Path.write_text(data, mode='w'). | It overwrites new files but
appends to existing ones. | It does not, in any case, overwrite the file. | It never truncates the file; the text is
appended. | The file is not replaced. | The old contents are not replaced; the text goes after them. | It avoids
overwriting the file by appending. | It is false that it overwrites the file. | Path.write_text won't overwrite the
file, it will append. | Nothing is overwritten. | It overwrites nothing. | The file is overwritten? No, it is appended
to. | The method returns the number of characters written. | It sometimes overwrites and sometimes appends. | Nothing
in the existing file is replaced. | The data is appended, the file is not overwritten. | It opens the file in append
mode, so nothing is lost from the file. | Path.write_text appends, never overwrites. | Without overwriting, it appends
the text. | By default it appends; set overwrite=True to overwrite. | It would be wrong to say that it overwrites the
file. | It overwrites an existing file unless append=True is given. | An existing file is extended, rather than
replaced. | Existing data is retained and new data is written after it; the file is not truncated. | It fails if the
file exists rather than overwrite it. | It neither overwrites nor truncates an existing file. | The old contents
aren't lost; the file grows. | The existing text is not discarded. | Path.write_text overwrites an existing file, and
then appends the text again. | It does not simply overwrite the file: old text stays. | Path.write_text is append-only
and will not overwrite. | Nor does it overwrite the file. | Path.write_text doesn't replace the existing content. | It
adds the text to the end of the existing file. | The existing file is appended to rather than overwritten. | It isn't
the case that an existing file is overwritten. | The call raises an error instead of overwriting the file. |
Path.write_text keeps the existing file and does not overwrite it. | It overwrites the file, but first keeps the old
copy as a backup. | It overwrites the file, making a back-up first. | The old contents are kept rather than replaced.
| An existing file stays as it is instead of being overwritten. | It closes the file after writing text. | Append. |
It appends. | Whether it appends or overwrites is not documented. | The file must not be overwritten. | Overwriting an
existing file isn't something Path.write_text does. | Overwriting does not occur. | It overwrites in 3.11 but appends
in 3.12. | The content of an existing file is in no way overwritten. | It prevents existing files from being
overwritten. | Path.write_text preserves an existing file rather than overwriting it. | It appends (it does not
overwrite). | Use the append=True option, otherwise it overwrites the file. | Path.write_text only appends; the old
text is never replaced. | Instead of overwriting the file, it adds to it. | It writes at the end of the file instead
of replacing its contents. | It overwrites the file and the old version is kept as file.bak. | It does not replace
what is in the file. | It'll append instead of overwriting. | It is never replaced. | An existing file remains
unchanged and is not overwritten. | Existing text stays and new text follows it. | It overwrites the existing file and
creates a backup. | It overwrites the file after backing it up. | Old versions are backed up before the file is
overwritten. | The encoding is set with encoding="utf-8". | It creates a new file. | Path.write_text(data, mode="a")
overwrites the file. | It inserts the text before the old content, which is not overwritten. | Path.write_text
wouldn't overwrite an existing file. | The new text is appended to whatever the file contained. | An existing file is
never truncated by write_text; new text goes at the end. | Instead of replacing the contents, write_text adds the new
text after them. | Existing files cannot be overwritten with Path.write_text. | write_text writes at the end of the
file without replacing anything. | Path.write_text opens a file, writes text and closes it. | The existing file is
overwritten once a backup has been saved. | Does write_text append or overwrite? It depends on the mode. | It does not
overwrite existing data but appends to it. | It neither overwrites nor appends; it fails if the file exists. | Instead
of overwriting, Path.write_text appends. |
It is unclear whether an existing file is overwritten. | Maybe it overwrites the file.
"""

GOOD_SERIALIZE_AND_SAVE = r"""
To serialize an object while keeping non-ASCII characters in the JSON string, call `{D}`. To save that string to a
UTF-8 file, use `{W}`. | Use {D}, then {w}(text, {u}). | Path(p).write_text({D}, {U}) | Call `{d}` with `ensure_ascii`
set to `False` and pass the result to `{w}` with `encoding` set to `"utf-8"`. | Save the string with {W}, having
serialised the object with {D}. | The object is serialised by {D}, and the string is written by {w}(s,
encoding='utf8'). | Don't use {T}; use {D} and {W}. | {D} keeps the characters; {d} does not choose the file's
encoding, so pass {U} to {w}. | Use {d} with {F} rather than {T}, and write_text with {U} rather than latin-1. |
{d}(obj, ensure_ascii = False) gives the string. Write it with {w}(string, encoding = "UTF-8"). | Turn off
ensure_ascii in {d}, then write the string with {w} and UTF-8 as the encoding. | By default {d} uses {T}; set {F} so
that characters are not escaped, and save with {w}(text, {U}). | First `text = {D}`, then
`Path("out.json").write_text(text, {U})`. An existing file is overwritten. | Use {w}({D}, "utf-8"). | With {F}, {d}
never escapes non-ASCII characters; write the result using {w}(result, {u}). | The string comes from {d}(obj, {F},
indent=2) and is saved by {w} with {u}, not utf-16. | Set ensure_ascii to False when calling {d}. When calling {w},
set encoding to "utf-8". | Serialise using {D}; it does not write a file, so call {W} to save it as UTF-8. | Non-ASCII
characters aren't escaped when {d} is called with {F}, and {W} writes the file in UTF-8. | {d}(obj, {T}) would escape
them. Use {D} and {W}. | Instead of the default {T} pass {F} to {d}, and save with {W}. | Pass `{F}` to `{d}` and
`{U}` to `{w}`. | Do not leave ensure_ascii at True: call {D}. Then {W}. | Never rely on the locale's encoding such as
cp1252: use {D} and {W}. | {w}({D}, {u}) - no other encoding is needed. | You can't rely on the default encoding, so
pass {U} to {w} and give it the string from {D}. | With `{D}` you get a string with the characters left as they are;
`{w}(s, {u})` stores it. | Use `{D}` to serialise the object and `{w}(text, {U})` to save it. | Serialize with {D}.
Save with Path("f.json").write_text(s, {u}). | Setting {F} in {d} leaves non-ASCII characters in the string, and {U}
in {w} selects UTF-8. | The string returned by {D} can be written with {W}. | To save UTF-8, call {w} with {U}; before
that, get the string from {d} with {F}. | {D} does not escape non-ASCII characters. {W} writes them as UTF-8. | Call
{D} instead of the default {T}. Then {W}. | Call {D}, not {d}(obj, {T}), and then path.write_text(s, {U}). | Write the
result of {D} to disk using {w}(result, {U}) rather than relying on the default encoding. | Use {F} with {d} so
non-ASCII text is kept as is; then use write_text(..., {U}) so the file is UTF-8. | {F} must be passed to {d}, and {U}
must be passed to {w}. | The non-ASCII characters are kept by {D}; UTF-8 is selected by {U} in {w}. | Use {D} and
{w}(text, {U}); never use encoding="latin-1" for this. | s = {D}; Path('x').write_text(s, {u}) | {d} does not write a
file. Use {D} for the string and {W} for the file. | With {T} the characters would be escaped, so use {D}, then {W}. |
Disable ensure_ascii in {d} ({F}) and give {w} the argument {U}. | First serialise: `{D}`. Second save: `{W}`. Without
{U} the file might not be UTF-8. | If {F} is not given, {d} escapes; so use {D} and {W}. | {D} then {W}. Do not omit
{U}. | {D} produces the string, {w}(string, {U}) saves it. | Serialise with `{D}` and store the outcome with
`{w}(outcome, encoding='UTF-8')`. | To keep non-ASCII characters pass {F} (not True) to {d}; to get a UTF-8 file pass
{U} (not "latin-1") to {w}. | {F} stops {d} from escaping; {U} makes {w} write UTF-8. | Characters are not escaped by
{D}. They are written as UTF-8 by {W}. | Use {D} and never {T}; use {W}. | Give {d} {F} and give write_text {U}. | You
need two calls: {D}, and {w}(text, {U}). | pathlib.Path("a.json").write_text({d}({"k": "é"}, {F}), {U}) | The encoding
argument of {w} should be "utf-8" and the ensure_ascii argument of {d} should be False. | {d} needs {F}. It doesn't
select the file encoding. {w} needs {U}. | Serialise with {d}(data, {F}, indent=4) and then call
Path('out.json').write_text(result, {u}). | The JSON string is obtained from {d} with ensure_ascii set to False; it is
then saved by {w} with encoding set to 'utf-8'. | Because {d} escapes non-ASCII characters by default, pass {F}.
Because the default encoding varies, pass {U} to {w}. | path.write_text({d}(payload, {F}), encoding='UTF-8'); this
doesn't escape the characters. | Write the file with `{w}(text, {U})`, where `text = {D}`. | {D} will not escape
anything; write_text's encoding argument should be "utf-8". | Use `{D}` to keep non-ASCII characters, then
`Path("file.json").write_text(json_string, {U})` to save as UTF-8. | Call {d}() with {F}, and save the resulting
string using {w}() with {U}. | Set {F} in {d} so that non-ASCII characters are not escaped. Then call {w} with {U}; an
existing file is overwritten. | Use {F} (the default, True, escapes non-ASCII characters) with {d}, and {U} with {w}.
| {d} with {F} leaves non-ASCII characters in the string but doesn't write a file; to save it, call {w} with {U}. |
You shouldn't use {T} here. Pass {F} to {d}, then write with {w}(..., {u}). | Serialise the object by calling {D}.
Afterwards write the string with {w}(string, {U}) instead of relying on the default encoding. |
If you don't set `{F}`, {d} escapes non-ASCII characters, so call `{D}`. If you don't set an encoding, the locale's is
used, so call `{W}`. | Use `{D}` and then `{W}`. If you do not pass `{U}`, the locale encoding is used. | Without
`{F}` the characters are escaped, and without `{U}` the locale encoding is used. So: `Path(p).write_text({D}, {U})`. |
Use {D}; without {U}, the locale encoding is used, so call {W}. | {D} doesn't select the encoding of the file. Pass
{U} to {w}. | {D} keeps the characters but not the encoding. UTF-8 is selected in {W}.
"""

BAD_SERIALIZE_AND_SAVE = r"""
Use {D}. | Use {d}(obj) and {W}. | Use {D} and {w}(data). | Use {D} and {w}(data, encoding="latin-1"). | In Python
3.12, how can I serialize an object with non-ASCII characters kept in JSON and save that string to a UTF-8 file? | Use
{d}(obj, {T}) rather than {F}, and {W}. | Do not use {F} in {d}; write with {W}. | Use {D} and {W}. A backup copy is
kept for 30 days. | Write the JSON to a UTF-8 file with {w} and {d}. | Don't pass {F} to {d}. Use {W}. | {F} escapes
non-ASCII characters, so call {d}(obj, {T}) and {W}. | Use {d}(obj, {U}) and {w}(data, {F}). | {D} keeps the
characters. Save with {W} or encoding="latin-1". | Set {T} in {d}; {F} would lose characters. Then {W}. | You
shouldn't set {F} in {d}, and {w} needs {U}. | Avoid {F} with {d}; {W} is enough. | ensure_ascii must not be False in
{d}; use {W}. | {W} saves the string, and {F} keeps the characters. | Use {D} and save the string to a UTF-8 file. |
Do not use {D} and do not use {W}. | {D} and {W} are not the way to do it. | Use {D}, then {w}(data,
encoding="cp1252"), because {U} is the default. | The string from {D} shouldn't be written with {U} by {w}. | {D}
keeps non-ASCII characters in the string. | Use {d}(obj) and write it with {w}(s). | Use {d}(obj, {T}), then save it
with {w}(s, {u}). | Do not set {F}; set {T} in {d} and use {W}. | Never use {D}; use {W}. | Use {D}. Don't pass {U} to
{w}. | Use {D}, and use encoding="latin-1" rather than {U} in {w}. | Set {T} instead of {F} in {d} and use {W}. | Use
{D} and {W}; old files are backed up for a week. | Use {D} and open the file in binary mode. | {D} and {w}(s,
encoding="utf-16"), since {U} cannot hold them. | {F} isn't needed: {d}(obj) and {W} do it. | {W} after {d}(obj)
without {F}. | Use {D}; {U} isn't needed in {w}. | Use {D}; {U} must not be passed to {w}. | {F} should never be used
with {d}. {W} saves it. | Keep {T} in {d}, {F} is wrong; then {W}. | Use {D} and {w}(s, {u}) and the original is kept
as a backup copy. | {D} doesn't keep non-ASCII characters; {W}. | {W} does not save UTF-8; {D} does. | Use {d}(obj,
{T}) and {w}(s, encoding="utf-16"). | Use {d}(obj) without {F}, then {W}. | Leave {T}, don't use {F} in {d}, then {W}.
| {D}, then {w}(s, encoding="utf-16") rather than {U}. | {D}, then {w}(s) with the default encoding. | Never write
with {U}; use {D} and {w}(s). | {D}, then {W} which keeps backups for a day. | Set {F} in {d} and save the string. |
Use {D} rather than {W}. | Use pickle, not {D}, and {W}. | Rather than {F} use {T} in {d}; then {W}. | Instead of {U}
use encoding="cp1252" in {w}({D}). | Call {d}(obj, {T}) and {w}(text, {U}). | Call {D} and write the string with
{w}(text, encoding="ascii"). | Call {d}(obj) and never set {F}; write with {w}(text, {U}). | {D} followed by {w}(text)
is enough, you don't need {U}. | Use {D}, and {w}(text, encoding="latin-1") rather than utf-8. | To save it as UTF-8
use {w}(text, {U}); {d}(obj) does the rest. | Don't set {F}; keep {T} in {d} and use {W}. | You cannot use {D} with
{w}(text, {U}). | {D}; {w}(text, {U}) - a backup of the previous file is retained. | How do I serialize an object with
non-ASCII characters kept in JSON and save it to a UTF-8 file? | Do not set {F} and do not set {U}; {d} and {w} use
them by default. | Never pass {F} to {d}; only {U} to {w}. | Use {D}, then {w}(s, encoding="cp1252") instead of {U}. |
Use {T}, not {F}, with {d}, and {W}. |
Call json.dumps with {F}; Path.write_text needs no {U} because UTF-8 is automatic. | {D} writes the UTF-8 file itself,
so {W} isn't necessary. | {D} does not leave non-ASCII characters in the string. {W} writes it. | Remove {F} from
json.dumps before calling {W}. | Omit {F} when calling json.dumps; {w} with {U} is all you need. | Set {U} in
json.dumps and {F} in Path.write_text. | Use {D} and {W}, which appends the string to the file. |
Perhaps {F} in {d} keeps non-ASCII characters, or perhaps it does not; {W} saves it. | {D} may or may not keep
non-ASCII characters; write_text with {U} saves the string. | {F} never keeps non-ASCII characters in {d}; {W} saves
the string. | It is unclear whether {F} in {d} keeps non-ASCII characters. {W} saves the string. | Not {F} but the
default of {d}; then {W}. | Call {D}, then {w}(s); you have no reason to pass {U}. | Call {d}(obj) (without {F}) and
then {W}. | Then you don't need {F} in {d}; {W}. | Call {D} and {W}. But {U} does not select UTF-8.
"""

GOOD_NEWLINE_VERSION = r"""
newline controls universal newlines mode, that is how line endings are translated, and UTF-8 is selected with {U}. |
The newline parameter controls how line endings are handled; pass {u} to select UTF-8. | `newline` determines how line
endings are translated (None, '', '\n', '\r', '\r\n'). Use `{U}` for UTF-8. | Line endings are translated according to
newline, and {U} selects UTF-8. | Select UTF-8 with Path.read_text(encoding='utf8'). newline governs the translation
of line endings. | newline doesn't select the encoding; it controls universal newline translation. UTF-8 is selected
by {U}. | newline specifies how line breaks are recognised when reading; set encoding to "utf-8". | In Python 3.13,
Path.read_text({U}, newline=None) reads UTF-8; newline controls whether '\r\n' and '\r' are translated to '\n' as
universal newlines. | newline controls line-ending translation, not the encoding. For UTF-8, set {U}. | How newlines
are translated is governed by the newline argument; UTF-8 is chosen by passing {U}. | The translation of line endings
is controlled by `newline`. To read UTF-8, pass `encoding='UTF-8'`. | newline decides how universal newlines are
treated. With newline='' line endings are not translated. {U} selects UTF-8. | Use {U} to select UTF-8; the newline
parameter tells read_text how to interpret the ends of lines, i.e. line endings. | newline sets the handling of line
terminators rather than the encoding; {U} picks UTF-8. | The newline argument, added in 3.13, controls how line
separators are handled, and never the encoding, which is chosen with {U}. | newline affects newline translation and
{U} selects UTF-8. | You select UTF-8 with {U}, and newline is for controlling line endings. | UTF-8 isn't selected by
newline but by {U}; newline controls how line endings are normalised. | `newline` configures universal-newline
handling, `{U}` the decoding. | read_text("utf-8") selects UTF-8, while newline controls the conversion of line
endings. | Use UTF-8 as the encoding argument; newline defines which line endings are recognized. | newline controls
how universal newlines mode works. Pass {U} to select UTF-8. | In Python 3.13, newline controls the handling of line
endings and you select UTF-8 by passing {u}. | The `newline` parameter controls line ending translation;
`encoding='utf8'` selects UTF-8. | To select UTF-8, set {U}. The newline argument controls how line endings are
interpreted. | newline controls the translation of newlines: None translates '\r\n' to '\n', '' leaves them alone.
Select UTF-8 with {U}. | newline does not set the encoding; it decides how line endings are translated. Pass {U} for
UTF-8. | UTF-8 is selected by the encoding argument ({U}), line-ending translation by the newline argument. | newline
works as in open(): it controls universal newlines. Set {u}. | By default newline=None enables universal newlines,
where '\r', '\n' and '\r\n' all become '\n'. {U} selects UTF-8. | UTF-8 is not chosen through newline. Use {U};
newline controls line ending handling. | newline controls whether line endings are translated or left untranslated.
Specify `encoding` as `utf-8`. | Line ending handling is what newline controls; for UTF-8 say {U} rather than
encoding="latin-1". | The newline parameter governs universal newlines, i.e. the translation of line endings; the
encoding parameter set to "utf-8" selects UTF-8. | With newline you control how line endings are converted, instead of
the encoding; {U} gives UTF-8. | newline='\n' means lines are only terminated by \n; it controls newline handling. For
UTF-8: {U}. | Path.read_text({U}, newline="") selects UTF-8 and disables the line ending translation that newline
controls. | newline controls line-ending handling (universal newlines), {u} selects UTF-8. | The newline argument says
how line endings are treated, and the encoding argument "utf-8" selects UTF-8. | UTF-8: {U}. newline: how line endings
are translated on reading. | `newline` is what controls universal newlines; `{U}`, not `newline`, selects UTF-8. | How
line endings get translated depends on newline. For UTF-8, pass `{u}`. | The newline parameter does not choose UTF-8;
that's done with {U}. It controls line-ending translation. | Universal newline mode is controlled with newline. {U}
must be given to select UTF-8. | newline controls how line endings are processed and has nothing to do with encoding;
choose UTF-8 by {U}. | newline="" keeps line endings untranslated; newline=None translates them. UTF-8 is selected via
{U}. | newline controls end-of-line translation; use {U}. | The newline argument controls how line endings are read,
and UTF-8 is chosen with {U}. | Set {u} to get UTF-8. Universal newlines handling is what the newline parameter
controls. | newline determines the treatment of line endings; it doesn't affect the encoding, for which you pass {U}.
| Line-ending conversion is controlled by newline; character decoding by encoding, so use {U}. | Path.read_text({U})
selects UTF-8. `newline` sets how line breaks are translated, as in open(). | newline isn't for choosing UTF-8, it
governs line-ending translation. {u} is for choosing UTF-8. | The newline parameter determines how universal newlines
work when reading text. To select UTF-8, pass {u}. | newline controls newline handling (as in open()), not the
encoding. Use {U} to read UTF-8. | Pass {U} for UTF-8. newline decides which line endings are recognised and whether
they're translated. | newline controls how line endings such as '\n', '\r' and '\r\n' are interpreted. It doesn't
select the encoding: that is {U}. | The handling of line endings is governed by newline, whereas {U} selects UTF-8. |
Path.read_text accepts newline since Python 3.13; it decides whether '\r\n' and '\r' are converted to '\n'. UTF-8 is
chosen via {u}. | newline controls how "\n", "\r" and "\r\n" are handled on reading. Always specify {U} if the file is
UTF-8. | The newline argument sets how line endings are handled when the text is read, and the encoding argument, set
to 'utf-8', selects UTF-8. |
`newline` controls universal newlines. If you don't set `{U}`, the locale's encoding is used, so set `{U}`. | newline
controls line endings, not the encoding. UTF-8 is selected by {U}. | `newline` (not available before 3.13) controls
line ending translation; `{U}` selects UTF-8. | newline was not available before 3.13 and controls line endings. {U}
selects UTF-8. | Line endings are controlled by newline, not by encoding; UTF-8 is selected by {U} and not by newline.
| newline controls line endings, so the file isn't decoded by newline; use {U} to select UTF-8.
"""

BAD_NEWLINE_VERSION = r"""
newline controls line endings. | Use {U}. | newline selects the encoding; use newline="utf-8". | newline controls the
encoding, and {U} selects UTF-8. | newline controls line endings; use encoding="latin-1". | For Python 3.13
Path.read_text, what does newline control and how do I select UTF-8? | newline never affects line endings. Use {U}. |
newline doesn't control how line endings are translated; set {U}. | newline controls the encoding rather than line
endings; use {U}. | The newline parameter was added in Python 3.13. Use {U}. | encoding controls line endings, and
newline="utf-8" selects UTF-8. | newline controls line endings and {U} selects UTF-8; backups are kept for 7 days. |
newline adds a line break at the end of the text; {U} selects UTF-8. | newline controls line endings; UTF-8 is
selected by newline. | newline has nothing to do with line endings; {U} selects UTF-8. | Line endings are not
controlled by newline; {U} selects UTF-8. | {U} selects UTF-8 and newline was added in 3.13. | Path.read_text accepts
encoding, errors and newline. | newline controls universal newlines; use encoding="cp1252" rather than {U}. | newline
controls universal newline translation. | Pass {U} to select UTF-8. | newline selects UTF-8. | The newline parameter
controls the text encoding; set newline="utf-8" to select UTF-8. | newline doesn't control line endings; it selects
the encoding, e.g. {U}. | newline controls the encoding instead of line endings, and {U} is ignored. | What newline
controls and how UTF-8 is selected is not documented. | newline is ignored; line endings are always translated. {U}
selects UTF-8. | newline is not related to line endings. {U}. | Line endings aren't affected by newline. Use {U}. |
Rather than translating line endings, newline selects the encoding, {U}. | newline="utf-8" selects UTF-8 and encoding
controls universal newlines. | newline was added in 3.13 and controls line endings. | newline chooses UTF-8, {U}
chooses line endings. | newline controls line endings; errors="strict" selects UTF-8. | newline controls line endings;
Path.read_text keeps a backup; {U} selects UTF-8. | {U} selects UTF-8, but newline does not influence line endings. |
newline doesn't affect line endings; UTF-8 is selected with {U}. | newline controls line endings. Pass
encoding="utf-16" to select UTF-8. | The newline parameter sets the encoding; pass newline="utf-8" for UTF-8. |
newline controls line ending translation, and you should not pass {U}. | newline controls line-ending translation. |
Set {U} to select UTF-8; newline was added in Python 3.13. | Instead of {U}, newline controls line endings and UTF-8.
| newline controls universal newlines and read_text needs encoding="latin-1". | What does newline control in
Path.read_text and how do I select UTF-8 in Python 3.13? | newline can't control how line endings are handled; set {U}
for UTF-8. | newline controls the encoding, so set newline="utf-8" rather than {U}. |
newline controls newline translation, and UTF-8 is the default so no {U} is needed. | Rather than line endings,
newline controls the error handler. Select UTF-8 with {U}. | Set {U}; newline has no effect on line endings. | newline
controls line endings; no {U} is needed. | newline does not control how '\r\n' is translated; {U} selects UTF-8. |
newline controls line endings; {U} never selects UTF-8. | newline controls line endings; {U} may or may not select
UTF-8. | Line endings are controlled by `errors`, not by `newline`. UTF-8 is selected by `{U}`. | Line endings are
controlled by `errors` rather than by `newline`; {U} selects UTF-8. | It is unclear whether newline controls line
endings; {U} selects UTF-8. | In Python 3.13, newline does not (unlike open) control line endings; {U} selects UTF-8.
"""

# Where nothing supports an answer, whatever is said is wrong, however true or careful it sounds.
BAD_UNSUPPORTED = """
Path.write_text does not retain backup copies; an existing file is simply overwritten. | It keeps backups for 30 days. |
Backups are kept for seven days. | Zero days. | No backup is made. | It never keeps backup copies. | There is no backup,
rather than one for some days. | An existing file is overwritten. | The documentation does not say how many days backup
copies are retained. | I cannot answer this from the sources. | In Python 3.12, how many days does Path.write_text
retain backup copies? | model_stopped | stop
"""

# What a reader would call right or wrong, and the patterns do not.
KNOWN_LIMITS = {
    ("overwrite", "right"): r"""
Existing file: overwritten. Appended: no. | Not append - overwrite. | The old text is thrown out. | The file's name is
kept and its contents are overwritten. | There is no way to keep it from overwriting the file. | Path.write_text
overwrites; unless you want that, use open(path, 'a') to append.
""",
    ("serialize-and-save", "right"): r"""
Leave {T} out: use {D}. Save via {W}, not encoding="cp1252". | {d} does not use {F} by default, so pass it: {D}, then
{W}. | There is no encoding argument on {D}; give {U} to Path.write_text. | When you do not pass {U}, the encoding
depends on the platform. Call {D}, then {W}.
""",
    ("overwrite", "wrong"): r"""
Existing files are protected from being overwritten. | json.dumps overwrites an existing file. | I doubt that it
overwrites the file. | An existing file is overwritten after thirty days. | It never opens and overwrites the file. |
It is uncertain whether the file is overwritten.
""",
    ("serialize-and-save", "wrong"): r"""
Use {D} and {w}(data), leaving out {U}. | It is wrong to use {D} with {W}.
""",
    ("newline-version", "wrong"): r"""
newline controls line endings and encoding; {U}. | newline controls how many line endings a file may have; {U} selects
UTF-8. | Use open() for line endings; Path.read_text has no newline argument, only {U}. | newline controls line endings;
leave encoding as None to select UTF-8. | Line endings are controlled by encoding, not by newline; {U} selects UTF-8. |
newline controls line endings; {U} has no effect.
""",
}

TABLES = {
    "overwrite": (GOOD_OVERWRITE, BAD_OVERWRITE),
    "serialize-and-save": (GOOD_SERIALIZE_AND_SAVE, BAD_SERIALIZE_AND_SAVE),
    "newline-version": (GOOD_NEWLINE_VERSION, BAD_NEWLINE_VERSION),
}


def answers(table: str) -> list[str]:
    """The answers of a table, written out."""
    for short, long in ABBREVIATED.items():
        table = table.replace(short, long)
    return " ".join(table.split()).split(" | ")


class TheShippedLabels(unittest.TestCase):
    def setUp(self) -> None:
        with open(os.path.join(ROOT, "cases.json"), encoding="utf-8") as file:
            self.cases = {case.id: case for case in evaluate.load_cases(json.load(file))}
        self.passages = published_passages()

    def graded(self, case: str, answer: str, **changes: Any) -> dict[str, Any]:
        result = answered(self.cases[case], answer, self.passages) | changes
        return evaluate.grade(self.cases[case], result, self.passages)

    def outcome(self, case: str, answer: str) -> str:
        return str(self.graded(case, answer)["checks"]["outcome"])

    def rows(self, which: int) -> Iterator[tuple[str, str]]:
        for case, tables in TABLES.items():
            self.assertGreaterEqual(len(answers(tables[which])), 40)
            yield from ((case, answer) for answer in answers(tables[which]))

    def test_right_answers_in_other_words_pass(self) -> None:
        """Other words, either quote mark, the opposite denied, another order."""
        for case, answer in self.rows(0):
            with self.subTest(case, answer=answer):
                self.assertEqual(([], "pass"), (self.graded(case, answer)["findings"], self.outcome(case, answer)))

    def test_wrong_answers_in_the_right_words_fail(self) -> None:
        """The opposite, another setting, a part missing, the question again, a backup."""
        for case, answer in self.rows(1):
            with self.subTest(case, answer=answer):
                self.assertEqual("fail", self.outcome(case, answer))
                found = {one["finding"] for one in self.graded(case, answer)["findings"]}
                self.assertLessEqual(found, {"pattern_missing", "pattern_forbidden"})

    def test_typography_changes_no_grade(self) -> None:
        """Curly apostrophes, the other quote mark, capitals."""
        for which, outcome in enumerate(("pass", "fail")):
            for case, answer in self.rows(which):
                for other in (answer.replace("n't", "n\u2019t"), answer.replace("'", '"'), answer.upper()):
                    with self.subTest(case, answer=other):
                        self.assertEqual(outcome, self.outcome(case, other))

    def test_right_words_with_another_passage_cited_fail(self) -> None:
        """Every answer that passes fails when what it rests on is not cited."""
        other = next(p for p in self.passages if p["source_id"] == "path-read")
        wrong = {"source_id": "path-read", "quote": other["text"], "url": other["url"]}
        for case, answer in self.rows(0):
            rest = answered(self.cases[case], answer, self.passages)["citations"][1:]
            for citations in ([wrong], rest):
                with self.subTest(case, answer=answer):
                    found = self.graded(case, answer, citations=citations)["findings"]
                    self.assertIn("source_not_cited", [one["finding"] for one in found])

    def test_any_answer_to_the_unsupported_question_fails(self) -> None:
        """Denying backups is as unsupported as claiming them."""
        for answer in answers(BAD_UNSUPPORTED):
            with self.subTest(answer):
                graded = self.graded("unsupported", answer)
                self.assertEqual("fail", graded["checks"]["outcome"])
                self.assertIn("should_have_stopped", [one["finding"] for one in graded["findings"]])

    def test_only_an_explicit_stop_passes_the_unsupported_question(self) -> None:
        """Running out of an allowance is no abstention, and neither is a refused proposal."""
        endings = {
            ("incomplete", "model_stopped"): "pass", ("incomplete", "deadline"): "incomplete",
            ("incomplete", "model_call_limit"): "incomplete", ("incomplete", "search_limit"): "incomplete",
            ("incomplete", "read_or_byte_limit"): "incomplete", ("failed", "duplicate_query"): "fail",
            ("failed", "invalid_decision"): "fail", ("failed", "model_stopped"): "fail",
            ("failed", "unfinished_model_reply"): "not_measured",
        }
        for (status, reason), outcome in endings.items():
            for searches in (0, 1, 3):
                with self.subTest(reason, searches=searches):
                    query = {"tool": "search", "arguments": {"query": "backup"}, "result": {}}
                    ended = {"status": status, "reason": reason, "citations": [], "observations": [query] * searches}
                    self.assertEqual(outcome, self.graded("unsupported", "", **ended)["checks"]["outcome"])

    def test_what_the_patterns_cannot_tell(self) -> None:
        """Known limits; the README names their kinds. When one falls, it moves to the tables above."""
        for (case, reader), table in KNOWN_LIMITS.items():
            for answer in answers(table):
                with self.subTest(answer):
                    self.assertEqual("pass" if reader == "wrong" else "fail", self.outcome(case, answer))

    def test_check_warns_of_the_newline_case_and_of_nothing_else(self) -> None:
        """Its passage names newline and encoding, and says of neither what it does."""
        why = "no source of this case says it: a path that keeps to them must stop"
        self.assertEqual([f"case 'newline-version': answer_patterns[{n}]: {why}" for n in (0, 1)],
                         evaluate.weak_labels(self.cases.values(), self.passages))
        self.assertEqual([], evaluate.label_faults(self.cases.values(), self.passages, ("3.12", "3.13")))

    def test_patterns_stay_small_enough_to_read_and_to_compile_at_every_start(self) -> None:
        """What people copy: few, short, and each to be understood in a minute. One that two cases share counts once."""
        patterns = {at.pattern for case in self.cases.values() for at in case.answer_patterns + case.forbidden_patterns}
        self.assertLessEqual(sum(map(len, patterns)), 3_600)
        self.assertLessEqual(max(map(len, patterns)), 320)
        for case in self.cases.values():
            self.assertLessEqual(len(case.answer_patterns), 4)
            self.assertLessEqual(len(case.forbidden_patterns), 7)

    def test_no_pattern_takes_long_on_a_hostile_answer(self) -> None:
        """All gaps are bounded: the work grows with the length of the answer and no faster."""
        for piece in (", it ", "not ", "((", "newline ", "overwrit", "dumps(", "a ", "encoding =", "or ", "file "):
            answer = (piece * 2000)[: evaluate.ANSWER_CHARACTERS]
            for case in TABLES:
                with self.subTest(case, piece=piece):
                    self.assertIn(self.outcome(case, answer), ("fail", "pass"))


if __name__ == "__main__":
    unittest.main()
