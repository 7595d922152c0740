import pytest

from starforge.contract.remotes import strip_credentials


@pytest.mark.parametrize(
    ("remote", "kept"),
    [
        ("https://ann:secret@git.example/a.git", "https://git.example/a.git"),
        ("https://secret@git.example/a.git?token=secret#secret", "https://git.example/a.git"),
        ("https://a@secret@git.example/a.git", "https://git.example/a.git"),
        ("https://ann:secret@[bad/a@b.git?secret", "https://b.git"),
        ("ssh://git:secret@git.example:22/a.git", "ssh://git@git.example:22/a.git"),
        ("git:secret@git.example:a.git", "git@git.example:a.git"),
        ("/srv/git/a.git", "/srv/git/a.git"),
    ],
)
def test_nothing_of_a_credential_is_left_in_the_address_of_a_remote(remote: str, kept: str) -> None:
    assert strip_credentials(remote) == kept
