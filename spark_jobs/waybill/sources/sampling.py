"""A look at a source without moving anything: what there is, and its first messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.counting import counted
from waybill.sources.sample import SourceSample

if TYPE_CHECKING:
    from waybill.spec.endpoints import FilesSource, Source


def sample_of(source: Source, messages: int) -> SourceSample:
    """Look at a source.

    Args:
        source: of a migration.
        messages: how many are wanted.

    Raises:
        SourceError: there is nothing, or it cannot be read.
        ConfigurationError: the connection, a topic or a right is missing.
        UnreachableError: the servers do not answer.
    """
    if source.kafka is not None:
        from waybill.sources.kafka.sample import sample_topics

        return sample_topics(source.kafka, messages)
    assert source.files is not None, "a source is one of the two"
    return _sample_files(source.files)


def _sample_files(source: FilesSource) -> SourceSample:
    from waybill.sources.cursor import FilesCursor
    from waybill.sources.files import left_out_sentence, plan, read_tasks

    work = plan(source, FilesCursor(None, {}, 0, 0))
    size = sum(task.size for task in work.tasks)
    text = f"{counted(len(work.tasks), 'file')}, {size / 1e6:.1f} MB, layout {source.layout}"
    notes = [left_out_sentence(work.left_out)] if work.left_out else []
    batches = read_tasks(work.tasks, source.layout, "", lambda task, counts: None)
    return SourceSample(
        bool(work.tasks), text, {"files": len(work.tasks), "bytes": size}, notes, batches
    )
