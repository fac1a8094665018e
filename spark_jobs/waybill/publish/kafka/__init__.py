"""Publishes to topics of Kafka: every message once, in the order of the source.

The outbox of a batch is cut into parts, and each part is one transaction that also holds its entry
in a ledger, a compacted topic. Four rules make it exact:

1. One transactional id for each target of a migration. Whoever publishes to the target begins by
   taking it (`init_transactions`): from then on every older run is fenced, and the fate of what it
   left open is decided.
2. Only then the ledger is looked up. What stands there was sent, what does not was not: nobody
   else can write for this target any more.
3. Parts are sent one after another, each only when the one before is committed.
4. The entry is the last record of its transaction, so messages and entry are there together or not
   at all.

Parts belong to the batch that made their messages, not to the run that sends them. So a run that
takes over what an earlier batch left half sent goes on with the same parts.

Guaranteed for readers with `isolation.level=read_committed`: every message of the outbox is in the
topic once; in every partition of the topic the messages stand in the order of the source (topic,
partition, offset, index). Messages of one key go to one partition, so their order is the source's.
Parts are not sent side by side: one sender per target is what keeps the order in each partition
also where a topic has only one, and the brokers are busy with it before Spark is.
"""
