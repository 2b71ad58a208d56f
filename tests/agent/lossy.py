"""A cluster that loses answers on purpose: the request was carried out, and nobody hears of it."""

from typing import Any, Final

from holdfast.client.cluster import Address, Cluster
from holdfast.client.connection import Connection, Taker
from holdfast.client.retry import PAUSE_S_FIRST, Patience

END_TXN: Final = 26


class LossyConnection(Connection):
    """Drops the next answer to each API key in `lose`, with the connection, and notes it in `lost`."""

    def __init__(self, host: str, port: int, *, lose: set[int], lost: list[int]) -> None:
        self._lose = lose
        self._lost = lost
        super().__init__(host, port)

    def _exchange(self, request: Any, taker: Taker | None = None) -> Any:
        answer = super()._exchange(request, taker)
        if request.API_KEY in self._lose:
            self._lose.remove(request.API_KEY)
            self._lost.append(request.API_KEY)
            self._fail(f"never answered {request.name}")
        return answer


class LossyCluster(Cluster):
    """As it says."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.lose: set[int] = set()
        self.lost: list[int] = []
        self.is_patient = True

    def patience(self, *, pause_s_first: float = PAUSE_S_FIRST) -> Patience:
        """None at all where a lost answer shall reach the caller."""
        return super().patience(pause_s_first=pause_s_first) if self.is_patient else Patience(0)

    def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = LossyConnection(address.host, address.port, lose=self.lose, lost=self.lost)
            self._connections[address] = connection
        return connection


def lose_the_next(api_key: int, cluster: LossyCluster) -> None:
    """Its answer, so that whoever asks hears of that: nobody asks again."""
    cluster.lose.add(api_key)
    cluster.is_patient = False
    cluster.coordinators.clear()  # one that is remembered would be asked a second time
