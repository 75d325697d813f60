"""The shipped labels: what their patterns accept, what they refuse, and what they cannot tell.

One answer a line; an indented line goes on with the answer above it. An answer is graded whole: in
a trial that read the sources of its case and cites them.
"""

import json
import os
import re
import unittest
from collections.abc import Iterator
from typing import Any

import evaluate
from tests.support import ROOT
from tests.test_evaluate import answered, published_passages

GOOD_OVERWRITE = r"""
In Python 3.12, Path.write_text overwrites an existing file.
In Python 3.12, Path.write_text overwrites an existing file rather than appending to it.
It replaces the existing content.
The old contents are replaced.
It truncates the file and writes anew.
It overwrites it; nothing is appended.
`Path.write_text` does not append; it overwrites the existing file.
It never appends to an existing file, it overwrites it.
Rather than appending it overwrites the file.
An existing file is overwritten, not appended to.
If the file exists, its previous contents are lost.
Path.write_text doesn't append to the file but overwrites it.
"An existing file is overwritten."
Overwrite. The method returns the number of characters written.
The existing file gets overwritten (nothing is appended).
Instead of appending, Path.write_text overwrites the file.
Whatever the file held before is discarded.
It will overwrite the file. To append, open it with open(path, 'a') instead.
Calling it on a path that exists will overwrite that file's contents.
It doesn't add to the file, it replaces what was there: the old text is gone.
The text you pass replaces everything in the file.
The file is overwritten without warning.
The old data is not kept: the file is overwritten.
A file that does not exist is created, and an existing one is overwritten.
Any existing file at that path is simply overwritten, so its old contents are not preserved.
It overwrites. Appending is not what it does.
Path.write_text never keeps the old text; it overwrites it.
The file's former contents are wiped and the new text is written in their place.
Does it append? No, it overwrites the file.
The method overwrites an existing file, so use open('a') if you want text appended.
It overwrites the existing file and does not append to it.
Existing text isn't appended to; it's replaced by the new text.
The file isn't extended, it's overwritten.
An existing file is clobbered.
Only the new text remains, since the existing file is overwritten.
The write overwrites whatever is there; no data is appended.
It neither appends nor merges: the existing file is overwritten.
Existing contents are erased before the new text is written.
It is overwritten; text is never appended.
write_text opens the file in 'w' mode, so an existing file is overwritten.
Path.write_text does not append to an existing file. It overwrites the file.
The existing file won't be appended to. It will be overwritten.
No appending takes place; the existing file is overwritten.
It overwrites (i.e. it doesn't append to) an existing file.
The former text is thrown away and replaced with the new text in the file.
In Python 3.12 existing files are overwritten by Path.write_text, they are not appended to.
Path.write_text overwrites an existing file — it does not append.
It replaces the file's contents with the given string instead of adding to them.
The existing file is replaced rather than extended.
Path.write_text overwrites the file if it already exists.
The existing file's content is overwritten, not extended.
It overwrites the existing file's content instead of appending.
Calling `Path.write_text` replaces any existing content with the new text.
It does not append to the existing file; instead it overwrites it.
It doesn't append. It overwrites.
Existing contents are overwritten; they are never appended to.
It overwrites.
It always overwrites an existing file.
Path.write_text writes over an existing file.
An existing file will be overwritten by Path.write_text in Python 3.12.
The documentation says "An existing file is overwritten."
According to path-write, an existing file is overwritten.
If a file of that name exists, its contents are replaced with the new text.
In 3.12 the call overwrites the target file, so previous contents do not survive.
The previous content is lost because the file is overwritten.
Path.write_text discards the old contents of the file and writes the new text.
No, it does not append: an existing file is overwritten.
Overwrites it.
Path.write_text will not append to the file, it will overwrite it.
It is overwritten rather than appended to.
The new text replaces the old text.
It overwrites the existing file, never appending to it.
It overwrites the file as opposed to appending to it.
The file is truncated first and then the new text is written.
Far from appending, it overwrites the existing file.
The text is not added to the existing file: that file is overwritten.
Nothing gets appended; the existing file gets overwritten.
The file's old contents do not remain; they are overwritten.
It completely overwrites the existing file without appending anything.
With Path.write_text, an existing file isn't preserved; it's overwritten.
In Python 3.12 `write_text` overwrites an existing file; it cannot append.
The existing file is overwritten, and its previous content is not kept.
The function does not have an append mode; it overwrites existing files.
Existing file: overwritten. Appended: no.
It does overwrite an existing file.
Path.write_text never appends to an existing file and instead overwrites it.
Path.write_text does not append to an existing file and will overwrite it.
An existing file gets replaced by the text written.
Since it does not append, the existing file is overwritten.
The old text is overwritten by the new text; nothing of it is kept.
Existing contents get replaced by whatever you write.
Overwrites an existing file; does not append.
The call wipes out the existing contents of the file.
It overwrites the existing file ('An existing file is overwritten').
It overwrites. It doesn't append.
Path.write_text overwrites rather than appends.
It overwrites instead of appending.
It is an overwrite: the existing file's text is replaced.
The file is overwritten, with no appending.
If the file already exists, Path.write_text overwrites it; it doesn't append to it.
Path.write_text replaces the file's contents and never appends.
The existing file is not appended to, it is overwritten.
The existing file is overwritten, it isn't appended to.
Path.write_text in Python 3.12 will overwrite the existing file and won't append.
It won't append to an existing file but will overwrite it.
Its old content is overwritten by the data.
An existing file loses its old content, which is replaced by the new text.
The method starts from scratch: old file content is discarded.
Not append - overwrite.
Path.write_text doesn't add text to an existing file; the file is overwritten.
The write replaces rather than adds to the file's content.
"""

BAD_OVERWRITE = r"""
It does not overwrite; it appends.
It appends rather than overwriting.
Path.write_text never overwrites an existing file.
It doesn't overwrite an existing file.
An existing file isn't overwritten.
An existing file is kept.
Overwriting is not what happens.
In Python 3.12, does Path.write_text append to an existing file or overwrite it?
In Python 3.12, does Path.write_text append to an existing file or overwrite it
It writes text to a file and closes it.
It overwrites the file and keeps a backup of the old one.
It overwrites an existing file without making a backup copy.
Path.write_text appends to an existing file.
It appends to an existing file instead of overwriting it.
Existing content is preserved, not overwritten.
It neither appends nor overwrites.
It does not append or overwrite; it raises FileExistsError.
The new text is added to the end, so nothing is overwritten.
It may append or overwrite.
It overwrites the file only if append=False is passed.
Pass mode='w' to overwrite: Path.write_text(data, mode='w').
It overwrites new files but appends to existing ones.
It does not, in any case, overwrite the file.
It never truncates the file; the text is appended.
The file is not replaced.
The old contents are not replaced; the text goes after them.
It refuses to overwrite an existing file.
It avoids overwriting the file by appending.
It is false that it overwrites the file.
Overwriting never happens.
It can't overwrite an existing file.
Path.write_text won't overwrite the file, it will append.
Nothing is overwritten.
It overwrites nothing.
The file is overwritten? No, it is appended to.
The method returns the number of characters written.
It sometimes overwrites and sometimes appends.
Nothing in the existing file is replaced.
The data is appended, the file is not overwritten.
It leaves the existing file untouched instead of overwriting it.
No existing file is overwritten.
It opens the file in append mode, so nothing is lost from the file.
Path.write_text appends, never overwrites.
Without overwriting, it appends the text.
By default it appends; set overwrite=True to overwrite.
It would be wrong to say that it overwrites the file.
The existing file is not overwritten but appended to.
It overwrites an existing file unless append=True is given.
Existing files are protected from being overwritten.
It does not append to an existing file.
An existing file is extended, rather than replaced.
Existing data is retained and new data is written after it; the file is not truncated.
It fails if the file exists rather than overwrite it.
It neither overwrites nor truncates an existing file.
The old contents aren't lost; the file grows.
The existing text is not discarded.
Path.write_text overwrites an existing file, and then appends the text again.
It does not simply overwrite the file: old text stays.
Path.write_text is append-only and will not overwrite.
Nor does it overwrite the file.
Path.write_text does not overwrite an existing file.
Path.write_text doesn't replace the existing content.
It will never overwrite an existing file.
An existing file is not overwritten by Path.write_text.
An existing file is never overwritten.
It adds the text to the end of the existing file.
The existing file is appended to, never overwritten.
The existing file is appended to rather than overwritten.
It isn't the case that an existing file is overwritten.
It appends the new text to the existing file.
The call raises an error instead of overwriting the file.
Path.write_text keeps the existing file and does not overwrite it.
It overwrites the file, but first keeps the old copy as a backup.
It overwrites the file and retains a backup for 30 days.
It overwrites the file, making a back-up first.
The old contents are kept rather than replaced.
An existing file stays as it is instead of being overwritten.
It is not true that it overwrites; it appends.
Path.write_text does not append to or overwrite an existing file.
Path.write_text returns the number of characters written.
It closes the file after writing text.
Append.
It appends.
Path.write_text could either append to or overwrite an existing file.
Whether it appends or overwrites is not documented.
Path.write_text does not truncate the existing file.
It hasn't overwritten the file.
The file must not be overwritten.
Overwriting an existing file isn't something Path.write_text does.
Overwriting does not occur.
It overwrites in 3.11 but appends in 3.12.
It appends to the existing file and does not overwrite its contents.
The content of an existing file is in no way overwritten.
By no means does it overwrite the file.
It prevents existing files from being overwritten.
Path.write_text preserves an existing file rather than overwriting it.
It appends (it does not overwrite).
Use the append=True option, otherwise it overwrites the file.
Path.write_text only appends; the old text is never replaced.
Instead of overwriting the file, it adds to it.
The existing file is left alone and not overwritten.
It writes at the end of the file instead of replacing its contents.
It overwrites the file and the old version is kept as file.bak.
It appends, and does not overwrite.
It doesn't ever overwrite the file.
The existing file is by no means overwritten.
It does not replace what is in the file.
It will append rather than overwrite.
It'll append instead of overwriting.
The file isn't truncated.
Not overwrite - append.
It is never replaced.
An existing file remains unchanged and is not overwritten.
Existing text stays and new text follows it.
It overwrites the existing file and creates a backup.
It overwrites the file after backing it up.
Old versions are backed up before the file is overwritten.
The encoding is set with encoding="utf-8".
It creates a new file.
It raises FileExistsError rather than overwriting.
Path.write_text(data, mode="a") overwrites the file.
The docs do not say that it overwrites the file.
Does Path.write_text append or overwrite?
Append to an existing file or overwrite it.
It inserts the text before the old content, which is not overwritten.
Path.write_text refuses to replace an existing file.
"""

GOOD_SERIALIZE_AND_SAVE = r"""
To serialize an object while keeping non-ASCII characters in the JSON string, call
    `json.dumps(obj, ensure_ascii=False)`. To save that string to a UTF-8 file, use
    `Path.write_text(data, encoding="utf-8")`.
Use json.dumps(obj, ensure_ascii=False), then Path.write_text(text, encoding='utf-8').
Path(p).write_text(json.dumps(obj, ensure_ascii=False), encoding="utf-8")
Call `json.dumps` with `ensure_ascii` set to `False` and pass the result to `Path.write_text`
    with `encoding` set to `"utf-8"`.
Save the string with Path.write_text(s, encoding="utf-8"), having serialised the object with
    json.dumps(obj, ensure_ascii=False).
The object is serialised by json.dumps(obj, ensure_ascii=False), and the string is written by
    Path.write_text(s, encoding='utf8').
Don't use ensure_ascii=True; use json.dumps(obj, ensure_ascii=False) and Path.write_text(s,
    encoding="utf-8").
json.dumps(obj, ensure_ascii=False) keeps the characters; json.dumps does not choose the file's
    encoding, so pass encoding="utf-8" to Path.write_text.
Use json.dumps with ensure_ascii=False rather than ensure_ascii=True, and write_text with
    encoding="utf-8" rather than latin-1.
json.dumps(obj, ensure_ascii = False) gives the string. Write it with Path.write_text(string,
    encoding = "UTF-8").
Turn off ensure_ascii in json.dumps, then write the string with Path.write_text and UTF-8 as the
    encoding.
By default json.dumps uses ensure_ascii=True; set ensure_ascii=False so that characters are not
    escaped, and save with Path.write_text(text, encoding="utf-8").
First `text = json.dumps(obj, ensure_ascii=False)`, then `Path("out.json").write_text(text,
    encoding="utf-8")`. An existing file is overwritten.
Use Path.write_text(json.dumps(obj, ensure_ascii=False), "utf-8").
With ensure_ascii=False, json.dumps never escapes non-ASCII characters; write the result using
    Path.write_text(result, encoding='utf-8').
The string comes from json.dumps(obj, ensure_ascii=False, indent=2) and is saved by
    Path.write_text with encoding='utf-8', not utf-16.
Set ensure_ascii to False when calling json.dumps. When calling Path.write_text, set encoding to
    "utf-8".
Serialise using json.dumps(obj, ensure_ascii=False); it does not write a file, so call
    Path.write_text(data, encoding="utf-8") to save it as UTF-8.
Non-ASCII characters aren't escaped when json.dumps is called with ensure_ascii=False, and
    Path.write_text(data, encoding="utf-8") writes the file in UTF-8.
json.dumps(obj, ensure_ascii=True) would escape them. Use json.dumps(obj, ensure_ascii=False)
    and Path.write_text(data, encoding="utf-8").
Instead of the default ensure_ascii=True pass ensure_ascii=False to json.dumps, and save with
    Path.write_text(s, encoding="utf-8").
Pass `ensure_ascii=False` to `json.dumps` and `encoding="utf-8"` to `Path.write_text`.
Do not leave ensure_ascii at True: call json.dumps(obj, ensure_ascii=False). Then
    Path.write_text(s, encoding="utf-8").
Never rely on the locale's encoding such as cp1252: use json.dumps(obj, ensure_ascii=False) and
    Path.write_text(s, encoding="utf-8").
Path.write_text(json.dumps(obj, ensure_ascii=False), encoding='utf-8') - no other encoding is
    needed.
You can't rely on the default encoding, so pass encoding="utf-8" to Path.write_text and give it
    the string from json.dumps(obj, ensure_ascii=False).
With `json.dumps(obj, ensure_ascii=False)` you get a string with the characters left as they
    are; `Path.write_text(s, encoding='utf-8')` stores it.
Use `json.dumps(obj, ensure_ascii=False)` to serialise the object and `Path.write_text(text,
    encoding="utf-8")` to save it.
Serialize with json.dumps(obj, ensure_ascii=False). Save with Path("f.json").write_text(s,
    encoding='utf-8').
Setting ensure_ascii=False in json.dumps leaves non-ASCII characters in the string, and
    encoding="utf-8" in Path.write_text selects UTF-8.
The string returned by json.dumps(obj, ensure_ascii=False) can be written with
    Path.write_text(s, encoding="utf-8").
To save UTF-8, call Path.write_text with encoding="utf-8"; before that, get the string from
    json.dumps with ensure_ascii=False.
json.dumps(obj, ensure_ascii=False) does not escape non-ASCII characters. Path.write_text(s,
    encoding="utf-8") writes them as UTF-8.
Call json.dumps(obj, ensure_ascii=False) instead of the default ensure_ascii=True. Then
    Path.write_text(data, encoding="utf-8").
Call json.dumps(obj, ensure_ascii=False), not json.dumps(obj, ensure_ascii=True), and then
    path.write_text(s, encoding="utf-8").
Write the result of json.dumps(obj, ensure_ascii=False) to disk using Path.write_text(result,
    encoding="utf-8") rather than relying on the default encoding.
Use ensure_ascii=False with json.dumps so non-ASCII text is kept as is; then use write_text(...,
    encoding="utf-8") so the file is UTF-8.
ensure_ascii=False must be passed to json.dumps, and encoding="utf-8" must be passed to
    Path.write_text.
The non-ASCII characters are kept by json.dumps(obj, ensure_ascii=False); UTF-8 is selected by
    encoding="utf-8" in Path.write_text.
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(text, encoding="utf-8"); never use
    encoding="latin-1" for this.
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(text, encoding="utf-8"), not
    encoding="utf-16".
s = json.dumps(obj, ensure_ascii=False); Path('x').write_text(s, encoding='utf-8')
json.dumps does not write a file. Use json.dumps(obj, ensure_ascii=False) for the string and
    Path.write_text(s, encoding="utf-8") for the file.
With ensure_ascii=True the characters would be escaped, so use json.dumps(obj,
    ensure_ascii=False), then Path.write_text(s, encoding="utf-8").
Disable ensure_ascii in json.dumps (ensure_ascii=False) and give Path.write_text the argument
    encoding="utf-8".
Pass “ensure_ascii=False” to json.dumps and “encoding='utf-8'” to Path.write_text.
First serialise: `json.dumps(obj, ensure_ascii=False)`. Second save: `Path.write_text(s,
    encoding="utf-8")`. Without encoding="utf-8" the file might not be UTF-8.
If ensure_ascii=False is not given, json.dumps escapes; so use json.dumps(obj,
    ensure_ascii=False) and Path.write_text(s, encoding="utf-8").
json.dumps(obj, ensure_ascii=False) then Path.write_text(s, encoding="utf-8"). Do not omit
    encoding="utf-8".
json.dumps(obj, ensure_ascii=False) produces the string, Path.write_text(string,
    encoding="utf-8") saves it.
Serialise with `json.dumps(obj, ensure_ascii=False)` and store the outcome with
    `Path.write_text(outcome, encoding='UTF-8')`.
To keep non-ASCII characters pass ensure_ascii=False (not True) to json.dumps; to get a UTF-8
    file pass encoding="utf-8" (not "latin-1") to Path.write_text.
ensure_ascii=False stops json.dumps from escaping; encoding="utf-8" makes Path.write_text write
    UTF-8.
Characters are not escaped by json.dumps(obj, ensure_ascii=False). They are written as UTF-8 by
    Path.write_text(s, encoding="utf-8").
Use json.dumps(obj, ensure_ascii=False) and never ensure_ascii=True; use Path.write_text(s,
    encoding="utf-8").
Give json.dumps ensure_ascii=False and give write_text encoding="utf-8".
You need two calls: json.dumps(obj, ensure_ascii=False), and Path.write_text(text,
    encoding="utf-8").
pathlib.Path("a.json").write_text(json.dumps({"k": "é"}, ensure_ascii=False), encoding="utf-8")
The encoding argument of Path.write_text should be "utf-8" and the ensure_ascii argument of
    json.dumps should be False.
json.dumps needs ensure_ascii=False. It doesn't select the file encoding. Path.write_text needs
    encoding="utf-8".
"""

BAD_SERIALIZE_AND_SAVE = r"""
Use json.dumps(obj, ensure_ascii=False).
Use Path.write_text(data, encoding="utf-8").
Use json.dumps(obj) and Path.write_text(data, encoding="utf-8").
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(data).
Use json.dumps(obj, ensure_ascii=True) and Path.write_text(data, encoding="utf-8").
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(data, encoding="latin-1").
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(data, encoding="utf-16").
In Python 3.12, how can I serialize an object with non-ASCII characters kept in JSON and save
    that string to a UTF-8 file?
Use json.dumps(obj, ensure_ascii=True) rather than ensure_ascii=False, and Path.write_text(data,
    encoding="utf-8").
Do not use ensure_ascii=False in json.dumps; write with Path.write_text(data, encoding="utf-8").
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(data), never encoding="utf-8".
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(data) without encoding="utf-8".
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(data, encoding="latin-1") instead of
    encoding="utf-8".
Use json.dumps(obj, ensure_ascii=True), not ensure_ascii=False, and Path.write_text(data,
    encoding="utf-8").
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(data, encoding="utf-8"). A backup
    copy is kept for 30 days.
Write the JSON to a UTF-8 file with Path.write_text and json.dumps.
Don't pass ensure_ascii=False to json.dumps. Use Path.write_text(data, encoding="utf-8").
ensure_ascii=False escapes non-ASCII characters, so call json.dumps(obj, ensure_ascii=True) and
    Path.write_text(data, encoding="utf-8").
Use json.dumps(obj, encoding="utf-8") and Path.write_text(data, ensure_ascii=False).
json.dumps(obj, ensure_ascii=False) keeps the characters. Save with Path.write_text(data,
    encoding="utf-8") or encoding="latin-1".
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(data, encoding="ascii") or
    encoding="utf-8".
Set ensure_ascii=True in json.dumps; ensure_ascii=False would lose characters. Then
    Path.write_text(data, encoding="utf-8").
You shouldn't set ensure_ascii=False in json.dumps, and Path.write_text needs encoding="utf-8".
Avoid ensure_ascii=False with json.dumps; Path.write_text(data, encoding="utf-8") is enough.
ensure_ascii must not be False in json.dumps; use Path.write_text(data, encoding="utf-8").
Path.write_text(data, encoding="utf-8") saves the string, and ensure_ascii=False keeps the
    characters.
Use json.dumps(obj, ensure_ascii=False) and save the string to a UTF-8 file.
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(data, encoding="utf-8-sig").
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(data), leaving out encoding="utf-8".
Do not use json.dumps(obj, ensure_ascii=False) and do not use Path.write_text(data,
    encoding="utf-8").
json.dumps(obj, ensure_ascii=False) and Path.write_text(data, encoding="utf-8") are not the way
    to do it.
Use json.dumps(obj, ensure_ascii=False), then Path.write_text(data, encoding="cp1252"), because
    encoding="utf-8" is the default.
The string from json.dumps(obj, ensure_ascii=False) shouldn't be written with encoding="utf-8"
    by Path.write_text.
json.dumps(obj, ensure_ascii=False) keeps non-ASCII characters in the string.
Path.write_text(data, encoding="utf-8") saves a string to a UTF-8 file.
Use json.dumps(obj) and write it with Path.write_text(s).
Use json.dumps(obj, ensure_ascii=False) with Path.write_text(s, encoding="utf-32").
Use json.dumps(obj, ensure_ascii=True), then save it with Path.write_text(s, encoding='utf-8').
Do not set ensure_ascii=False; set ensure_ascii=True in json.dumps and use Path.write_text(s,
    encoding="utf-8").
Never use json.dumps(obj, ensure_ascii=False); use Path.write_text(s, encoding="utf-8").
Use json.dumps(obj, ensure_ascii=False). Don't pass encoding="utf-8" to Path.write_text.
Use json.dumps(obj, ensure_ascii=False), and use encoding="latin-1" rather than encoding="utf-8"
    in Path.write_text.
Set ensure_ascii=True instead of ensure_ascii=False in json.dumps and use Path.write_text(s,
    encoding="utf-8").
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(s, encoding="utf-8"); old files are
    backed up for a week.
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(s, encoding="iso-8859-1").
Use ensure_ascii=False and encoding="utf-8".
Use json.dumps(obj, ensure_ascii=False) and open the file in binary mode.
I would serialize an object with non-ASCII characters kept in JSON and save that string to a
    UTF-8 file.
json.dumps(obj, ensure_ascii=False) and Path.write_text(s, encoding="utf-16"), since
    encoding="utf-8" cannot hold them.
ensure_ascii=False isn't needed: json.dumps(obj) and Path.write_text(s, encoding="utf-8") do it.
Path.write_text(s, encoding="utf-8") after json.dumps(obj) without ensure_ascii=False.
Use json.dumps(obj, ensure_ascii=False); encoding="utf-8" isn't needed in Path.write_text.
Use json.dumps(obj, ensure_ascii=False); encoding="utf-8" must not be passed to Path.write_text.
ensure_ascii=False should never be used with json.dumps. Path.write_text(s, encoding="utf-8")
    saves it.
Keep ensure_ascii=True in json.dumps, ensure_ascii=False is wrong; then Path.write_text(s,
    encoding="utf-8").
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(s, encoding='latin1'), not
    encoding='utf-8'.
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(s, encoding='utf-8') and the
    original is kept as a backup copy.
It is wrong to use json.dumps(obj, ensure_ascii=False) with Path.write_text(s,
    encoding="utf-8").
json.dumps(obj, ensure_ascii=False) doesn't keep non-ASCII characters; Path.write_text(s,
    encoding="utf-8").
Path.write_text(data, encoding="utf-8") does not save UTF-8; json.dumps(obj, ensure_ascii=False)
    does.
Use json.dumps(obj, ensure_ascii=True) and Path.write_text(s, encoding="utf-16").
Use json.dumps(obj) without ensure_ascii=False, then Path.write_text(s, encoding="utf-8").
Leave ensure_ascii=True, don't use ensure_ascii=False in json.dumps, then Path.write_text(s,
    encoding="utf-8").
json.dumps(obj, ensure_ascii=False), then Path.write_text(s, encoding="utf-16") rather than
    encoding="utf-8".
json.dumps(obj, ensure_ascii=False), then Path.write_text(s) with the default encoding.
Never write with encoding="utf-8"; use json.dumps(obj, ensure_ascii=False) and
    Path.write_text(s).
json.dumps(obj, ensure_ascii=False), then Path.write_text(s, encoding="utf-8") which keeps
    backups for a day.
Set ensure_ascii=False in json.dumps and save the string.
How can I serialize an object with non-ASCII characters kept in JSON and save that string to a
    UTF-8 file?
Use json.dumps(obj, ensure_ascii=False) rather than Path.write_text(s, encoding="utf-8").
Use pickle, not json.dumps(obj, ensure_ascii=False), and Path.write_text(s, encoding="utf-8").
Use json.dumps(obj, ensure_ascii=False) and Path.write_text(s, encoding="utf_16").
Rather than ensure_ascii=False use ensure_ascii=True in json.dumps; then Path.write_text(s,
    encoding="utf-8").
Instead of encoding="utf-8" use encoding="cp1252" in Path.write_text(json.dumps(obj,
    ensure_ascii=False)).
"""

GOOD_NEWLINE_VERSION = r"""
newline controls universal newlines mode, that is how line endings are translated, and UTF-8 is
    selected with encoding="utf-8".
The newline parameter controls how line endings are handled; pass encoding='utf-8' to select
    UTF-8.
`newline` determines how line endings are translated (None, '', '\n', '\r', '\r\n'). Use
    `encoding="utf-8"` for UTF-8.
Line endings are translated according to newline, and encoding="utf-8" selects UTF-8.
Select UTF-8 with Path.read_text(encoding='utf8'). newline governs the translation of line
    endings.
newline doesn't select the encoding; it controls universal newline translation. UTF-8 is
    selected by encoding="utf-8".
newline specifies how line breaks are recognised when reading; set encoding to "utf-8".
In Python 3.13, Path.read_text(encoding="utf-8", newline=None) reads UTF-8; newline controls
    whether '\r\n' and '\r' are translated to '\n' as universal newlines.
newline controls line-ending translation, not the encoding. For UTF-8, set encoding="utf-8".
How newlines are translated is governed by the newline argument; UTF-8 is chosen by passing
    encoding="utf-8".
The translation of line endings is controlled by `newline`. To read UTF-8, pass
    `encoding='UTF-8'`.
newline decides how universal newlines are treated. With newline='' line endings are not
    translated. encoding="utf-8" selects UTF-8.
Use encoding="utf-8" to select UTF-8; the newline parameter tells read_text how to interpret the
    ends of lines, i.e. line endings.
newline sets the handling of line terminators rather than the encoding; encoding="utf-8" picks
    UTF-8.
The newline argument, added in 3.13, controls how line separators are handled, and never the
    encoding, which is chosen with encoding="utf-8".
newline affects newline translation and encoding="utf-8" selects UTF-8.
You select UTF-8 with encoding="utf-8", and newline is for controlling line endings.
The newline parameter controls how newlines are handled. Specify encoding="utf-8".
UTF-8 isn't selected by newline but by encoding="utf-8"; newline controls how line endings are
    normalised.
`newline` configures universal-newline handling, `encoding="utf-8"` the decoding.
read_text("utf-8") selects UTF-8, while newline controls the conversion of line endings.
Use UTF-8 as the encoding argument; newline defines which line endings are recognized.
newline controls how universal newlines mode works. Pass encoding="utf-8" to select UTF-8.
newline controls universal newline translation of line endings. UTF-8 is selected by
    encoding="utf-8".
In Python 3.13, newline controls the handling of line endings and you select UTF-8 by passing
    encoding='utf-8'.
The `newline` parameter controls line ending translation; `encoding='utf8'` selects UTF-8.
To select UTF-8, set encoding="utf-8". The newline argument controls how line endings are
    interpreted.
newline controls the translation of newlines: None translates '\r\n' to '\n', '' leaves them
    alone. Select UTF-8 with encoding="utf-8".
newline controls line endings, never the encoding. Pass encoding="utf-8".
newline does not set the encoding; it decides how line endings are translated. Pass
    encoding="utf-8" for UTF-8.
UTF-8 is selected by the encoding argument (encoding="utf-8"), line-ending translation by the
    newline argument.
newline works as in open(): it controls universal newlines. Set encoding='utf-8'.
By default newline=None enables universal newlines, where '\r', '\n' and '\r\n' all become '\n'.
    encoding="utf-8" selects UTF-8.
UTF-8 is not chosen through newline. Use encoding="utf-8"; newline controls line ending
    handling.
It controls how line endings are treated (newline), and encoding="utf-8" selects UTF-8.
newline controls whether line endings are translated or left untranslated. Specify `encoding` as
    `utf-8`.
Line ending handling is what newline controls; for UTF-8 say encoding="utf-8" rather than
    encoding="latin-1".
The newline parameter governs universal newlines, i.e. the translation of line endings; the
    encoding parameter set to "utf-8" selects UTF-8.
newline: controls line-ending translation. encoding="utf-8": selects UTF-8.
With newline you control how line endings are converted, instead of the encoding;
    encoding="utf-8" gives UTF-8.
newline='\n' means lines are only terminated by \n; it controls newline handling. For UTF-8:
    encoding="utf-8".
Path.read_text(encoding="utf-8", newline="") selects UTF-8 and disables the line ending
    translation that newline controls.
newline controls line-ending handling (universal newlines), encoding='utf-8' selects UTF-8.
The newline argument says how line endings are treated, and the encoding argument "utf-8"
    selects UTF-8.
UTF-8: encoding="utf-8". newline: how line endings are translated on reading.
`newline` is what controls universal newlines; `encoding="utf-8"`, not `newline`, selects UTF-8.
How line endings get translated depends on newline. For UTF-8, pass `encoding='utf-8'`.
The newline parameter does not choose UTF-8; that's done with encoding="utf-8". It controls
    line-ending translation.
Universal newline mode is controlled with newline. encoding="utf-8" must be given to select
    UTF-8.
newline controls how line endings are processed and has nothing to do with encoding; choose
    UTF-8 by encoding="utf-8".
newline="" keeps line endings untranslated; newline=None translates them. UTF-8 is selected via
    encoding="utf-8".
newline controls end-of-line translation; use encoding="utf-8".
"""

BAD_NEWLINE_VERSION = r"""
newline controls line endings.
Use encoding="utf-8".
newline selects the encoding; use newline="utf-8".
newline controls the encoding, and encoding="utf-8" selects UTF-8.
newline controls line endings; use encoding="latin-1".
newline controls line endings; use encoding="utf-16".
For Python 3.13 Path.read_text, what does newline control and how do I select UTF-8?
newline does not control line endings; encoding="utf-8" selects UTF-8.
newline never affects line endings. Use encoding="utf-8".
newline doesn't control how line endings are translated; set encoding="utf-8".
newline controls how line endings are translated, and UTF-8 is selected without
    encoding="utf-8".
newline controls the encoding rather than line endings; use encoding="utf-8".
The newline parameter was added in Python 3.13. Use encoding="utf-8".
newline controls line endings, and do not use encoding="utf-8".
newline controls line endings; use encoding="latin-1" instead of encoding="utf-8".
encoding controls line endings, and newline="utf-8" selects UTF-8.
newline controls line endings and encoding="utf-8" selects UTF-8; backups are kept for 7 days.
newline adds a line break at the end of the text; encoding="utf-8" selects UTF-8.
newline controls line endings; UTF-8 is selected by newline.
newline controls line endings; UTF-8 is always used.
newline has nothing to do with line endings; encoding="utf-8" selects UTF-8.
newline controls the maximum length of a line; encoding="utf-8" selects UTF-8.
Line endings are not controlled by newline; encoding="utf-8" selects UTF-8.
newline controls line endings. UTF-8 can't be selected with encoding="utf-8".
newline strips line endings; encoding="utf-8" selects UTF-8.
newline isn't about line endings; use encoding="utf-8".
newline controls line endings; encoding should not be "utf-8".
newline controls how line endings are translated; select UTF-8 with newline="utf-8".
newline controls how line endings are translated. Never set encoding="utf-8".
newline controls line endings and UTF-8 is the default.
encoding="utf-8" selects UTF-8 and newline was added in 3.13.
Path.read_text accepts encoding, errors and newline.
newline controls universal newlines; use encoding="cp1252" rather than encoding="utf-8".
newline controls universal newline translation.
Pass encoding="utf-8" to select UTF-8.
newline selects UTF-8.
The newline parameter controls the text encoding; set newline="utf-8" to select UTF-8.
newline doesn't control line endings; it selects the encoding, e.g. encoding="utf-8".
newline controls line endings. Select UTF-8 with encoding="utf-16".
newline controls line endings. Select UTF-8 with encoding="latin-1".
newline never controls line endings; encoding="utf-8".
newline controls the encoding instead of line endings, and encoding="utf-8" is ignored.
newline controls line endings; never pass encoding="utf-8".
newline controls line endings; UTF-8 is selected with newline rather than encoding="utf-8".
newline controls line endings and encoding='utf-8' selects UTF-8. A backup is retained.
What newline controls and how UTF-8 is selected is not documented.
In Python 3.13, Path.read_text accepts encoding, errors and newline.
newline controls the number of lines read, encoding="utf-8" selects UTF-8.
newline is ignored; line endings are always translated. encoding="utf-8" selects UTF-8.
newline is not related to line endings. encoding="utf-8".
Line endings aren't affected by newline. Use encoding="utf-8".
newline controls line endings; don't use encoding="utf-8", use encoding="ascii".
newline controls line endings; UTF-8 cannot be selected.
newline controls line endings; no encoding="utf-8" is needed.
Rather than translating line endings, newline selects the encoding, encoding="utf-8".
newline controls line endings, encoding is not how UTF-8 is selected.
newline="utf-8" selects UTF-8 and encoding controls universal newlines.
newline controls line endings; encoding="utf-8" doesn't select UTF-8.
newline only selects UTF-8 line endings; pass encoding="utf-16".
newline controls line endings, and errors="utf-8" selects UTF-8.
newline was added in 3.13 and controls line endings.
newline chooses UTF-8, encoding="utf-8" chooses line endings.
newline controls line endings, use encoding="utf-16" not encoding="utf-8".
newline controls line endings. encoding isn't set to "utf-8".
newline won't control line endings; encoding="utf-8" selects UTF-8.
newline controls how bytes are decoded; encoding="utf-8" selects UTF-8.
newline controls line endings; use encoding="utf-8-sig".
newline controls line endings; errors="strict" selects UTF-8.
newline can't change line endings; encoding="utf-8" selects UTF-8.
newline controls the encoding, never line endings; encoding="utf-8" selects UTF-8.
newline controls line endings; Path.read_text keeps a backup; encoding="utf-8" selects UTF-8.
newline controls line endings and selects UTF-8.
newline controls line endings and encoding; encoding="utf-8".
encoding="utf-8" selects UTF-8, but newline does not influence line endings.
"""

# Where nothing supports an answer, whatever is said is wrong, however true or careful it sounds.
BAD_UNSUPPORTED = """
Path.write_text does not retain backup copies; an existing file is simply overwritten.
It keeps backups for 30 days.
Backups are kept for seven days.
Zero days.
No backup is made.
It never keeps backup copies.
There is no backup, rather than one for some days.
An existing file is overwritten.
The documentation does not say how many days backup copies are retained.
I cannot answer this from the sources.
In Python 3.12, how many days does Path.write_text retain backup copies?
model_stopped
stop
"""

# (case, answer, what a reader would say): the patterns say the opposite.
KNOWN_LIMITS = (
    ("overwrite", "json.dumps overwrites an existing file.", "wrong"),
    ("overwrite", "I doubt that it overwrites the file.", "wrong"),
    ("overwrite", "An existing file is overwritten after thirty days.", "wrong"),
    ("overwrite", "The old text is thrown out.", "right"),
    ("overwrite", "The file's name is kept and its contents are overwritten.", "right"),
    (
        "newline-version",
        "newline controls how many line endings a file may have;"
        ' encoding="utf-8" selects UTF-8.',
        "wrong",
    ),
)

TABLES = {
    "overwrite": (GOOD_OVERWRITE, BAD_OVERWRITE),
    "serialize-and-save": (GOOD_SERIALIZE_AND_SAVE, BAD_SERIALIZE_AND_SAVE),
    "newline-version": (GOOD_NEWLINE_VERSION, BAD_NEWLINE_VERSION),
}


def answers(table: str) -> list[str]:
    """The answers of a table."""
    return re.sub(r"\n {4}", " ", table).strip().split("\n")


def shipped() -> dict[str, evaluate.Case]:
    """The cases in cases.json by id."""
    with open(os.path.join(ROOT, "cases.json"), encoding="utf-8") as file:
        return {case.id: case for case in evaluate.load_cases(json.load(file))}


class TheShippedLabels(unittest.TestCase):
    def setUp(self) -> None:
        self.cases = shipped()
        self.passages = published_passages()

    def graded(self, case: str, answer: str, **changes: Any) -> dict[str, Any]:
        result = answered(self.cases[case], answer, self.passages) | changes
        return evaluate.grade(self.cases[case], result, self.passages)

    def outcome(self, case: str, answer: str) -> str:
        return str(self.graded(case, answer)["checks"]["outcome"])

    def rows(self, which: int) -> Iterator[tuple[str, str]]:
        for case, tables in TABLES.items():
            self.assertGreaterEqual(len(answers(tables[which])), 10)
            yield from ((case, answer) for answer in answers(tables[which]))

    def test_right_answers_in_other_words_pass(self) -> None:
        """Other words, either quote mark, the opposite denied, another order."""
        for case, answer in self.rows(0):
            with self.subTest(case, answer=answer):
                self.assertEqual([], self.graded(case, answer)["findings"])
                self.assertEqual("pass", self.outcome(case, answer))

    def test_wrong_answers_in_the_right_words_fail(self) -> None:
        """The opposite, another setting, a part missing, the question again, a backup."""
        for case, answer in self.rows(1):
            with self.subTest(case, answer=answer):
                self.assertEqual("fail", self.outcome(case, answer))
                found = {one["finding"] for one in self.graded(case, answer)["findings"]}
                self.assertLessEqual(found, {"pattern_missing", "pattern_forbidden"})

    def test_right_words_with_another_passage_cited_fail(self) -> None:
        """Every answer that passes fails when what it rests on is not cited."""
        for case, answer in self.rows(0):
            with self.subTest(case, answer=answer):
                other = next(p for p in self.passages if p["source_id"] == "path-read")
                right = answered(self.cases[case], answer, self.passages)
                wrong = {"source_id": "path-read", "quote": other["text"], "url": other["url"]}
                found = self.graded(case, answer, citations=[wrong])["findings"]
                self.assertIn("source_not_cited", [one["finding"] for one in found])
                if len(right["citations"]) > 1:
                    found = self.graded(case, answer, citations=right["citations"][1:])["findings"]
                    self.assertEqual(["source_not_cited"], [one["finding"] for one in found])

    def test_any_answer_to_the_unsupported_question_fails(self) -> None:
        """Denying backups is as unsupported as claiming them."""
        for answer in answers(BAD_UNSUPPORTED):
            with self.subTest(answer):
                graded = self.graded("unsupported", answer)
                self.assertEqual("fail", graded["checks"]["outcome"])
                self.assertIn("should_have_stopped", [f["finding"] for f in graded["findings"]])

    def test_only_an_explicit_stop_passes_the_unsupported_question(self) -> None:
        """Running out of an allowance is no abstention, and neither is a refused proposal."""
        endings = {
            ("incomplete", "model_stopped"): "pass",
            ("incomplete", "deadline"): "incomplete",
            ("incomplete", "model_call_limit"): "incomplete",
            ("incomplete", "search_limit"): "incomplete",
            ("incomplete", "read_or_byte_limit"): "incomplete",
            ("failed", "duplicate_query"): "fail",
            ("failed", "invalid_decision"): "fail",
            ("failed", "model_stopped"): "fail",
            ("failed", "unfinished_model_reply"): "not_measured",
        }
        for (status, reason), outcome in endings.items():
            for searches in (0, 1, 3):
                with self.subTest(reason, searches=searches):
                    query = {"tool": "search", "arguments": {"query": "backup"}, "result": {}}
                    graded = self.graded(
                        "unsupported", "", status=status, reason=reason, citations=[],
                        observations=[query] * searches,
                    )
                    self.assertEqual(outcome, graded["checks"]["outcome"])

    def test_what_the_patterns_cannot_tell(self) -> None:
        """Known limits; the README lists them. When one falls, take it out of the list."""
        for case, answer, reader in KNOWN_LIMITS:
            with self.subTest(answer):
                misjudged = "pass" if reader == "wrong" else "fail"
                self.assertEqual(misjudged, self.outcome(case, answer))

    def test_check_warns_of_the_newline_case_and_of_nothing_else(self) -> None:
        """Its passage names newline and encoding, and says of neither what it does."""
        why = "no source of this case says it: a path that keeps to them must stop"
        self.assertEqual(
            [f"case 'newline-version': answer_patterns[{n}]: {why}" for n in (0, 1)],
            evaluate.weak_labels(self.cases.values(), self.passages),
        )
        self.assertEqual([], evaluate.label_faults(self.cases.values(), self.passages))

    def test_no_pattern_takes_long_on_a_hostile_answer(self) -> None:
        """All gaps are bounded: the work grows with the length of the answer and no faster."""
        for piece in (", it ", "not ", "((", "newline ", "overwrit", "dumps(", "a ", "encoding ="):
            answer = (piece * 2000)[: evaluate.ANSWER_CHARACTERS]
            for case in TABLES:
                with self.subTest(case, piece=piece):
                    self.assertIn(self.outcome(case, answer), ("fail", "pass"))


if __name__ == "__main__":
    unittest.main()
