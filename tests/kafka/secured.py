"""Real brokers that let nobody in without TLS, a certificate and a password, and do what a user has the right to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from holdfast.lab.kafka_broker import STARTS_FAST, KafkaCluster
from tests.cli.commands import Command
from tests.client.certificates import PASSWORD, Authority, Identity

REAUTHENTICATION_MS = 3000
VIEWER, BLIND, WORKER = "viewer", "blind", "worker"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Secured:
    """Two brokers behind SASL_SSL, and the options that get a client in; who comes in at `plain` may do anything."""

    def __init__(self, brokers: KafkaCluster, authority: Authority, ours: Identity) -> None:
        self.plain = brokers.bootstrap
        self.bootstrap = brokers.bootstrap_of("SECURE")
        self.command = Command(self.bootstrap)
        self._admin = AdminClient({"bootstrap.servers": self.plain, "log_level": 0})
        self._authority = authority
        self._ours = ours

    def properties(self, user: str, mechanism: str = "PLAIN") -> dict[str, str]:
        """By librdkafka's names."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._authority.certificate),
            "ssl.certificate.location": str(self._ours.certificate),
            "ssl.key.location": str(self._ours.key),
            "ssl.key.password": PASSWORD,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password_of(user),
        }

    def options(self, user: str, mechanism: str = "PLAIN", **changed: str) -> list[str]:
        """The same on a command line."""
        named = {name.replace("_", "."): value for name, value in changed.items()}
        given = self.properties(user, mechanism) | named
        return [part for name, value in given.items() if value for part in ("-X", f"{name}={value}")]

    def allow(
        self,
        user: str,
        operations: str,
        name: str,
        *,
        kind: ResourceType = ResourceType.TOPIC,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    ) -> None:
        """Gives rights on what has the name, or begins with it."""
        wanted = [
            AclBinding(kind, name, pattern, f"User:{user}", "*", AclOperation[each], AclPermissionType.ALLOW)
            for each in operations.split()
        ]
        for future in self._admin.create_acls(wanted).values():
            future.result(60)

    def let_in(self, user: str) -> None:
        """By SCRAM; PLAIN knows its users from the beginning."""
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = ScramCredentialInfo(mechanism, 4096)
            wanted = UserScramCredentialUpsertion(user, credential, password_of(user).encode())
            for future in self._admin.alter_user_scram_credentials([wanted]).values():
                future.result(60)


def password_of(user: str) -> str:
    """Each has another one."""
    return f"{user}-secret"


@contextmanager
def secured_brokers(directory: Path, jars: Path) -> Iterator[Secured]:
    """Two brokers; nobody has any rights yet."""
    authority = Authority(directory)
    keystore = directory / "broker.keystore.pem"
    broker = authority.vouch_for("broker")
    keystore.write_text(broker.key.read_text() + broker.certificate.read_text())
    with KafkaCluster(
        directory / "kafka",
        jars=jars,
        nodes=2,
        listeners={"SECURE": "SASL_SSL"},
        properties=_properties(keystore, authority.certificate),
        heap_mb=400,
        java_options=STARTS_FAST,
    ) as brokers:
        yield Secured(brokers, authority, authority.vouch_for("client", password=PASSWORD))


def _properties(keystore: Path, truststore: Path) -> dict[str, str]:
    security = "org.apache.kafka.common.security"
    users = " ".join(f'user_{name}="{password_of(name)}"' for name in (VIEWER, BLIND, WORKER))
    jaas = {
        "plain": f"{security}.plain.PlainLoginModule required {users};",
        "scram-sha-256": f"{security}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{security}.scram.ScramLoginModule required;",
    }
    secure = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(truststore),
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    } | {f"{mechanism}.sasl.jaas.config": value for mechanism, value in jaas.items()}
    return {
        "connections.max.reauth.ms": str(REAUTHENTICATION_MS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "offsets.topic.replication.factor": "2",
        "transaction.state.log.replication.factor": "2",
    } | {f"listener.name.secure.{name}": value for name, value in secure.items()}
