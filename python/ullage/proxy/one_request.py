"""The connection of a request that offers another protocol: few do, and another parser reads them."""

from __future__ import annotations

from uvicorn.protocols.http.h11_impl import H11Protocol


class OneRequest(H11Protocol):
    """Close after its answer, since the next request's headers would have no time limit."""

    def on_response_complete(self) -> None:
        """Close the connection."""
        self.transport.close()
        super().on_response_complete()
