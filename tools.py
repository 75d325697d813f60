"""tools acts: the two tools a model may propose, search and read, over the passages of one version.

It never decides whether a tool may be used (agent does) and never changes a passage. What a search hands out are
handles with receipts; what no longer matches its receipt is never handed on.
"""

import re
import unicodedata

import agent
import retrieval


class Toolbox:
    """The tools over one version of an index; the shape is `agent.Tools`. Raises ValueError for an unknown version."""

    def __init__(self, index: retrieval.Index, version: str) -> None:
        if version not in index.versions:
            raise ValueError(f"no passage of version {version}; there are {', '.join(index.versions)}")
        self._index, self._version = index, version

    def terms(self, text: str) -> tuple[str, ...]:
        """The terms of a text, in order, cut as the index cuts them; raises agent.Fault."""
        try:
            return self._index.terms(text)
        except retrieval.SearchFailed as error:
            raise _failed(error) from None

    def substance(self, quote: str) -> int:
        """How many terms a quote has: repeated ones count, characters of unspaced scripts count one each."""
        return len(self.terms(retrieval.spaced(quote)))

    def search(self, query: str, limit: int) -> tuple[agent.Handle, ...]:
        """At most `limit` handles, best first; raises agent.Fault when the search failed."""
        try:
            ranking = self._index.search(query, self._version, limit)
        except retrieval.SearchFailed as error:
            raise _failed(error) from None
        return tuple(
            agent.Handle(at.source_id, rank, at.version, at.text_sha256, len(at.text.encode("utf-8")), at.title)
            for rank, at in enumerate(ranking.passages, 1))

    def read(self, handle: agent.Handle) -> dict[str, str]:
        """The passage of a handle as a model may quote it; raises agent.Fault when it is not what was found."""
        passage = self._unchanged(handle)
        if passage is None:
            raise agent.Fault(agent.Reason.CHANGED_READ, f"{handle.source_id!r} is not what the search found")
        return {name: getattr(passage, name) for name in ("source_id", "version", "text", "url", "text_sha256")}

    def verify(self, handle: agent.Handle, quote: str) -> str:
        """Why the passage, as it is now, does not hold the quote to the letter; empty when it does."""
        passage = self._unchanged(handle)
        if passage is None:
            return f"{agent.shown(handle.source_id)} no longer matches its receipt"
        if quote in passage.text:
            return ""
        hint = "it differs only in typography" if _plain(quote) in _plain(passage.text) else "no such run of characters"
        return f"the quote is not in {agent.shown(handle.source_id)} exactly ({hint}): {agent.shown(quote)}"

    def _unchanged(self, handle: agent.Handle) -> retrieval.Passage | None:
        try:
            passage = self._index.passage(handle.source_id, handle.version)
        except retrieval.SearchFailed as error:
            raise _failed(error) from None
        if passage is None or retrieval.text_sha256(passage.text) != handle.text_sha256:
            return None
        return passage


def _failed(error: retrieval.SearchFailed) -> agent.Fault:
    return agent.Fault(agent.Reason.SEARCH_FAILED, f"the index did not answer: {error}")


def _plain(text: str) -> str:
    """The text without what typography alone changes: case, quotes, dashes, white space, invisible marks, accents."""
    text = unicodedata.normalize("NFKD", text).casefold()
    text = re.sub("[\u2018-\u201f\u2032-\u2037\u00ab\u00bb\u2039\u203a`\"]", "'", text)
    text = re.sub("[\u2010-\u2015\u2212]", "-", text)
    kept = (char for char in text if unicodedata.category(char) not in ("Cf", "Mn"))
    return " ".join("".join(kept).split())
