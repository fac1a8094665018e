"""A Kafka broker: one node of Apache Kafka on the loopback address, for tests and demos."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from stack.server import Server, ServerError, listening
from waybill_airflow.free_ports import LOOPBACK, free_port

JARS = Path(__file__).resolve().parent.parent / "jars" / "kafka"
"""Where `make servers` puts Kafka."""

CLUSTER = "AAAAAAAAQACAAAAAAAAAAQ"
"""Any id will do where nothing else is on the network; it must look like one."""

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    # On one node every internal topic needs replication 1: otherwise transactions wait for ever.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # A broker that was killed may come back under its number after this time.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    # Compaction and deletion are seen within seconds.
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    # Few threads for a small machine.
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
}


class Broker(Server):
    """One broker, its data and its topics. A second start on the same folder keeps what was there.

    Who comes by the plain listener is not asked for a password and may do everything. With `users`
    there are listeners with a login (SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN), whose users may do
    what access control lists allow them; with `certificate` there are those with TLS.

    Args:
        folder: where data, settings and log are.
        port: of the plain listener; a free one where 0.
        users: passwords by user.
        certificate: PEM file with the private key and the chain of certificates of `127.0.0.1`.
        properties: further settings of the broker, which go before ours.
        compiled: whether Java's second compiler works, which a broker that carries little for some
            minutes never pays off.
    """

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        users: Mapping[str, str] | None = None,
        certificate: Path | None = None,
        properties: Mapping[str, str] | None = None,
        compiled: bool = False,
    ) -> None:
        self.folder = folder.absolute()
        self.users = dict(users or {})
        protocols = ["PLAINTEXT"]
        protocols += ["SASL_PLAINTEXT"] if users else []
        protocols += ["SSL"] if certificate else []
        protocols += ["SASL_SSL"] if users and certificate else []
        self._ports = {name: free_port() for name in [*protocols, "CONTROLLER"]}
        self._ports["PLAINTEXT"] = port or self._ports["PLAINTEXT"]
        self._properties = {
            **SETTINGS,
            **self._listeners(protocols),
            **(self._logins() if users else {}),
            **(_tls(certificate) if certificate else {}),
            "log.dirs": str(self.folder / "data"),
            **(properties or {}),
        }
        super().__init__(
            "the Kafka broker",
            self._java("kafka.Kafka", str(self._settings), compiled=compiled),
            self.folder / "kafka.log",
            lambda: all(listening(self._ports[name]) for name in protocols) and self._leads(),
            # After a kill it looks through every partition, which a busy machine is slow at.
            patience=180,
        )

    @property
    def servers(self) -> str:
        """Host and port of the plain listener, as `bootstrap.servers` takes them."""
        return self.address("PLAINTEXT")

    def address(self, protocol: str) -> str:
        """Host and port of the listener with a `security.protocol`."""
        return f"{LOOPBACK}:{self._ports[protocol]}"

    def start(self) -> None:
        """Start it and wait until clients are accepted.

        Raises:
            ServerError: Kafka is not there, or the broker does not start; the log is named.
        """
        if not any(JARS.glob("kafka_*.jar")):
            message = f"there is no Kafka in {JARS}: run `make servers`"
            raise ServerError(message)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._settings.touch(mode=0o600)
        self._settings.write_text(
            "".join(f"{key}={value}\n" for key, value in self._properties.items()), encoding="utf-8"
        )
        if not (self.folder / "data" / "meta.properties").is_file():
            self._format()
        super().start()
        if self.users:
            self._store_passwords()

    def create_topic(self, name: str, partitions: int = 1, **settings: str) -> str:
        """Make a topic and wait until clients see it.

        Args:
            name: of the topic.
            partitions: how many.
            settings: of the topic, with _ for each dot (`cleanup_policy="compact"`).

        Returns:
            The name.
        """
        config = {key.replace("_", "."): value for key, value in settings.items()}
        topic = NewTopic(name, partitions, 1, config=config)
        with self._admin() as admin:
            admin.create_topics([topic])[name].result(30)
            await_topic(admin, name, partitions)
        return name

    def _admin(self) -> AdminClient:
        """To be closed: collected in a thread of its own, it would end this process."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 2})

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    def _listeners(self, protocols: list[str]) -> dict[str, str]:
        """The addresses; every listener is called as its protocol."""
        reached = [f"{name}://{self.address(name)}" for name in protocols]
        controller = self.address("CONTROLLER")
        return {
            "listeners": ",".join([*reached, f"CONTROLLER://{controller}"]),
            "advertised.listeners": ",".join(reached),
            "listener.security.protocol.map": ",".join(
                [*(f"{name}:{name}" for name in protocols), "CONTROLLER:PLAINTEXT"]
            ),
            "controller.quorum.voters": f"1@{controller}",
        }

    def _logins(self) -> dict[str, str]:
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        known = "".join(f' user_{name}="{word}"' for name, word in self.users.items())
        settings = {
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            name = f"listener.name.{listener}"
            settings[f"{name}.plain.sasl.jaas.config"] = f"{plain}{known};"
            settings[f"{name}.scram-sha-256.sasl.jaas.config"] = scram
            settings[f"{name}.scram-sha-512.sasl.jaas.config"] = scram
        return settings

    def _leads(self) -> bool:
        """Whether every partition of before has its leader again."""
        try:
            with self._admin() as admin:
                known = admin.list_topics(timeout=5)
        except KafkaException:
            return False
        partitions = (p for topic in known.topics.values() for p in topic.partitions.values())
        return bool(known.brokers) and all(partition.leader >= 0 for partition in partitions)

    def _store_passwords(self) -> None:
        """Tell the broker the users of SCRAM; not at its format, where they would be arguments."""
        with self._admin() as admin:
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                # A user may be changed once in a request.
                kind = ScramCredentialInfo(mechanism, 4096)
                changes: list[UserScramCredentialAlteration] = [
                    UserScramCredentialUpsertion(name, kind, word.encode())
                    for name, word in self.users.items()
                ]
                for done in admin.alter_user_scram_credentials(changes).values():
                    done.result(30)

    def _format(self) -> None:
        words = ["format", "-t", CLUSTER, "-c", str(self._settings)]
        with self.log.open("ab") as out:
            command = self._java("kafka.tools.StorageTool", *words)
            code = subprocess.run(command, stdout=out, stderr=out, check=False).returncode
        if code:
            message = f"the folder of {self.name} could not be prepared: see {self.log}"
            raise ServerError(message)

    @staticmethod
    def _java(main: str, *arguments: str, compiled: bool = False) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        compilers = [] if compiled else ["-XX:TieredStopAtLevel=1"]
        return [
            str(Path(home) / "bin" / "java") if home else "java",
            *("-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", *compilers),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
            *("-cp", f"{JARS}/*", main, *arguments),
        ]


def _tls(certificate: Path) -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate.absolute())}


def await_topic(client: AdminClient, name: str, partitions: int = 1, patience: float = 30) -> None:
    """Wait until a topic that was just made is seen, with a leader for each of its partitions.

    Args:
        client: of the cluster.
        name: of the topic.
        partitions: how many it was made with.
        patience: seconds to wait.

    Raises:
        ServerError: it is not seen in time.
    """
    limit = time.monotonic() + patience
    while time.monotonic() < limit:
        try:
            found = client.list_topics(timeout=5).topics.get(name)
        except KafkaException:
            found = None
        led = [p for p in found.partitions.values() if p.leader >= 0] if found else []
        if len(led) >= partitions:
            return
        time.sleep(0.05)
    message = f"the topic {name} was made and is not seen: look at the log of the broker"
    raise ServerError(message)
