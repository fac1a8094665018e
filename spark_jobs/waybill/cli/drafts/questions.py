"""What is asked while a migration is drawn up, with the evidence beside each question."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from waybill.cli.drafts.conversation import NOTHING, Conversation
from waybill.cli.drafts.migration_text import ranking
from waybill.cli.drafts.settings_to_decide import instants_of, lacking_ids
from waybill.cli.drafts.target_trial import try_target
from waybill.counting import counted
from waybill.envelopes import registry
from waybill.errors import ConfigurationError, WaybillError
from waybill.inprocess.job import checked_settings
from waybill.inprocess.lines import check_new
from waybill.spec.values import check_migration_name

if TYPE_CHECKING:
    from waybill.cli.drafts.draft import Draft
    from waybill.cli.drafts.reading import Lacking, SeveralFit

MOST = 10
"""Tables whose key is asked for; of more, the file tells."""


class Questions:
    """The questions, one method each; an answer is asked for again until it can be."""

    def __init__(self) -> None:
        self.talk = Conversation()

    def envelope(self, error: SeveralFit) -> str:
        """Which of several envelopes it is."""
        self.talk.say(error.sentence.partition(": say which")[0])
        answer = ""
        while not answer:
            answer = self.talk.choose(f"Which is it, {' or '.join(error.names)}?", error.names)
        return answer

    def schemas(self, error: Lacking) -> Path | str | None:
        """Where the schemas are: a file or folder, or the URL of a registry; None to give up."""
        if not {"schemas", "registry"} & set(error.needs):
            return None
        self.talk.say(error.sentence.rpartition(": give")[0])
        model = registry.get(error.name).decode_settings
        urls = "registry" in model.model_fields

        def check(answer: str) -> None:
            if urls and "://" in answer:
                checked_settings(model, {"registry": answer}, registry.get(error.name), "from")
            elif answer and not Path(answer).expanduser().exists():
                raise ConfigurationError(f"there is no file or folder {answer}")

        what = "URL of the schema registry, or file" if urls else "File"
        answer = self.talk.ask(f"{what} or folder of schemas (Enter to stop)", "", check)
        if not answer:
            return None
        return answer if urls and "://" in answer else Path(answer).expanduser()

    def name(self, proposal: str) -> str:
        """The migration's name."""
        return self.talk.ask("Name of the migration", proposal, check_migration_name)

    def file(self, proposal: Path, force: bool) -> Path:
        """Where the file goes."""

        def check(answer: str) -> None:
            check_new(force, answer)

        return Path(self.talk.ask("File to write", str(proposal), check))

    def targets(self, draft: Draft) -> list[tuple[str, str]]:
        """Where to publish: envelopes and places."""
        names = [e.name for e in registry.all_envelopes() if e.encoder is not None]
        losses = ", ".join(f"{name} ({count})" for name, count in ranking(draft)[:5])
        self.talk.say(f"What {draft.reading.envelope.name} has and others lose, in kinds: {losses}")
        found: list[tuple[str, str]] = []
        while True:
            more = "another envelope" if found else "which envelope"
            name = self.talk.choose(f"Publish in {more} (Enter for none)", names)
            if not name:
                return found
            try:
                try_target(draft.reading, name, {}, draft.reading.evidence.changes)
            except ConfigurationError as error:
                self.talk.say(error.sentence, "red")
                continue
            folder = draft.output_folder(name)
            place = self.talk.ask("To which folder, or kafka:TOPIC", folder)
            found.append((name, "" if place == folder else place))

    def keys(self, draft: Draft) -> None:
        """The keys of tables that state none."""
        without = [t for t in draft.tables if not t.key and t.name not in draft.keys]
        for table in without[:MOST]:
            guesses = table.key_guesses
            proposal = ", ".join(guesses[0].columns) if guesses else NOTHING
            if guesses:
                self.talk.say(guesses[0].sentence)
            question = f"Key of {table.name} ({NOTHING} to decide later)"
            answer = self.talk.ask(question, proposal, _columns_of(list(table.columns)))
            if answer != NOTHING:
                draft.keys[table.name] = [name.strip() for name in answer.split(",")]

    def types(self, draft: Draft) -> None:
        """Whether the types that the sample suggests are declared."""
        guesses = {} if draft.types else draft.guesses
        count = sum(len(types) for types in guesses.values())
        if not count:
            return
        self.talk.say(f"The messages do not state the types of {counted(count, 'column')}:")
        for table, types in list(guesses.items())[:MOST]:
            listed = ", ".join(f"{name} {guess.type}" for name, guess in list(types.items())[:8])
            self.talk.say(f"  {table}: {listed}")
        if self.talk.confirm("Declare the types that hold the sample"):
            draft.take_types()

    def settings(self, draft: Draft) -> None:
        """The time zone of the source's clocks, and where ids of targets come from."""
        reading = draft.reading
        model = reading.envelope.decode_settings
        instants, columns = instants_of(reading.evidence)
        if instants and "timezone" in model.model_fields and "timezone" not in reading.settings:
            self.talk.say(
                f"{counted(instants, 'time')} in {columns} show a server's clock, no zone"
            )

            def check(zone: str) -> None:
                checked_settings(model, {"timezone": zone}, reading.envelope, "from")

            zone = self.talk.ask("Time zone of that clock", "UTC", check)
            reading.settings["timezone"] = zone
        for target in draft.targets:
            lacking = lacking_ids(reading, target)
            if not lacking:
                continue
            changes = counted(len(reading.evidence.changes), "change")
            self.talk.say(
                f"{lacking} of {changes} have no sequence id, and {target.envelope} needs one"
            )
            if self.talk.confirm("Make ids from the position (they order a partition only)"):
                settings = {**target.settings, "sequence_from": "position"}
                try:
                    target.trial = try_target(
                        reading, target.envelope, settings, reading.evidence.changes
                    )
                except WaybillError as error:
                    self.talk.say(error.sentence, "red")
                else:
                    target.settings = settings


def _columns_of(known: list[str]) -> Callable[[str], None]:
    def check(answer: str) -> None:
        if answer == NOTHING:
            return
        names = [name.strip() for name in answer.split(",")]
        strange = [name for name in names if name not in known]
        if strange:
            listed = ", ".join(known[:20])
            raise ConfigurationError(f"there is no column {strange[0]!r}; there are {listed}")

    return check
