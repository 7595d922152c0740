"""The calls of the console's API about personal tokens and page sessions, typed by the contract."""

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract.tokens import OthersEnded, TokenList


class TokenConsole(Console):
    """The console as its API lists and ends tokens and sessions."""

    def tokens(self, *, everybody: bool = False) -> TokenList:
        """Those of the caller that live, or everybody's for administrators."""
        return self._get(TokenList, "/tokens", {"everybody": "true"} if everybody else None)

    def revoke_token(self, token_id: int) -> None:
        """End one."""
        self.connection.send(Request(method="DELETE", path=f"/tokens/{token_id}"))

    def revoke_others(self) -> OthersEnded:
        """End all of the caller's but the token in use."""
        return self._send(OthersEnded, Request(method="POST", path="/tokens/revoke-others"))
